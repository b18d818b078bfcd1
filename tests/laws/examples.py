"""Which examples a law sees: in `make test` the same ones on every machine, in `make laws` new ones all the time.

A law says how many examples the suite has time for. Hypothesis derives them from the law's own text, so a run of the
suite cannot fail on one machine and pass on another, and it finds nothing new. Finding is the search's business: there
each law gets a share of the budget (tests/laws/searching.py), and what it finds becomes an `@example` of the law.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

# How long a search may take, in seconds; set by tests/laws/search.py alone.
BUDGET = float(os.environ.get("LAMINAR_LAWS_SECONDS", "0"))
IS_SEARCH = BUDGET > 0

# Of one go of a search; a law has as many goes as its share of the budget has room for.
SEARCHED = 300
SEARCHED_ON_SPARK = 25

SUITE, SEARCH = "suite", "search"
# How long an example takes says more about the machine than about the code; the session of Spark is shared on purpose.
TOLERATED = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large)


def load_profile() -> None:
    """Settings of all laws; what a law says itself is added to these."""
    settings.register_profile(
        SUITE, derandomize=True, database=None, deadline=None, print_blob=False, suppress_health_check=TOLERATED
    )
    settings.register_profile(
        SEARCH, max_examples=SEARCHED, deadline=None, print_blob=True, suppress_health_check=TOLERATED
    )
    settings.load_profile(SEARCH if IS_SEARCH else SUITE)


def examples(count: int) -> settings:
    """So many examples in the suite, of a law that needs no Spark."""
    return settings() if IS_SEARCH else settings(max_examples=count)


def on_spark(examples: int) -> settings:
    """So many examples in the suite, and no shrinking there: an example costs seconds. A search shrinks."""
    if IS_SEARCH:
        return settings(max_examples=SEARCHED_ON_SPARK)
    return settings(max_examples=examples, phases=(Phase.explicit, Phase.generate))
