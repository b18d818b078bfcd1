"""A search for counterexamples: every law again and again, on new examples, for its share of the budget.

Hooks of pytest, for tests/laws/search.py. A law that fails is shown with an `@example` to paste above it: the least one
that Hypothesis came down to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any

import pytest
from hypothesis import is_hypothesis_test
from hypothesis import strategies as st

from tests.laws.examples import BUDGET

SECTION = "counterexample"
EXAMPLES = "examples"
# An example on Spark takes seconds, another one milliseconds: laws on Spark need more time to see as much.
SHARE_ON_SPARK = 6


def is_law(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)


def share_of(item: pytest.Item) -> float:
    """How many seconds of the budget, of all workers together, are the law's."""
    shares = {each.nodeid: _share(each) for each in item.session.items if is_law(each)}
    workers = int(getattr(item.config, "workerinput", {}).get("workercount", 1))
    return BUDGET * workers * shares[item.nodeid] / sum(shares.values())


def _share(item: pytest.Item) -> int:
    return SHARE_ON_SPARK if item.get_closest_marker("spark") else 1


def search(item: pytest.Function) -> None:
    """Run the law on new examples until its time is over, or until it fails."""
    given = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    handle = item.obj.hypothesis
    seen = Seen(handle.inner_test, given, until=time.monotonic() + share_of(item))
    handle.inner_test = seen.watched()
    try:
        item.obj(**given)
        while not seen.is_over:
            item.obj(**given)
    except Exception:
        item.add_report_section("call", SECTION, f"{item.nodeid}\n{seen.to_paste()}")
        raise
    finally:
        handle.inner_test = seen.law
        item.user_properties.append((EXAMPLES, seen.examples))


class Seen:
    """A law that counts the examples it is held against, and keeps the last one that broke it."""

    def __init__(self, law: Callable[..., None], given: Mapping[str, Any], until: float) -> None:
        self.law, self.given, self.until = law, given, until
        self.examples = 0
        self.broke: Mapping[str, Any] = {}

    @property
    def is_over(self) -> bool:
        """Whether the time is up. A law that is broken takes what it needs to come down to the least example."""
        return not self.broke and time.monotonic() >= self.until

    def watched(self) -> Callable[..., None]:
        @wraps(self.law)
        def looked_at(**values: Any) -> None:
            if self.is_over:
                return
            self.examples += 1
            try:
                self.law(**values)
            except Exception:
                self.broke = {name: value for name, value in values.items() if name not in self.given}
                raise

        return looked_at

    def to_paste(self) -> str:
        if any(isinstance(value, st.DataObject) or _is_random(value) for value in self.broke.values()):
            return "(it draws as it goes, so there is no @example of it; the lines above say how to see it again)"
        arguments = "".join(f"    {name}={value!r},\n" for name, value in self.broke.items())
        return f"@example(\n{arguments})"


def _is_random(value: Any) -> bool:
    return hasattr(value, "getrandbits")


def report(reports: Iterable[pytest.TestReport], write: Callable[[str], None]) -> None:
    """How much was searched, and what to paste."""
    laws = [report for report in reports if report.when == "call"]
    searched = sum(int(str(count)) for report in laws for name, count in report.user_properties if name == EXAMPLES)
    write(f"{len(laws)} laws, {searched:,} examples, {sum(report.failed for report in laws)} of the laws broken")
    for found in laws:
        for text in (text for title, text in found.sections if SECTION in title):
            write(f"\n{text}")
