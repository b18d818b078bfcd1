"""What the store holds about one window: partials, timers, entries of the side output, emissions, epochs. By DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from laminar_dagster.engine.closing import partition_of
from laminar_dagster.engine.in_process_sql import json_value, parquet, quoted, text
from laminar_dagster.engine.open_windows import HELD_SQL, seen_sql, sessions_sql
from laminar_dagster.engine.partials import marks_of
from laminar_dagster.engine.python_rows import python_rows
from laminar_dagster.engine.shown import END, START, shown_columns
from laminar_dagster.plan.plan import Plan, key_column
from laminar_dagster.semantics.windows import Session, Window
from state_store import CommitRow, DataFile, StoreReader
from state_store import format as f
from state_store.changelog import EPOCH, EVENT_TIME, OP, snapshot_epoch

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NULL = "NULL"
Keys = Mapping[str, str]


@dataclass(frozen=True)
class Held:
    """What the state has of a window; `updated_at`: when the last of its rows came."""

    groups: int = 0
    partials: int = 0
    rows: int = 0
    updated_at: int | None = None


@dataclass(frozen=True)
class Turn:
    """An epoch as the log has it: its kind, and the watermark before and after it."""

    epoch: int
    kind: str
    processing_time: int
    before: int | None
    after: int | None


@dataclass(frozen=True)
class Evidence:
    """A view's tables as of one commit. `keys` are those asked for, by name; a value NULL means the missing one."""

    plan: Plan
    reader: StoreReader
    commit: CommitRow
    db: DuckDBPyConnection
    keys: Keys

    def of_keys(self, keys: Mapping[str, str | None]) -> Evidence:
        """The same about one group."""
        return replace(self, keys={name: NULL if value is None else value for name, value in keys.items()})

    # --- the state -----------------------------------------------------------------------------------------

    def held(self, window: Window) -> Held:
        seen = seen_sql(marks_of(self.plan.query), str(window.end))
        inside = f"pane_start >= {window.start} AND pane_end <= {window.end} AND {seen}"
        files = self._files(f.PARTIALS, {"pane_end": (window.start + 1, window.end)})
        if not files:
            return Held()
        columns = ", ".join(self.plan.layout.key_columns)
        groups = f"count(DISTINCT ({columns}))" if columns else "least(count(*), 1)"
        found = self._all(f"SELECT {groups}, {HELD_SQL} FROM {files} WHERE {inside} AND {self._mine}")
        return Held(*found[0]) if found[0][0] else Held()

    def sessions(self, moment: int, limit: int) -> list[tuple[Window, dict[str, str | None], Held]]:
        """The open sessions that a time lies in, soonest to close first."""
        files = self._files(f.PARTIALS, {})
        if not files:
            return []
        keys = "".join(f"{quoted(key)}::VARCHAR, " for key in self.plan.session_keys)
        found = self._all(
            f"""SELECT {keys} first, until, partials, rows, updated_at
                FROM ({sessions_sql(self.plan, files, self._mine)})
                WHERE first <= {moment} AND until > {moment} ORDER BY until, first LIMIT {limit}"""
        )
        names = self._key_names[: len(self.plan.session_keys)]
        return [(Window(*row[-5:-3]), dict(zip(names, row, strict=False)), Held(1, *row[-3:])) for row in found]

    def opened_in(self, window: Window) -> int | None:
        """The epoch in which a window that is open got its first row."""
        files = self._files(f.TIMERS, {"window_end": (window.end, window.end)})
        where = f"window_start = {window.start} AND window_end = {window.end}"
        return self._all(f"SELECT min(epoch) FROM {files} WHERE {where}")[0][0] if files else None

    # --- what left the view --------------------------------------------------------------------------------

    def emissions(self, window: Window) -> list[tuple[int, dict[str, int], int | None]]:
        """Epoch, how many rows of each operation, and the window's end as it was then, if the changelog says it."""
        emitted = self._emitted(window)
        if emitted is None:
            return []
        table, where = emitted
        columns = f"{OP}, max(epoch_us({EVENT_TIME}))" if self.has_changelog else "'+I', NULL"
        rows = self._all(
            f"SELECT {EPOCH}, count(*), {columns} FROM {table} WHERE {where} GROUP BY {EPOCH}{self._by_op}"
        )
        found: dict[int, tuple[dict[str, int], int | None]] = {}
        for epoch, count, operation, end in sorted(rows, key=lambda row: (row[0], row[2])):
            operations, _ = found.setdefault(epoch, ({}, end))
            operations[operation] = count
        return [(epoch, operations, end) for epoch, (operations, end) in found.items()]

    def emitted_rows(self, window: Window, limit: int) -> list[dict[str, Any]]:
        """The rows themselves, in order."""
        emitted = self._emitted(window)
        if emitted is None:
            return []
        table, where = emitted
        operation = f"{OP}, " if self.has_changelog else ""
        columns = ", ".join(quoted(named.name) for named in self.plan.query.output)
        order = f"{EPOCH}, _seq" if operation else EPOCH
        found = self.db.sql(
            f"SELECT {EPOCH}, {operation}{columns} FROM {table} WHERE {where} ORDER BY {order} LIMIT {limit}"
        )
        return python_rows(found.to_arrow_table())

    def shown_sessions(self, moment: int, limit: int) -> list[tuple[Window, dict[str, str | None]]]:
        """The sessions in the output that a time lies in."""
        files = self._files(f.OUTPUT, {})
        if not files:
            return []
        keys = self._output_keys
        columns = "".join(f"{quoted(column)}::VARCHAR, " for column in keys.values())
        found = self._all(
            f"""SELECT DISTINCT {columns} {START}, {END} FROM {files}
                WHERE {START} <= {moment} AND {END} > {moment} AND {self._conditions(keys)}
                ORDER BY {END}, {START} LIMIT {limit}"""
        )
        return [(Window(*row[-2:]), dict(zip(keys, row, strict=False))) for row in found]

    @property
    def has_changelog(self) -> bool:
        """Whether changes were written; of a view that only appends, from its first correction on."""
        return self.plan.query.has_changelog or self.commit.tables.get(f.CHANGELOG) is not None

    @cached_property
    def snapshot(self) -> int | None:
        """The epoch up to which the changelog is folded."""
        version = self.commit.tables.get(f.CHANGELOG)
        return None if version is None else snapshot_epoch(self.reader.table(f.CHANGELOG).at(version))

    def _emitted(self, window: Window) -> tuple[str, str] | None:
        """The table that tells what left the view, and the condition on its rows; None if there are none."""
        keys = self._conditions(self._output_keys)
        if self.has_changelog:
            low = window.start + 1 if isinstance(self.plan.query.window, Session) else window.end
            files = self._files(f.CHANGELOG, {EVENT_TIME: (low, window.end)})
            where = f"epoch_us({EVENT_TIME}) BETWEEN {low} AND {window.end}"
        else:
            partition = partition_of(window.start, self.plan.query.partition)
            files = self._files(f.OUTPUT, {}, partition)
            where = f"{START} = {window.start} AND {END} = {window.end}"
        return (files, f"{where} AND {keys}") if files else None

    @property
    def _by_op(self) -> str:
        return f", {OP}" if self.has_changelog else ""

    # --- what was set aside, and the log -------------------------------------------------------------------

    def aside(self, window: Window) -> dict[tuple[str, str], int]:
        """How many entries the side output has for the window, by kind and reason; of sessions, near it."""
        kind = self.plan.query.window
        bounds = {"window_start": (window.start, window.start), "window_end": (window.end, window.end)}
        if isinstance(kind, Session):
            bounds = {"event_time": (window.start - kind.gap, window.end)}
        files = self._files(f.SIDE_OUTPUT, bounds)
        if not files:
            return {}
        where = " AND ".join(f"epoch_us({name}) BETWEEN {low} AND {high}" for name, (low, high) in bounds.items())
        keys = [_equals(json_value("group_key", name), value) for name, value in self.keys.items()]
        where = " AND ".join([where, *keys])
        rows = self._all(f"SELECT kind, reason, count(*) FROM {files} WHERE {where} GROUP BY ALL ORDER BY ALL")
        return {(kind, reason): count for kind, reason, count in rows}

    def closing_turn(self, deadline: int) -> Turn | None:
        """The epoch in which the watermark reached a time."""
        found = self._turns(f"after >= {deadline} ORDER BY epoch LIMIT 1")
        return found[0] if found else None

    def turns(self, epochs: list[int]) -> dict[int, Turn]:
        return {turn.epoch: turn for turn in self._turns(f"epoch IN ({', '.join(map(str, epochs)) or 'NULL'})")}

    def _turns(self, where: str) -> list[Turn]:
        log = parquet(self.reader.epochs.absolute(self.reader.epochs.files()))
        rows = self._all(
            f"""WITH turns AS (
                    SELECT epoch, epoch_kind, epoch_us(processing_time),
                           lag(epoch_us(watermark)) OVER (ORDER BY epoch) AS before, epoch_us(watermark) AS after
                    FROM {log} WHERE kind = 'commit' AND epoch <= {self.commit.epoch})
                SELECT * FROM turns WHERE {where}"""
        )
        return [Turn(*row) for row in rows]

    # --- columns and files ---------------------------------------------------------------------------------

    @property
    def _key_names(self) -> list[str]:
        return [key.name for key in self.plan.query.keys]

    @cached_property
    def _output_keys(self) -> dict[str, str]:
        """The group keys that what left the view has columns for."""
        has = {named.name for named in self.plan.query.output}
        columns = zip(self._key_names, shown_columns(self.plan.query).keys, strict=True)
        return {name: column for name, column in columns if column in has}

    @property
    def hidden_keys(self) -> list[str]:
        """The keys asked for that what left the view does not tell."""
        return [name for name in self.keys if name not in self._output_keys]

    @property
    def _mine(self) -> str:
        """The condition on rows of the state."""
        return self._conditions({name: key_column(i) for i, name in enumerate(self._key_names)})

    def _conditions(self, columns: Mapping[str, str]) -> str:
        wanted = [(columns[name], value) for name, value in self.keys.items() if name in columns]
        return " AND ".join(["true", *(_equals(quoted(column), value) for column, value in wanted)])

    def _files(self, name: str, bounds: Mapping[str, tuple[int, int]], partition: str | None = None) -> str | None:
        """The table's files that may hold what is looked for, as a table of DuckDB; None if there are none."""
        files = self.reader.files(name, self.commit)
        wanted = [file for file in files if _in_partition(file, partition) and _may_hold(file, bounds)]
        return parquet(self.reader.table(name).absolute(wanted)) if wanted else None

    def _all(self, sql: str) -> list[tuple[Any, ...]]:
        return self.db.sql(sql).fetchall()


def _equals(sql: str, value: str) -> str:
    """DuckDB reads the text as the column's type."""
    return f"{sql} IS NULL" if value == NULL else f"{sql} = {text(value)}"


def _in_partition(file: DataFile, partition: str | None) -> bool:
    return partition is None or file.partition.get("_partition", partition) == partition


def _may_hold(file: DataFile, bounds: Mapping[str, tuple[int, int]]) -> bool:
    """Whether the statistics leave room for a value between the bounds."""
    return all(
        int(file.low[name]) <= high and int(file.high[name]) >= low
        for name, (low, high) in bounds.items()
        if name in file.low and name in file.high
    )
