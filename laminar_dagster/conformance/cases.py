"""Case files: read, checked and typed, with JSON values turned into the engine's and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.time import day_to_iso, from_iso, to_iso
from laminar_dagster.semantics.types import DataType, parse_type
from laminar_dagster.sql.statements import parse_script

WEIGHT = "_weight"
Row = Mapping[str, Any]
Schemas = Mapping[str, Mapping[str, DataType]]
_EPOCH = date(1970, 1, 1)


class CaseError(ValueError):
    """The case file itself is wrong."""


@dataclass(frozen=True)
class CommitStep:
    """One commit to a source, its rows as the file has them."""

    source: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class TickStep:
    """One epoch of each view; `now` None means the clock."""

    now: int | None


@dataclass(frozen=True)
class RestartStep:
    """The process is gone."""


@dataclass(frozen=True)
class ExpectStep:
    """What the ticks since the last look must have done. None, or a key not in `checks`: not looked at."""

    checks: frozenset[str]
    rows: tuple[Row, ...]
    changes: tuple[Row, ...]
    side_output: tuple[Row, ...]
    watermark: int | None


Step = CommitStep | TickStep | RestartStep | ExpectStep


@dataclass(frozen=True)
class Case:
    name: str
    claim: str
    tier: int
    features: tuple[str, ...]
    sql: str
    view: str
    steps: tuple[Step, ...]
    expect_table: tuple[Row, ...] | None
    approx: float | None
    split_invariant: bool
    expect_error: tuple[str, ...] | None

    @property
    def is_refusal(self) -> bool:
        return self.expect_error is not None

    @property
    def commits(self) -> list[CommitStep]:
        return [step for step in self.steps if isinstance(step, CommitStep)]

    @property
    def last_now(self) -> int | None:
        ticks = [step.now for step in self.steps if isinstance(step, TickStep)]
        return ticks[-1] if ticks else None


_COMMON = {"name", "claim", "tier", "features", "sql", "source"}
_PIPELINE = {"view", "steps", "expect_table", "approx", "split_invariant"}
_EXPECT = {"rows", "changes", "side_output", "watermark"}
_STEPS = ("commit", "tick", "restart", "expect")


def case_files(paths: Iterable[Path]) -> list[Path]:
    """The files given, and those in the directories given, in the order of their names."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(path.glob("*.json"))
        elif path.exists():
            found.append(path)
        else:
            raise CaseError(f"there is no case file or directory {path}")
    return found


def load(path: Path) -> Case:
    try:
        return case_from(json.loads(path.read_text(encoding="utf-8")))
    except (json.JSONDecodeError, CaseError) as problem:
        raise CaseError(f"{path}: {problem}") from problem


def case_from(data: Mapping[str, Any]) -> Case:
    """A case from its JSON; CaseError where the format does not hold."""
    refusal = "expect_error" in data
    allowed = _COMMON | ({"expect_error"} if refusal else _PIPELINE)
    _known(data, allowed, "the case")
    _present(data, ("name", "sql", *(() if refusal else ("view", "steps"))), "the case")
    table = data.get("expect_table")
    return Case(
        name=data["name"],
        claim=data.get("claim", ""),
        tier=data.get("tier", 1),
        features=tuple(data.get("features", ())),
        sql=data["sql"],
        view=data.get("view", ""),
        steps=tuple(_step(step) for step in data.get("steps", ())),
        expect_table=None if table is None else tuple(table),
        approx=data.get("approx"),
        split_invariant=data.get("split_invariant", False),
        expect_error=tuple(data["expect_error"]["contains"]) if refusal else None,
    )


def _step(data: Mapping[str, Any]) -> Step:
    if len(data) != 1 or next(iter(data)) not in _STEPS:
        raise CaseError(f"a step is one of {', '.join(_STEPS)}, not {json.dumps(data)[:80]}")
    ((kind, body),) = data.items()
    match kind:
        case "commit":
            _present(body, ("source", "rows"), "a commit")
            return CommitStep(body["source"], tuple(body["rows"]))
        case "tick":
            return TickStep(from_iso(body["now"]) if "now" in body else None)
        case "restart":
            return RestartStep()
        case _:
            return _expect(body)


def _expect(data: Mapping[str, Any]) -> ExpectStep:
    _known(data, _EXPECT, "an expect")
    watermark = data.get("watermark")
    return ExpectStep(
        checks=frozenset(data),
        rows=tuple(data.get("rows", ())),
        changes=tuple(data.get("changes", ())),
        side_output=tuple(data.get("side_output", ())),
        watermark=None if watermark is None else from_iso(watermark),
    )


def _known(data: Mapping[str, Any], allowed: Iterable[str], what: str) -> None:
    unknown = sorted(set(data) - set(allowed))
    if unknown:
        raise CaseError(f"{what} has the unknown key {unknown[0]!r}; known: {', '.join(sorted(allowed))}")


def _present(data: Mapping[str, Any], needed: Iterable[str], what: str) -> None:
    missing = [key for key in needed if key not in data]
    if missing:
        raise CaseError(f"{what} lacks the key {missing[0]!r}")


# --- values ---------------------------------------------------------------------------------------------------


def source_schemas(sql: str) -> Schemas:
    """The declared columns of every source in a script."""
    sources = parse_script(sql).sources
    return {source.name: {c.name: parse_type(c.type) for c in source.columns} for source in sources}


def engine_rows(rows: Sequence[Row], schema: Mapping[str, DataType]) -> list[dict[str, Any]]:
    """Rows as the engine holds them: times as integers, decimals as Decimal, absent columns as NULL."""
    for row in rows:
        _known(row, {*schema, WEIGHT}, "a row")
    converted = [{name: to_engine(row.get(name), type_) for name, type_ in schema.items()} for row in rows]
    return [
        {**values, WEIGHT: row[WEIGHT]} if WEIGHT in row else values
        for row, values in zip(rows, converted, strict=True)
    ]


def to_engine(value: Any, type_: DataType) -> Any:
    if value is None:
        return None
    if type_ == t.TIMESTAMP:
        return from_iso(value)
    if type_ == t.DATE:
        return (date.fromisoformat(value) - _EPOCH).days
    if type_.is_decimal:
        return Decimal(str(value))
    return float(value) if type_.is_float else value


def to_json(value: Any, type_: DataType) -> Any:
    """The inverse of `to_engine`."""
    if value is None:
        return None
    if type_ == t.TIMESTAMP:
        return to_iso(value)
    if type_ == t.DATE:
        return day_to_iso(value)
    return f"{value:f}" if type_.is_decimal else value
