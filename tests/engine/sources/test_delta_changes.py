"""A Delta table's change data feed as a source: what is taken back leaves the results, through views over views too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.engine.sources.schemas import schema_of
from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.build import plan_script
from state_store import StoreReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SQL = """
CREATE SOURCE postings WITH (connector = 'delta', path = 'postings', changes = 'cdf');
CREATE MATERIALIZED VIEW balances AS
SELECT account, SUM(amount) AS balance, COUNT(*) AS n FROM postings GROUP BY account EMIT CHANGES;
CREATE MATERIALIZED VIEW by_bank AS
SELECT left(account, 1) AS bank, SUM(balance) AS total, MAX(balance) AS most FROM balances
GROUP BY left(account, 1) EMIT CHANGES;
"""


class Bank:
    """Postings come in pairs that add up to zero; so must every view of them, after every epoch."""

    def __init__(self, root: Path, spark: SparkSession, feed: str = "true") -> None:
        self.root, self.spark, self.table = root, spark, f"delta.`{root / 'postings'}`"
        spark.sql(
            f"CREATE TABLE {self.table} (transfer BIGINT, account STRING, amount BIGINT) USING delta "
            f"TBLPROPERTIES (delta.enableChangeDataFeed = {feed})"
        )

    def transfer(self, number: int, debtor: str, creditor: str, amount: int) -> None:
        values = f"({number}, '{debtor}', -{amount}), ({number}, '{creditor}', {amount})"
        self.spark.sql(f"INSERT INTO {self.table} VALUES {values}")

    def tick(self, **options: Any) -> None:
        for plan in plan_script(SQL, schema_of=lambda statement: schema_of(statement, self.root)):
            run_view(plan, self.spark, project=self.root, data=self.root / "data", options=RunOptions(**options))

    def shown(self, view: str, *columns: str) -> list[tuple[Any, ...]]:
        rows = StoreReader(self.root / "data" / view).read("output").to_pylist()
        return sorted(tuple(row[column] for column in columns) for row in rows)

    def check(self) -> None:
        assert sum(balance for _, balance in self.shown("balances", "account", "balance")) == 0
        assert sum(total for _, total in self.shown("by_bank", "bank", "total")) == 0


def test_money_is_never_made_or_lost(spark: SparkSession, tmp_path: Path) -> None:
    bank = Bank(tmp_path, spark)
    bank.transfer(1, "a1", "a2", 10)
    bank.transfer(2, "a2", "b1", 4)
    bank.tick()
    bank.check()
    assert bank.shown("balances", "account", "balance", "n") == [("a1", -10, 1), ("a2", 6, 2), ("b1", 4, 1)]
    assert bank.shown("by_bank", "bank", "total", "most") == [("a", -4, 6), ("b", 4, 4)]
    spark.sql(f"UPDATE {bank.table} SET amount = amount * 3 WHERE transfer = 1")
    bank.tick()
    bank.check()
    assert bank.shown("balances", "account", "balance") == [("a1", -30), ("a2", 26), ("b1", 4)]
    spark.sql(f"DELETE FROM {bank.table} WHERE transfer = 2")
    bank.transfer(3, "b1", "b2", 7)
    bank.tick(max_files=1)
    bank.check()
    assert bank.shown("balances", "account", "balance", "n") == [
        ("a1", -30, 1),
        ("a2", 30, 1),
        ("b1", -7, 1),
        ("b2", 7, 1),
    ]
    assert bank.shown("by_bank", "bank", "total", "most") == [("a", 0, 30), ("b", 0, 7)]
    spark.sql(f"OPTIMIZE {bank.table}")
    bank.tick()
    assert bank.shown("by_bank", "bank", "total", "most") == [("a", 0, 30), ("b", 0, 7)]


def test_a_table_that_got_its_feed_later_begins_with_what_it_holds(spark: SparkSession, tmp_path: Path) -> None:
    bank = Bank(tmp_path, spark, feed="false")
    bank.transfer(1, "a1", "a2", 10)
    with pytest.raises(LaminarError, match="no change data feed"):
        bank.tick()
    spark.sql(f"ALTER TABLE {bank.table} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    bank.tick()
    spark.sql(f"DELETE FROM {bank.table} WHERE transfer = 1")
    bank.transfer(2, "a1", "b1", 1)
    bank.tick()
    bank.check()
    assert bank.shown("balances", "account", "balance") == [("a1", -1), ("b1", 1)]
