"""Each code that the front end can raise has a section in the reference, with an example and a remedy."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = ("00", "01", "02", "03", "09")
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text()


def raised() -> set[str]:
    files = [*(ROOT / "laminar_dagster" / "sql").glob("*.py"), *(ROOT / "laminar_dagster" / "plan").glob("*.py")]
    return {code for path in files for code in re.findall(r"\bLMR\d{4}\b", path.read_text())}


def sections() -> dict[str, str]:
    found = re.split(r"^###? ", PAGE, flags=re.MULTILINE)[1:]
    return {text[:7]: text for text in found if text.startswith("LMR") and text[3:5] in OURS}


def test_every_code_of_sql_and_plan_has_a_section_and_the_other_way_round() -> None:
    assert sorted(sections()) == sorted(raised())


def test_every_section_has_an_example_and_a_remedy() -> None:
    assert [code for code, text in sections().items() if "Example:" not in text or "Remedy:" not in text] == []
