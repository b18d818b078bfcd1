"""The name of a window: the same in every run, and another in another plan."""

from __future__ import annotations

import hashlib

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.expressions import Call, Column, Literal
from laminar_dagster.semantics.functions.table import Types, always, register
from laminar_dagster.semantics.types import DataType

WINDOW_ID = "window_id"
LENGTH = 16


def window_id(plan: str, start: int, end: int) -> str:
    """A hash of the plan's fingerprint and the window's bounds in microseconds."""
    return hashlib.sha256(f"{plan}/{start}/{end}".encode()).hexdigest()[:LENGTH]


def _computed(_: DataType, __: Types, plan: str, start: int, end: int) -> str:
    return window_id(plan, start, end)


def _spark(_: DataType, __: Types, plan: str, start: str, end: str) -> str:
    text = f"concat_ws('/', {plan}, CAST(unix_micros({start}) AS STRING), CAST(unix_micros({end}) AS STRING))"
    return f"substring(sha2({text}, 256), 1, {LENGTH})"


def window_id_call(plan: str, start: Column, end: Column) -> Call:
    return Call(WINDOW_ID, (Literal(plan, t.STRING), start, end), t.STRING)


register(WINDOW_ID, 3, always(t.STRING), _computed, _spark, lambda _, __, *bounds: f"hash(plan, {', '.join(bounds)})")
