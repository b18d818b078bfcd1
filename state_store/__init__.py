"""State on Delta: epochs, accumulators, timers, watermarks.

A leaf: it knows rows, keys, versions and epochs, and nothing of SQL, windows, Spark or Dagster. Whoever computes
writes Parquet files into a table's directory; this package makes them part of the table in one commit.
"""

from state_store.epochs import CommitRow, PlanRow
from state_store.errors import StoreBusyError, StoreError
from state_store.format import FORMAT_VERSION
from state_store.parquet import DataFile
from state_store.policy import MaintenancePolicy
from state_store.reader import StoreReader
from state_store.tables import DeltaDirectory
from state_store.writer import StoreWriter

__all__ = [
    "FORMAT_VERSION",
    "CommitRow",
    "DataFile",
    "DeltaDirectory",
    "MaintenancePolicy",
    "PlanRow",
    "StoreBusyError",
    "StoreError",
    "StoreReader",
    "StoreWriter",
]
