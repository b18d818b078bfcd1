"""The epoch log: a plan row, then a commit row, per epoch. The commit row is the only commit point.

Every row has a sequence number and is committed under it, so two writers can never both append the next row:
that is the fence. A run that finds an unfinished plan of another run writes a claim before it finishes it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from state_store.format import EPOCH_SCHEMA, TIMESTAMP
from state_store.moments import as_integers, micros
from state_store.parquet import DataFile, write_file
from state_store.sizes import level
from state_store.tables import DeltaDirectory, busy

LOG = "laminar/log"
COMPACT_ABOVE = 32
FULL_BYTES = 16 << 20


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
    carried: Mapping[str, Any] = field(default_factory=dict)
    taken: Sequence[Any] = field(default_factory=list)
    corrected: Mapping[str, Any] = field(default_factory=dict)
    maintenance: Mapping[str, Any] = field(default_factory=dict)
    written_at: int = 0


@dataclass(frozen=True)
class Tail:
    """Where the log ends: the last commit, the plan after it that has no commit yet, the last maintenance."""

    seq: int
    commit: CommitRow | None
    unfinished: PlanRow | None
    maintenance: Mapping[str, Any] = field(default_factory=dict)


_HEAD = ("epoch", "epoch_kind", "run_id", "processing_time", "fingerprint", "watermark")


class EpochLog:
    def __init__(self, table: DeltaDirectory) -> None:
        self.table = table

    def tail(self) -> Tail:
        seq, newest, maintained = self.table.landed(LOG) or 0, None, None
        for row in self._newest_first():
            if row["kind"] == "commit":
                commit = _commit_row(row)
                return Tail(seq, commit, _unfinished(newest), (maintained or commit).maintenance)
            if row["kind"] == "maintenance":
                maintained = maintained or _commit_row(row)
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
        wanted = (pc.field("epoch") == epoch) & (pc.field("kind") == "commit")
        rows = (row for file in files for row in as_integers(self._table(file).filter(wanted)).to_pylist())
        return next((_commit_row(row) for row in rows), None)

    def history(self, after: int = 0) -> Iterator[tuple[PlanRow, CommitRow]]:
        """Every committed epoch after one as it was planned and as it ended, oldest first."""
        plans: dict[int, PlanRow] = {}
        files = [file for file in self._files_newest_first()[::-1] if file.high["epoch"] > after]
        for file in files:
            later = self._table(file).filter(pc.field("epoch") > after).sort_by("seq")
            for row in as_integers(later).to_pylist():
                if row["kind"] in ("plan", "claim"):
                    plans[row["epoch"]] = _plan_row(row)
                elif row["kind"] == "commit":
                    yield plans.pop(row["epoch"]), _commit_row(row)

    def last_before(self, moment: datetime) -> int | None:
        """The epoch that was the last committed one at this moment; None if there was none."""
        for file in self._files_newest_first():
            if file.low["written_at"] >= micros(moment):
                continue
            wanted = (pc.field("written_at") < pa.scalar(moment, TIMESTAMP)) & (pc.field("kind") == "commit")
            found = self._table(file, ["epoch", "written_at", "kind"]).filter(wanted)
            if found.num_rows:
                return int(pc.max(found.column("epoch")).as_py())
        return None

    def _files_newest_first(self) -> list[DataFile]:
        return sorted(self.table.files(), key=lambda file: int(file.high["seq"]), reverse=True)

    def _newest_first(self) -> Iterator[dict[str, Any]]:
        """Row by row; files are opened as they are needed, and hold stretches of the log that do not overlap."""
        for file in self._files_newest_first():
            for some in self._table(file).sort_by([("seq", "descending")]).to_batches(max_chunksize=COMPACT_ABOVE):
                yield from as_integers(pa.Table.from_batches([some])).to_pylist()

    def _table(self, file: DataFile, columns: list[str] | None = None) -> pa.Table:
        return pq.ParquetFile(self.table.root / file.path).read(columns)

    # --- writing -------------------------------------------------------------------------------------------

    def append(self, seq: int, kind: str, row: PlanRow | CommitRow) -> None:
        """Append the row with the next sequence number; StoreBusyError if somebody else was first."""
        if (self.table.landed(LOG) or 0) >= seq:
            raise busy(self.table.root, f"row {seq} of the log is already there")
        file = self._write([entry(seq, kind, row)])
        self.table.commit(add=[file], application=LOG, number=seq)

    def compact(self, seq: int) -> int:
        """Fold many small files into one; the rows stay as they are. Gives the sequence number now in use."""
        files = self._mergeable()
        if not files:
            return seq
        rows = pa.concat_tables([self._table(file) for file in files]).sort_by("seq")
        merged = write_file(self.table.root, _name(seq + 1), rows)
        self.table.commit(add=[merged], remove=files, application=LOG, number=seq + 1, same_rows=True)
        return seq + 1

    def _mergeable(self) -> list[DataFile]:
        """The longest stretch of the log in files of one size, if it is long enough: none overlaps another."""
        in_order = self._files_newest_first()[::-1] if self.table.file_count >= COMPACT_ABOVE else []
        small = groupby(in_order, lambda f: level(f.rows, COMPACT_ABOVE) if f.size < FULL_BYTES else None)
        runs = [list(files) for size, files in small if size is not None]
        longest = max(runs, key=len, default=[])
        return longest if len(longest) >= COMPACT_ABOVE else []

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> DataFile:
        table = pa.Table.from_pylist(list(rows), schema=EPOCH_SCHEMA)
        return write_file(self.table.root, _name(rows[-1]["seq"]), table)


def _name(seq: int) -> str:
    """A file of the log begins with the number that it can get into the log under."""
    return f"log-{seq:010d}-{uuid.uuid4().hex[:8]}.parquet"


def entry(seq: int, kind: str, row: PlanRow | CommitRow) -> dict[str, Any]:
    """A row as it lies in the log."""
    head = {name: getattr(row, name) for name in _HEAD}
    body = {k: v for k, v in asdict(row).items() if k not in head and k != "written_at"}
    return {
        **head,
        "seq": seq,
        "kind": kind,
        "written_at": micros(datetime.now(UTC)),
        "body": json.dumps(body, separators=(",", ":")),
    }


def _unfinished(newest: Mapping[str, Any] | None) -> PlanRow | None:
    """The plan that the log ends with; a cancelled one counts as never made."""
    return None if newest is None or newest["kind"] == "cancel" else _plan_row(newest)


def claimed(plan: PlanRow, run_id: str) -> PlanRow:
    return replace(plan, run_id=run_id)


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: row[name] for name in _HEAD}, **json.loads(row["body"])}


def _plan_row(row: Mapping[str, Any]) -> PlanRow:
    return PlanRow(**_known(PlanRow, _fields(row)))


def _commit_row(row: Mapping[str, Any]) -> CommitRow:
    return CommitRow(**_known(CommitRow, {**_fields(row), "written_at": row["written_at"]}))


def _known(kind: type[PlanRow | CommitRow], values: Mapping[str, Any]) -> dict[str, Any]:
    """A later version may write more than this one knows."""
    names = {entry.name for entry in fields(kind)}
    return {name: value for name, value in values.items() if name in names}
