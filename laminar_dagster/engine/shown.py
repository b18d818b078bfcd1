"""How the results of a view lie in its table: the data, and what tells one result from another.

The columns `_window_start` and `_window_end` (microseconds) and the group keys that SELECT leaves out are in the table
for this; a reader may ignore them.
"""

from __future__ import annotations

from dataclasses import dataclass

from laminar_dagster.engine.column_names import REASON
from laminar_dagster.plan.plan import key_column
from laminar_dagster.semantics.expressions import Column
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.spark_sql import quoted, value_sql
from laminar_dagster.semantics.windows import Session

START, END = "_window_start", "_window_end"


@dataclass(frozen=True)
class ShownColumns:
    """Column names of the current table."""

    data: tuple[str, ...]
    keys: tuple[str, ...]
    hidden: tuple[str, ...]
    has_window: bool
    is_session: bool

    @property
    def identity(self) -> tuple[str, ...]:
        """Which result a row is. A session is its key and start, since its end may move."""
        bounds = (START,) if self.is_session else (START, END)
        return (*(bounds if self.has_window else ()), *self.keys)

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.data, *((START, END) if self.has_window else ()), *self.hidden)


def shown_columns(query: Query) -> ShownColumns:
    shown = {
        named.expression.name: named.name for named in reversed(query.output) if isinstance(named.expression, Column)
    }
    names = [key_column(i) for i in range(len(query.keys))]
    return ShownColumns(
        data=tuple(named.name for named in query.output),
        keys=tuple(shown.get(name, f"_{name}") for name in names),
        hidden=tuple(f"_{name}" for name in names if name not in shown) if query.tells_results_apart else (),
        has_window=query.window is not None,
        is_session=isinstance(query.window, Session),
    )


def shown_sql(query: Query) -> list[str]:
    """The columns of the table, out of finished results."""
    columns = [f"{value_sql(named.expression)} AS {quoted(named.name)}" for named in query.output]
    columns += bounds_sql() if query.window is not None else []
    return columns + [f"{name[1:]} AS {name}" for name in shown_columns(query).hidden]


def reason_sql() -> str:
    """Why a result has no value, beside columns that may have any name."""
    return f"_reason AS {quoted(REASON)}"


def bounds_sql() -> list[str]:
    return [f"unix_micros(window_start) AS {START}", f"unix_micros(window_end) AS {END}"]
