"""Queries of the laws: the source that all of them read, kinds of windows, strategies, limits."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from laminar_dagster.semantics.quotas import LIMITS

TUMBLE = "TUMBLE(ev, ts, INTERVAL '10' SECOND)"
HOP = "HOP(ev, ts, INTERVAL '4' SECOND, INTERVAL '10' SECOND)"
CUMULATE = "CUMULATE(ev, ts, INTERVAL '5' SECOND, INTERVAL '15' SECOND)"
SESSION = "SESSION(ev, ts, INTERVAL '3' SECOND)"
WINDOWS = {"tumble": TUMBLE, "hop": HOP, "cumulate": CUMULATE, "session": SESSION}

BOUNDS = "window_start, window_end, "
# Strategies whose results change, and those that wait for the end.
UPDATING = ("CHANGES", "ON UPDATE", "EVERY INTERVAL '10' SECOND", "ON WATERMARK")
CLOSING = ("ON WINDOW CLOSE", "FINAL")
AT_ONCE = ("CHANGES", "ON UPDATE")

LIMIT_OPTIONS = tuple(limit.option for limit in LIMITS)


def source(columns: str = "k STRING, v BIGINT, ts TIMESTAMP", *, lag: int = 2, retracts: bool = False) -> str:
    """`ev`, in memory, whose watermark is so many seconds behind its rows."""
    changes = ", changes = 'cdf'" if retracts else ""
    return f"""
CREATE SOURCE ev ({columns}, WATERMARK FOR ts AS ts - INTERVAL '{lag}' SECOND) WITH (connector = 'memory'{changes});
"""


def lateness(seconds: int) -> str:
    return f"ALLOW LATENESS INTERVAL '{seconds}' SECOND"


def limits(options: Sequence[str] = LIMIT_OPTIONS) -> st.SearchStrategy[str]:
    """Some of these options, each with a small number, as WITH takes them."""
    chosen = st.dictionaries(st.sampled_from(options), st.integers(1, 4), min_size=1)
    return chosen.map(lambda given: ", ".join(f"{name} = {most}" for name, most in given.items()))
