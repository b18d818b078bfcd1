"""Each file in `refused/` is SQL with one mistake, each in `accepted/` SQL that means something; the text is beside it.

LAMINAR_REWRITE_GOLDEN=1 writes the texts anew, to be read before they are committed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from laminar_dagster.errors import LaminarError, NotWiredError
from laminar_dagster.plan.build import declared_columns_only, plan_statements
from laminar_dagster.plan.explain import explain
from laminar_dagster.plan.plan import Plan, layout_of
from laminar_dagster.sql.resolve import resolve
from laminar_dagster.sql.statements import Script, parse_script

HERE = Path(__file__).parent
REFUSED = sorted((HERE / "refused").glob("*.sql"))
ACCEPTED = sorted((HERE / "accepted").glob("*.sql"))


def script(path: Path) -> Script:
    return parse_script((HERE / "sources.sql").read_text(), "sources.sql") + parse_script(path.read_text(), path.name)


def compare(path: Path, text: str) -> None:
    golden = path.with_suffix(".txt")
    if os.environ.get("LAMINAR_REWRITE_GOLDEN"):
        golden.write_text(text + "\n")
    assert text + "\n" == golden.read_text()


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_a_mistake_is_refused_with_its_place_and_a_remedy(path: Path) -> None:
    with pytest.raises(LaminarError) as caught:
        plan_statements(script(path))
    compare(path, caught.value.render())
    assert isinstance(caught.value, NotWiredError) == path.stem.startswith("not_wired")
    assert caught.value.where is not None


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_a_form_of_the_language_resolves_to_what_it_means(path: Path) -> None:
    query = resolve(script(path), declared_columns_only)[-1]
    compare(path, explain(Plan(query, layout_of(query))))
