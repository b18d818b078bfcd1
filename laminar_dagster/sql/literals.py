"""Numbers as Spark reads them: whole ones are INT or BIGINT, with a point DECIMAL, with an exponent DOUBLE."""

from __future__ import annotations

from decimal import Decimal

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Literal


def number(text: str) -> Literal:
    if "e" in text.lower():
        return Literal(float(text), t.DOUBLE)
    if "." not in text:
        value = int(text)
        for type_ in (t.INT, t.BIGINT):
            bits = t.INTEGER_BITS[type_.name]
            if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
                return Literal(value, type_)
    exact = Decimal(text)
    digits = exact.as_tuple()
    scale = max(0, -int(digits.exponent))
    precision = max(len(digits.digits), scale)
    if precision > t.MAX_PRECISION:
        return Literal(float(text), t.DOUBLE)
    return Literal(exact, t.decimal(precision, scale))
