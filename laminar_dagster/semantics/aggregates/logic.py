"""Aggregates over truth values and bits: each partial merges by the aggregate itself."""

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
from laminar_dagster.semantics.functions import ArgumentTypeError
from laminar_dagster.semantics.types import DataType


def _truth(type_: DataType) -> DataType:
    if type_ != t.BOOLEAN:
        raise ArgumentTypeError(f"it takes a BOOLEAN, not {type_}")
    return type_


def _whole(type_: DataType) -> DataType:
    if not type_.is_integer:
        raise ArgumentTypeError(f"it takes a whole number, not {type_}")
    return type_


def _folding(
    name: str,
    summary: str,
    takes: Callable[[DataType], DataType],
    fold: Callable[[Any, Any], Any],
    *,
    retraction: str = "value",
    distinct: Distinct = Distinct.SAME,
) -> Aggregate:
    partial = PartialColumn("v", f"{name}({{x}})", f"{name}({{p}})")

    def fresh(values: Values) -> Any:
        found = present(values)
        return reduce(fold, found) if found else None

    def build(signature: Signature) -> Kernel:
        type_ = takes(signature.first)
        return Kernel((type_,), type_, (partial,), "{v}", fresh, retraction=retraction)

    return Aggregate(name, build, summary, distinct=distinct)


LOGIC = (
    _folding("bool_and", "whether all are true", _truth, and_),
    _folding("bool_or", "whether any is true", _truth, or_),
    _folding("bit_and", "bitwise AND", _whole, and_),
    _folding("bit_or", "bitwise OR", _whole, or_),
    _folding("bit_xor", "bitwise XOR", _whole, xor, retraction="weight", distinct=Distinct.REFUSED),
)
