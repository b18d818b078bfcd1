"""Windows as Spark SQL over a column of microseconds."""

from __future__ import annotations

from laminar_dagster.semantics.windows import Tumble, WindowKind


def window_start_sql(window: WindowKind | None, time: str) -> str:
    """The start of the window of a row; `pmod` floors, also before 1970."""
    assert isinstance(window, Tumble), "planning refuses the windows that are not wired"
    shifted = f"{time} - {window.offset}L" if window.offset else time
    return f"({time} - pmod({shifted}, {window.size}L))"


def window_end_sql(window: WindowKind | None, time: str) -> str:
    assert isinstance(window, Tumble), "planning refuses the windows that are not wired"
    return f"({window_start_sql(window, time)} + {window.size}L)"
