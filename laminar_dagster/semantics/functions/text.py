"""Functions over text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.functions.table import (
    ArgumentTypeError,
    Types,
    checked,
    register,
    strings,
)
from laminar_dagster.semantics.types import DataType


def _text(name: str, arguments: int, compute: Callable[..., Any], result: DataType = t.STRING) -> None:
    register(name, arguments, checked(strings, result), lambda _, __, *a: compute(*a))


_text("upper", 1, str.upper)
_text("lower", 1, str.lower)
_text("trim", 1, lambda s: s.strip(" "))
_text("ltrim", 1, lambda s: s.lstrip(" "))
_text("rtrim", 1, lambda s: s.rstrip(" "))
_text("reverse", 1, lambda s: s[::-1])
_text("length", 1, len, t.INT)
_text("replace", 3, lambda s, old, new: s.replace(old, new) if old else s)
_text("startswith", 2, str.startswith, t.BOOLEAN)
_text("endswith", 2, str.endswith, t.BOOLEAN)
_text("contains", 2, lambda s, part: part in s, t.BOOLEAN)
register("concat", (1, None), checked(strings, t.STRING), lambda _, __, *a: "".join(a))


def _substring(_: DataType, __: Types, text: str, start: int, length: int | None = None) -> str:
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else begin + max(length, 0)
    return text[max(begin, 0) : max(end, 0)]


def _substring_type(types: Types) -> DataType:
    strings(types[:1])
    for type_ in types[1:]:
        if not type_.is_integer and not type_.is_null:
            raise ArgumentTypeError(f"it takes a whole number, not {type_}")
    return t.STRING


register("substring", (2, 3), _substring_type, _substring)
register("left", 2, _substring_type, lambda _, __, s, n: s[: max(n, 0)])
register("right", 2, _substring_type, lambda _, __, s, n: s[-n:] if n > 0 else "")
