"""The table of scalar functions and operators: result type, Python meaning, Spark SQL, and how each can fail.

A function that is not in this table is refused when the view is planned, so every expression that runs on
Spark also runs in the reference.
"""

from __future__ import annotations

from laminar_dagster.semantics.functions import arithmetic, casts, comparison, conditionals, text, times, windows
from laminar_dagster.semantics.functions.casts import cast_to_text, cast_value, castable
from laminar_dagster.semantics.functions.table import FUNCTIONS, ArgumentTypeError, ScalarFunction
from laminar_dagster.semantics.functions.times import TRUNCATIONS
from laminar_dagster.semantics.functions.values import fit, literal_sql, order

ENTRIES = (arithmetic, casts, comparison, conditionals, text, times, windows)
OPERATORS = frozenset({
    "add", "subtract", "multiply", "divide", "mod", "negate", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not",
    "is_null", "is_not_null", "in", "like", "cast", "case", "distinct_from", "add_micros", "window_id",
})  # fmt: skip


def callable_names() -> list[str]:
    """The functions that a user calls by name."""
    return sorted(set(FUNCTIONS) - OPERATORS)


__all__ = [
    "FUNCTIONS",
    "OPERATORS",
    "TRUNCATIONS",
    "ArgumentTypeError",
    "ScalarFunction",
    "callable_names",
    "cast_to_text",
    "cast_value",
    "castable",
    "fit",
    "literal_sql",
    "order",
]
