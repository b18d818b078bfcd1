"""Numbers as Spark reads them: whole ones are INT or BIGINT, with a point DECIMAL, with an exponent DOUBLE."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Literal

_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def number(text: str) -> Literal:
    """ValueError where the text is no number, or one that no type holds."""
    if _NUMBER.fullmatch(text) is None or math.isinf(float(text)):
        raise ValueError(text)
    if "e" in text.lower():
        return Literal(float(text), t.DOUBLE)
    if "." not in text:
        value = int(text)
        for type_ in (t.INT, t.BIGINT):
            bits = t.INTEGER_BITS[type_.name]
            if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
                return Literal(value, type_)
    found = _decimal(Decimal(text))
    return found if found.type.precision <= t.MAX_PRECISION else Literal(float(text), t.DOUBLE)


def exact(whole: Literal) -> Literal:
    """A whole number as the narrowest DECIMAL that holds it."""
    return _decimal(Decimal(whole.value)) if whole.value is not None else whole


def _decimal(value: Decimal) -> Literal:
    digits = value.as_tuple()
    scale = max(0, -int(digits.exponent))
    return Literal(value, t.decimal(max(len(digits.digits), scale), scale))
