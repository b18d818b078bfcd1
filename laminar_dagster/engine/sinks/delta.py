"""A Delta table as a target, each epoch in one version that carries the epoch's number: exactly once. No Spark."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from laminar_dagster.engine.in_process_sql import quoted
from laminar_dagster.engine.sinks.collapsing import GONE, NEW, collapsed, refuse_present, same_key
from laminar_dagster.engine.sinks.targets import Delivery, Surroundings
from laminar_dagster.engine.sources.paths import located
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.sinks import CHANGELOG, UPSERT, DeclaredSink


class DeltaTarget:
    """The number of the last epoch is an application transaction of the table, so it lands with the rows or not."""

    def __init__(self, sink: DeclaredSink, surroundings: Surroundings) -> None:
        self._sink = sink
        self._surroundings = surroundings
        self._path = str(located(surroundings.project, sink.options["path"]))
        self._application = f"laminar/sink/{sink.view}/{sink.name}"

    def landed(self) -> int | None:
        if not DeltaTable.is_deltatable(self._path):
            return None
        self._table.update_incremental()
        return self._table.transaction_version(self._application)

    @cached_property
    def _table(self) -> DeltaTable:
        return DeltaTable(self._path)

    def deliver(self, delivery: Delivery) -> None:
        landed = self.landed() or 0
        if landed >= delivery.epoch:
            return
        if landed < delivery.after:
            raise self._lost(delivery.after)
        if self._sink.mode == UPSERT:
            self._upsert(delivery)
        else:
            rows = delivery.rows if self._sink.mode == CHANGELOG else delivery.data
            write_deltalake(self._path, rows, mode="append", commit_properties=self._number(delivery.epoch))
        self._surroundings.after_write(f"sink {self._sink.name} version")

    def _number(self, epoch: int) -> CommitProperties:
        return CommitProperties(app_transactions=[Transaction(self._application, epoch)])

    def _upsert(self, delivery: Delivery) -> None:
        key = self._sink.key
        changed = collapsed(delivery.rows, key)
        self._create(delivery.data.schema)
        if not changed.num_rows:
            self._commit_nothing(delivery.epoch)
            return
        refuse_present(changed, self._table.to_pyarrow_dataset(), key)
        values = {quoted(name): f"c.{quoted(name)}" for name in delivery.data.column_names}
        merge = self._table.merge(
            changed.drop_columns([NEW]),
            predicate=same_key(key),
            source_alias="c",
            target_alias="t",
            commit_properties=self._number(delivery.epoch),
        )
        merge.when_matched_delete(f"c.{quoted(GONE)}").when_matched_update(values).when_not_matched_insert(
            values, predicate=f"NOT c.{quoted(GONE)}"
        ).execute()

    def _commit_nothing(self, epoch: int) -> None:
        """A version with the epoch's number and no rows; a merge without changes would leave no version."""
        table = self._table
        columns = table.metadata().partition_columns
        table.create_write_transaction(
            [], "append", table.schema(), partition_by=columns, commit_properties=self._number(epoch)
        )

    def _lost(self, epoch: int) -> LaminarError:
        return LaminarError(
            "LMR0646",
            f"{self._sink.target} does not know of epoch {epoch}, which was delivered to it",
            detail="It was deleted, restored or replaced since, and what comes now would not make it whole.",
            hint="Give the sink a new name: it then delivers from the beginning. Or put the table back.",
        )

    def _create(self, schema: pa.Schema) -> None:
        if not DeltaTable.is_deltatable(self._path):
            DeltaTable.create(self._path, schema, mode="ignore")
            self._surroundings.after_write(f"sink {self._sink.name} table")
        self._table.update_incremental()
