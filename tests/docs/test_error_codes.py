"""Every error code has a section in the reference, and every section a code."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

PACKAGES = ("laminar_dagster", "state_store", "assets")


def codes_in_the_code() -> set[str]:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {code for path in files for code in re.findall(r"\bLMR\d{4}\b", path.read_text(encoding="utf-8"))}


def codes_in_the_reference() -> list[str]:
    text = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    return re.findall(r"^#+ (LMR\d{4})\b", text, re.MULTILINE)


def test_every_code_has_a_section() -> None:
    assert codes_in_the_code() - set(codes_in_the_reference()) == set()


def test_every_section_is_of_a_code_that_is_used() -> None:
    assert set(codes_in_the_reference()) - codes_in_the_code() == set()


def test_no_code_has_two_sections() -> None:
    found = codes_in_the_reference()
    assert len(found) == len(set(found))


def test_the_sections_are_in_order() -> None:
    found = codes_in_the_reference()
    assert found == sorted(found)
