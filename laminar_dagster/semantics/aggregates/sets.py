"""Partials that keep values: the distinct ones, and the distinct ones with how often each was there.

Both are as large as their input is varied; an aggregate that uses one says so (`grows`). Over rows with weights, what
is counted is the sum of weights: below 0 as long as only the retraction is there, and gone where it comes to 0.
"""

from __future__ import annotations

from laminar_dagster.semantics.aggregates.kernel import PartialColumn, argument_name, let
from laminar_dagster.semantics.types import DataType

PRESENT = "{x} IS NOT NULL"
BY_VALUE = "one entry for each distinct value"
BY_PAIR = "one entry for each distinct pair of values"
BY_ROW = "one entry for each row"
BY_TIME = "one entry for each distinct value and event time"


def normal(name: str, type_: DataType) -> str:
    """The argument as Spark groups it: one NaN, and no -0.0."""
    if not type_.is_float:
        return f"{{{name}}}"
    return f"nanvl({{{name}}} + CAST(0 AS {type_}), CAST('NaN' AS {type_}))"


def distinct_values(type_: DataType) -> PartialColumn:
    gathered = "flatten(collect_list({p}))"
    # Spark hashes all simple types but this one, for which array_distinct compares each with each.
    merge = _sorted_distinct(gathered) if type_.name == "BINARY" else f"array_distinct({gathered})"
    return PartialColumn("set", "collect_set({x})", merge)


def distinct_tuples(types: tuple[DataType, ...]) -> PartialColumn:
    """Of several arguments; a row with a NULL among them does not count, as in SQL."""
    here, fields = _tuple(types)
    make = f"collect_set(CASE WHEN {here} THEN named_struct({fields}) END)"
    return PartialColumn("set", make, _sorted_distinct("flatten(collect_list({p}))"))


def _tuple(types: tuple[DataType, ...]) -> tuple[str, str]:
    """When a row has one without a NULL, and its fields."""
    names = [argument_name(position) for position in range(len(types))]
    here = " AND ".join(f"{{{name}}} IS NOT NULL" for name in names)
    return here, ", ".join(f"'{name}', {normal(name, type_)}" for name, type_ in zip(names, types, strict=True))


def _sorted_distinct(array: str) -> str:
    """Equal neighbours of the sorted array once: for types that Spark cannot hash."""
    return let("s", f"sort_array({array})", "filter(s, (e, i) -> i = 0 OR NOT e <=> s[i - 1])")


def counted_values(type_: DataType, keep: str = PRESENT) -> PartialColumn:
    """Each value with how often it was there, in the order of the values."""
    value = normal("x", type_)
    kept = value if keep == PRESENT else f"CASE WHEN {keep} THEN {value} END"
    ones = f"transform(collect_list({kept}), v -> named_struct('x', v, 'n', 1L))"
    return PartialColumn("counts", _counted(ones), _counted("flatten(collect_list({p}))"))


def _counted(pairs: str) -> str:
    """Pairs of a value and a count, summed: `b` holds where in the sorted pairs `s` each value begins."""
    starts = "filter(transform(s, (e, i) -> IF(i = 0 OR s[i - 1].x <> e.x, i, -1)), i -> i >= 0)"
    run = "slice(s, i + 1, coalesce(get(b, j + 1), size(s)) - i)"
    total = f"aggregate({run}, 0L, (a, e) -> a + e.n)"
    runs = f"transform(b, (i, j) -> named_struct('x', s[i].x, 'n', {total}))"
    return let("s", f"sort_array({pairs})", let("b", starts, runs))


# --- with weights --------------------------------------------------------------------------------------------

REMAINING = "filter({counts}, e -> e.n > 0)"
REMAINING_VALUES = f"transform({REMAINING}, e -> e.x)"


def weighed(entry: str, condition: str) -> PartialColumn:
    """Each distinct entry of the rows for which the condition holds, with the sum of its weights, in order."""
    entries = f"collect_list(CASE WHEN {condition} THEN named_struct('x', {entry}, 'n', {{w}}) END)"
    make, merge = (f"filter({_counted(pairs)}, e -> e.n <> 0)" for pairs in (entries, "flatten(collect_list({p}))"))
    return PartialColumn("counts", make, merge)


def weighed_values(type_: DataType, keep: str = PRESENT) -> PartialColumn:
    return weighed(normal("x", type_), keep)


def weighed_tuples(types: tuple[DataType, ...]) -> PartialColumn:
    """Of several arguments; a row with a NULL among them does not count, as in SQL."""
    here, fields = _tuple(types)
    return weighed(f"named_struct({fields})", here)


def over_remaining(sql: str, column: str, remaining: str) -> str:
    """`sql`, which speaks of one column without weights, over what remains instead."""
    body = sql.format(**{column: "remaining"}).replace("{", "{{").replace("}", "}}")
    return let("remaining", remaining, body)
