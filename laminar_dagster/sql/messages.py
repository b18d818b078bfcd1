"""Columns of a source of messages: those of the value, and those that are about the message itself.

`k STRING METADATA FROM 'key'`; without FROM the column's own name says what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from laminar_dagster.errors import LaminarError, did_you_mean
from laminar_dagster.semantics.query import Field
from laminar_dagster.sql.statements import ColumnStatement, SourceStatement

HEADER = "header:"
METADATA: Mapping[str, tuple[str, ...]] = {
    "key": ("STRING", "BINARY"),
    "headers": ("MAP<STRING,STRING>",),
    "timestamp": ("TIMESTAMP",),
    "partition": ("INT", "BIGINT"),
    "offset": ("BIGINT",),
    "topic": ("STRING",),
}
OPTION = "metadata."


def metadata_options(statement: SourceStatement, connector: str, values: Mapping[str, Any]) -> dict[str, str]:
    """What the metadata columns are, as options of the source: `metadata.k` is `key`."""
    declared = [column for column in statement.columns if column.metadata is not None]
    if declared and connector != "kafka":
        raise LaminarError(
            "LMR0308", f'column "{declared[0].name}" is METADATA, and connector {connector} has none',
            where=declared[0].where, hint="Only messages (connector 'kafka') have metadata.",
        )  # fmt: skip
    if connector == "kafka":
        _require_value(statement, values["format"])
    return {f"{OPTION}{column.name}": _checked(column) for column in declared}


def metadata_of(options: Mapping[str, str]) -> dict[str, str]:
    """The same, column by column."""
    return {name.removeprefix(OPTION): what for name, what in options.items() if name.startswith(OPTION)}


def value_fields(columns: Sequence[Field], options: Mapping[str, str]) -> tuple[Field, ...]:
    """The columns that are in the message's value."""
    about = metadata_of(options)
    return tuple(field for field in columns if field.name not in about)


def _checked(column: ColumnStatement) -> str:
    what = column.metadata or column.name
    name = what if what.lower().startswith(HEADER) else what.lower()
    types = ("STRING",) if name.lower().startswith(HEADER) and len(name) > len(HEADER) else METADATA.get(name)
    if types is None:
        raise LaminarError(
            "LMR0308", f'a message has no metadata "{what}"', where=column.where,
            detail=f"There are {', '.join(METADATA)}, and {HEADER}NAME for one header.",
            hint=did_you_mean(what, METADATA),
        )  # fmt: skip
    if column.type.upper().replace(" ", "") not in types:
        raise LaminarError(
            "LMR0308", f'"{name}" of a message is {" or ".join(types)}, not {column.type}', where=column.where,
        )  # fmt: skip
    return name


def _require_value(statement: SourceStatement, form: str) -> None:
    values = [column for column in statement.columns if column.metadata is None]
    if statement.columns and not values:
        raise LaminarError(
            "LMR0308", f'source "{statement.name}" declares no column of the message itself', where=statement.where,
            hint="Declare what the value holds, besides what is METADATA.",
        )  # fmt: skip
    if form == "text" and (len(values) != 1 or values[0].type.upper() != "STRING"):
        raise LaminarError(
            "LMR0308", "with format = 'text' the message is one STRING column",
            where=values[-1].where if values else statement.where,
            hint="Declare that column alone; what is about the message is METADATA.",
        )  # fmt: skip
