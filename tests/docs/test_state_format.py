"""The page of the state on disk says what the code writes: its version, and the columns of each table."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from state_store import format as f

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "state-format.md").read_text(encoding="utf-8")
SCHEMAS = {
    "The epoch log: `epochs`": f.EPOCH_SCHEMA,
    "`timers`": f.TIMER_SCHEMA,
    "`source_files`": f.SOURCE_FILE_SCHEMA,
    "`seen_keys`": f.SEEN_KEY_SCHEMA,
}
TYPES = {pa.int64(): "BIGINT", pa.string(): "STRING", f.TIMESTAMP: "TIMESTAMP"}


def documented(heading: str) -> dict[str, str]:
    """The columns of the first table below a heading, each with its type."""
    (section,) = re.findall(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    table = re.search(r"^\| column \| type \|.*?(?=\n\n|\Z)", section, re.MULTILINE | re.DOTALL)
    assert table is not None
    rows = re.findall(r"^\| (`.+?) \| (\w+) \|", table[0], re.MULTILINE)
    return {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}


@pytest.mark.parametrize("heading", SCHEMAS)
def test_a_table_of_the_state_has_the_columns_of_its_section(heading: str) -> None:
    assert documented(heading) == {field.name: TYPES[field.type] for field in SCHEMAS[heading]}


def test_a_change_of_the_format_is_documented_with_every_version_before_it() -> None:
    assert f"**format version {f.FORMAT_VERSION}**" in PAGE
    (section,) = re.findall(r"^## Format version$(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    assert {int(number) for number in re.findall(r"\b\d\b", section)} >= set(range(1, f.FORMAT_VERSION + 1))
    told = re.search(r"Saved state: format version (\d+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert told is not None
    assert int(told[1]) == f.FORMAT_VERSION
