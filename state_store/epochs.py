"""The epoch log: a plan row, then a commit row, per epoch. The commit row is the only commit point.

Every row has a sequence number and is committed under it, so two writers can never both append the next row:
that is the fence. A run that finds an unfinished plan of another run writes a claim before it finishes it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from state_store.format import EPOCH_SCHEMA
from state_store.parquet import DataFile, write_file
from state_store.tables import DeltaDirectory

LOG = "laminar/log"
COMPACT_ABOVE = 128
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class PlanRow:
    """What an epoch will do, pinned: a rerun does the same."""

    epoch: int
    epoch_kind: str
    run_id: str
    processing_time: int
    fingerprint: str
    watermark: int | None
    sources: Mapping[str, Any]
    tables: Mapping[str, int | None]
    shards: Mapping[str, Any]


@dataclass(frozen=True)
class CommitRow:
    """What an epoch did. The versions in `tables` are a consistent snapshot across the view's tables."""

    epoch: int
    epoch_kind: str
    run_id: str
    processing_time: int
    fingerprint: str
    watermark: int | None
    positions: Mapping[str, Any]
    shards: Mapping[str, Any]
    tables: Mapping[str, int | None]
    counts: Mapping[str, int]
    seconds: Mapping[str, float] = field(default_factory=dict)
    written_at: int = 0


@dataclass(frozen=True)
class Tail:
    """Where the log ends: the last commit, and the plan after it that has no commit yet."""

    seq: int
    commit: CommitRow | None
    unfinished: PlanRow | None


_HEAD = ("epoch", "epoch_kind", "run_id", "processing_time", "fingerprint", "watermark")


class EpochLog:
    def __init__(self, table: DeltaDirectory) -> None:
        self.table = table

    def tail(self) -> Tail:
        seq, newest = 0, None
        for row in self._newest_first():
            seq = max(seq, row["seq"])
            if row["kind"] == "commit":
                return Tail(seq, _commit_row(row), _unfinished(newest))
            if row["kind"] in ("plan", "cancel"):
                newest = newest or row
        return Tail(seq, None, _unfinished(newest))

    def commits(self, *, upto: int | None = None, limit: int | None = None) -> list[CommitRow]:
        """Commit rows, newest first, from epoch `upto` (default: the last) back."""
        found: list[CommitRow] = []
        for row in self._newest_first():
            if limit is not None and len(found) >= limit:
                break
            if row["kind"] == "commit" and (upto is None or row["epoch"] <= upto):
                found.append(_commit_row(row))
        return found

    def commit_of(self, epoch: int) -> CommitRow | None:
        files = [f for f in self.table.files() if f.low["epoch"] <= epoch <= f.high["epoch"]]
        rows = [row for file in files for row in self._rows(file)]
        return next((_commit_row(r) for r in rows if r["kind"] == "commit" and r["epoch"] == epoch), None)

    def _newest_first(self) -> Any:
        for file in sorted(self.table.files(), key=lambda f: int(f.high["seq"]), reverse=True):
            yield from sorted(self._rows(file), key=lambda row: int(row["seq"]), reverse=True)

    def _rows(self, file: DataFile) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self.table.root / file.path).to_pylist()
        return rows

    # --- writing -------------------------------------------------------------------------------------------

    def append(self, seq: int, kind: str, row: PlanRow | CommitRow) -> None:
        """Append the row with the next sequence number; StoreBusyError if somebody else was first."""
        head = {name: getattr(row, name) for name in _HEAD}
        body = {k: v for k, v in asdict(row).items() if k not in head and k != "written_at"}
        entry = {
            **head,
            "seq": seq,
            "kind": kind,
            "written_at": datetime.now(UTC),
            "processing_time": _moment(row.processing_time),
            "watermark": None if row.watermark is None else _moment(row.watermark),
            "body": json.dumps(body, separators=(",", ":")),
        }
        file = self._write([entry])
        self.table.commit(add=[file], application=LOG, number=seq)

    def compact(self, seq: int) -> int:
        """Fold many small files into one; the rows stay as they are. Gives the sequence number now in use."""
        small = [file for file in self.table.files() if file.rows < COMPACT_ABOVE]
        if len(small) < COMPACT_ABOVE:
            return seq
        rows = sorted((row for file in small for row in self._rows(file)), key=lambda row: int(row["seq"]))
        self.table.commit(add=[self._write(rows)], remove=small, application=LOG, number=seq + 1)
        return seq + 1

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> DataFile:
        table = pa.Table.from_pylist(list(rows), schema=EPOCH_SCHEMA)
        return write_file(self.table.root, f"log-{rows[-1]['seq']:010d}-{uuid.uuid4().hex[:8]}.parquet", table)


def _unfinished(newest: Mapping[str, Any] | None) -> PlanRow | None:
    """The plan that the log ends with; a cancelled one counts as never made."""
    return None if newest is None or newest["kind"] == "cancel" else _plan_row(newest)


def claimed(plan: PlanRow, run_id: str) -> PlanRow:
    return replace(plan, run_id=run_id)


def _moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    times = {"processing_time": _micros(row["processing_time"]), "watermark": _micros(row["watermark"])}
    return {**{name: row[name] for name in _HEAD}, **times, **json.loads(row["body"])}


def _plan_row(row: Mapping[str, Any]) -> PlanRow:
    return PlanRow(**_fields(row))


def _commit_row(row: Mapping[str, Any]) -> CommitRow:
    return CommitRow(**_fields(row), written_at=_micros(row["written_at"]) or 0)
