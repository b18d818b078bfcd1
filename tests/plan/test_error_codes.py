"""Each code that the front end can raise has a section in the reference, with an example and a remedy."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text()


def raised() -> set[str]:
    files = [*(ROOT / "laminar_dagster" / "sql").glob("*.py"), *(ROOT / "laminar_dagster" / "plan").glob("*.py")]
    return {code for path in files for code in re.findall(r"\bLMR\d{4}\b", path.read_text())}


def test_every_code_of_sql_and_plan_has_a_section() -> None:
    assert sorted(raised() - set(re.findall(r"^## (LMR\d{4}) ", PAGE, re.MULTILINE))) == []


def test_every_documented_code_of_sql_and_plan_can_be_raised() -> None:
    documented = {code for code in re.findall(r"^## (LMR\d{4}) ", PAGE, re.MULTILINE) if code[3:5] in ("00", "01", "02", "03", "09")}
    assert sorted(documented - raised()) == []


def test_every_section_says_what_it_means_and_what_to_do() -> None:
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        if section.startswith("LMR") and section[3:5] in ("00", "01", "02", "03", "09"):
            assert "Remedy" in section, section.splitlines()[0]
