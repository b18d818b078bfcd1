"""Aggregates over truth values and bits: each partial merges by the aggregate itself.

Over rows with weights, truth values are counted, of bits that cancel out in pairs the odd ones are kept, and of others
the values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_, xor
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates.kernel import (
    Aggregate,
    Distinct,
    Kernel,
    PartialColumn,
    Signature,
    Values,
    present,
)
from laminar_dagster.semantics.aggregates.sets import BY_VALUE, REMAINING, weighed_values
from laminar_dagster.semantics.aggregates.weights import WEIGHT_OF_VALUES, weight_where
from laminar_dagster.semantics.functions import ArgumentTypeError
from laminar_dagster.semantics.types import DataType

Weighing = Callable[[Kernel], Kernel]


def _truth(type_: DataType) -> DataType:
    if type_ != t.BOOLEAN:
        raise ArgumentTypeError(f"it takes a BOOLEAN, not {type_}")
    return type_


def _whole(type_: DataType) -> DataType:
    if not type_.is_integer:
        raise ArgumentTypeError(f"it takes a whole number, not {type_}")
    return type_


# --- with weights --------------------------------------------------------------------------------------------


def _truths(condition: str) -> Weighing:
    """By how many there are (`n`), and how many of them are true."""
    finish = f"CASE WHEN {{n}} > 0 THEN {condition} END"
    return lambda kernel: kernel.with_weights((WEIGHT_OF_VALUES, weight_where("yes", "{x}")), finish)


def _bits(operator: str, start: int) -> Weighing:
    def weighing(kernel: Kernel) -> Kernel:
        (type_,) = kernel.arguments
        folded = f"aggregate({REMAINING}, CAST({start} AS {type_}), (a, e) -> a {operator} e.x)"
        finish = f"CASE WHEN size({REMAINING}) > 0 THEN {folded} END"
        return kernel.with_weights((weighed_values(type_),), finish, grows=BY_VALUE)

    return weighing


def _odd_bits(kernel: Kernel) -> Kernel:
    """A value that is there an even number of times leaves no bit."""
    odd = PartialColumn("v", "bit_xor({x} * CAST({w} & 1 AS TINYINT))", "bit_xor({p})")
    return kernel.with_weights((WEIGHT_OF_VALUES, odd), "CASE WHEN {n} > 0 THEN {v} END")


# --- the aggregates ------------------------------------------------------------------------------------------


def _folding(
    name: str,
    summary: str,
    takes: Callable[[DataType], DataType],
    fold: Callable[[Any, Any], Any],
    weighing: Weighing,
    distinct: Distinct = Distinct.SAME,
) -> Aggregate:
    partial = PartialColumn("v", f"{name}({{x}})", f"{name}({{p}})")

    def fresh(values: Values) -> Any:
        found = present(values)
        return reduce(fold, found) if found else None

    def build(signature: Signature) -> Kernel:
        type_ = takes(signature.first)
        return weighing(Kernel((type_,), type_, (partial,), "{v}", fresh))

    return Aggregate(name, build, summary, distinct=distinct)


LOGIC = (
    _folding("bool_and", "whether all are true", _truth, and_, _truths("{yes} = {n}")),
    _folding("bool_or", "whether any is true", _truth, or_, _truths("{yes} > 0")),
    _folding("bit_and", "bitwise AND", _whole, and_, _bits("&", -1)),
    _folding("bit_or", "bitwise OR", _whole, or_, _bits("|", 0)),
    _folding("bit_xor", "bitwise XOR", _whole, xor, _odd_bits, Distinct.REFUSED),
)
