"""A source's `unique_key`: the columns that tell its rows apart, and for how long a key is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laminar_dagster.errors import LaminarError, Span, did_you_mean
from laminar_dagster.semantics.query import Field, Source, Uniqueness
from laminar_dagster.sql.statements import SourceStatement

KEY, WITHIN = "unique_key", "unique_within"
# What is equal in these types is written in the same way, so a key can be remembered as text.
_TYPES = ("BOOLEAN", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")


def uniqueness(statement: SourceStatement, source: Source, values: Mapping[str, Any]) -> Uniqueness | None:
    for name, other in ((KEY, WITHIN), (WITHIN, KEY)):
        if name in values and other not in values:
            raise LaminarError(
                "LMR0304", f'option "{name}" needs the option "{other}" beside it',
                where=statement.options[name].whole, detail="Keys are remembered for a stated length of event time.",
                hint=f"Add {other} = '{'1 hour' if other == WITHIN else '…'}' to WITH (…).",
            )  # fmt: skip
    if KEY not in values:
        return None
    _refuse_retractions(statement, source)
    return Uniqueness(_columns(source, values[KEY], statement.options[KEY].where), values[WITHIN])


def _columns(source: Source, text: str, where: Span) -> tuple[str, ...]:
    known = {field.name.lower(): field for field in source.columns}
    chosen: list[str] = []
    for name in (part.strip() for part in text.split(",")):
        field = known.get(name.lower())
        if field is None and any(named.name.lower() == name.lower() for named in source.computed):
            raise LaminarError(
                "LMR0309", f'column "{name}" is computed, and a unique key has columns that are read', where=where,
                hint="Name the columns that it is computed from.",
            )  # fmt: skip
        if field is None:
            raise LaminarError(
                "LMR0102", f'column "{name}" does not exist in source "{source.name}"', where=where,
                hint=did_you_mean(name, [field.name for field in source.columns]),
            )  # fmt: skip
        if field.name in chosen:
            raise LaminarError("LMR0104", f'column "{name}" is in the key twice', where=where)
        _refuse_type(field, where)
        chosen.append(field.name)
    return tuple(chosen)


def _refuse_type(field: Field, where: Span) -> None:
    type_ = field.type
    if not (type_.is_integer or type_.is_decimal or type_.name in _TYPES):
        raise LaminarError(
            "LMR0309", f'rows cannot be told apart by "{field.name}", which is {type_}', where=where,
            hint="Use columns of whole numbers, decimals, text, dates or times.",
        )  # fmt: skip


def _refuse_retractions(statement: SourceStatement, source: Source) -> None:
    if source.takes_retractions:
        raise LaminarError(
            "LMR0309", f'source "{source.name}" sends retractions, in which a key comes again by nature',
            where=statement.options[KEY].whole, hint="Leave unique_key and unique_within out.",
        )  # fmt: skip
