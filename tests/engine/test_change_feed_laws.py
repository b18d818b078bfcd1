"""The law of changelogs: rows are inserted, updated and deleted in a table, the view is run at any time and killed at
any write, and the changelog summed to each epoch is one batch query in DuckDB over the rows that the table had then.
So it is for three views, each over the changelog of the one before, and the three queries composed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.conformance.laws import broken_laws, data_columns
from laminar_dagster.conformance.values import engine_value
from laminar_dagster.engine.crash import CrashError, raising_after
from laminar_dagster.engine.run import RunOptions, run_view
from laminar_dagster.engine.sources.schemas import schema_of
from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.time import HOUR, SECOND
from laminar_dagster.semantics.zset import consolidate
from state_store import MaintenancePolicy, StoreReader
from state_store import format as f
from tests.laws.examples import on_spark
from tests.laws.logs import NOON, VALUES, after_noon, rows
from tests.laws.queries import AT_ONCE, BOUNDS, HOP, SESSION, TUMBLE

pytestmark = pytest.mark.spark

NOW = NOON + HOUR
LAG = 2 * SECOND
EAGER = MaintenancePolicy(files_per_bucket=2, merge_files=2, vacuum_every=1, retain_epochs=1)
SCHEMA = pa.schema(
    {"id": pa.int64(), "k": pa.string(), "v": pa.int64(), "ts": pa.timestamp("us", tz="UTC")}  # type: ignore[arg-type]
)
LATENESS = "ALLOW LATENESS INTERVAL '1' HOUR"
SQL = """
CREATE SOURCE ev (id BIGINT, k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH (connector = 'delta', path = 'ev', changes = 'cdf');
CREATE MATERIALIZED VIEW out AS
SELECT {bounds}k, {results}
FROM {source}
WHERE v IS DISTINCT FROM 13
GROUP BY {bounds}k
HAVING SUM(v) > 1
{lateness}
EMIT {strategy};
"""
RESULTS = """COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo, MAX(v) AS hi, COUNT(DISTINCT v) AS d,
COUNT(v) FILTER (WHERE v > 1) AS many"""
BATCH = """
WITH kept AS (SELECT epoch_us(ts) AS t, k, v FROM live WHERE v IS DISTINCT FROM 13), placed AS ({placed})
SELECT {bounds}k, {results} FROM placed GROUP BY {bounds}k HAVING SUM(v) > 1
"""
FIXED = """
SELECT *, start AS window_start, start + {size} AS window_end
FROM (SELECT *, unnest(range(((t - {size}) // {slide} + 1) * {slide}, t + 1, {slide})) AS start FROM kept)
"""
SESSIONS = """
SELECT *, min(t) OVER whole AS window_start, max(t) OVER whole + {gap} AS window_end
FROM (
    SELECT *, sum(CAST(coalesce(t - before > {gap}, true) AS INT)) OVER (PARTITION BY k ORDER BY t) AS number
    FROM (SELECT *, lag(t) OVER (PARTITION BY k ORDER BY t) AS before FROM kept)
)
WINDOW whole AS (PARTITION BY k, number)
"""
WINDOWS = {
    "none": ("ev", "SELECT * FROM kept"),
    "tumble": (TUMBLE, FIXED.format(size=10 * SECOND, slide=10 * SECOND)),
    "hop": (HOP, FIXED.format(size=10 * SECOND, slide=4 * SECOND)),
    "session": (SESSION, SESSIONS.format(gap=3 * SECOND)),
}
STRATEGIES = (*AT_ONCE, "EVERY INTERVAL '1' SECOND", "ON WATERMARK")
Rows = Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Version:
    """What one commit does to the table, by the rows' ids: a new id is an insert, a known one an update."""

    upserted: Rows
    deleted: frozenset[int]


drawn_rows = rows(after_noon(0, 40), values=(*VALUES, None))
ids = st.integers(0, 7)
versions = st.builds(
    Version, st.dictionaries(ids, drawn_rows, min_size=1, max_size=5), st.frozensets(ids, max_size=3)
)  # fmt: skip


@dataclass(frozen=True)
class Tick:
    """The versions that are there when the view runs, and after how many writes its first runs are killed."""

    versions: list[Version]
    kills: list[int]


ticks = st.builds(
    Tick, st.lists(versions, min_size=1, max_size=2), st.lists(st.integers(1, 12), max_size=2)
)  # fmt: skip


class Feed:
    """A Delta table with a change data feed, and what its rows are."""

    def __init__(self, path: Path) -> None:
        self.path, self.live, self.latest = path, dict[int, Mapping[str, Any]](), 0
        DeltaTable.create(path, SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})

    def take(self, version: Version) -> None:
        self._merge(version.upserted)
        self.live = {**self.live, **version.upserted}
        gone = version.deleted & self.live.keys()
        if gone:
            DeltaTable(self.path).delete(f"id IN ({', '.join(map(str, gone))})")
        self.live = {number: row for number, row in self.live.items() if number not in gone}
        self.latest = max([self.latest, *(row["ts"] for row in version.upserted.values())])

    def _merge(self, upserted: Rows) -> None:
        source = arrow(upserted)
        if not self.live:
            write_deltalake(self.path, source, mode="append")
            return
        merge = DeltaTable(self.path).merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()


def arrow(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([{"id": number, **row} for number, row in rows.items()], SCHEMA)


def in_duckdb(sql: str, feed: Feed) -> list[dict[str, Any]]:
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("live", arrow(feed.live))
        return db.sql(sql).to_arrow_table().to_pylist()


def run(plan: Plan, spark: Any, root: Path, clock: Iterator[int], kills: Iterable[int] = ()) -> int:
    """Run the view until it is done, through the kills; gives its last epoch."""
    for writes in [*kills, 0]:
        options = RunOptions(now=lambda: next(clock), after_write=raising_after(writes), maintenance=EAGER)
        try:
            run_view(plan, spark, project=root, data=root / "data", options=options)
        except CrashError:
            continue
    commit = StoreReader(root / "data" / plan.query.view).commit()
    assert commit is not None
    return commit.epoch


def plans_of(sql: str, root: Path) -> tuple[Plan, ...]:
    return plan_script(sql, schema_of=lambda statement: schema_of(statement, root))


def read(root: Path, table: str, view: str = "out") -> list[dict[str, Any]]:
    found = StoreReader(root / "data" / view).read(table).to_pylist()
    ordered = sorted(found, key=lambda row: (row["_epoch"], row.get("_seq", 0)))
    return [{name: engine_value(value) for name, value in row.items()} for row in ordered]


def difference(changes: Iterable[Mapping[str, Any]], result: Iterable[Mapping[str, Any]]) -> list[Any]:
    return consolidate([*((data_columns(row), row["_weight"]) for row in changes), *((row, -1) for row in result)])


@on_spark(4)
@given(
    kind=st.sampled_from(list(WINDOWS)),
    strategy=st.sampled_from(STRATEGIES),
    schedule=st.lists(ticks, min_size=2, max_size=3),
)
def test_the_changelog_summed_to_each_epoch_is_the_batch_result_over_the_rows_live_then(
    spark: Any, kind: str, strategy: str, schedule: list[Tick]
) -> None:
    if kind == "none" and strategy == "ON WATERMARK":
        strategy = "CHANGES"
    bounds, lateness = ("", "") if kind == "none" else (BOUNDS, LATENESS)
    source, placed = WINDOWS[kind]
    sql = SQL.format(bounds=bounds, results=RESULTS, source=source, lateness=lateness, strategy=strategy)
    batch = BATCH.format(placed=placed, bounds=bounds, results=RESULTS)
    with tempfile.TemporaryDirectory(prefix="laminar-law-") as folder:
        root, clock = Path(folder), count(NOW, 2 * SECOND)
        feed = Feed(root / "ev")
        (plan,) = plans_of(sql, root)
        expected: dict[int, list[dict[str, Any]]] = {}
        for tick in schedule:
            for version in tick.versions:
                feed.take(version)
            epoch = run(plan, spark, root, clock, tick.kills)
            passed = feed.latest - LAG if strategy == "ON WATERMARK" else None
            found = in_duckdb(batch, feed)
            expected[epoch] = [row for row in found if passed is None or row["window_end"] <= passed]
        assert run(plan, spark, root, clock) == epoch, "a second run adds nothing"
        changes = read(root, f.CHANGELOG)
        for epoch, result in expected.items():
            assert difference((row for row in changes if row["_epoch"] <= epoch), result) == []
        assert broken_laws(read(root, f.OUTPUT), changes, unique=True) == []


CASCADE = """
CREATE SOURCE ev (id BIGINT, k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH (connector = 'delta', path = 'ev', changes = 'cdf');
CREATE MATERIALIZED VIEW small AS
SELECT window_start, window_end, k, SUM(v) AS s, MAX(v) AS hi, COUNT(*) AS n
FROM TUMBLE(ev, ts, INTERVAL '5' SECOND) GROUP BY window_start, window_end, k {lateness} EMIT {first};
CREATE MATERIALIZED VIEW large AS
SELECT window_start, window_end, k, SUM(s) AS s, MAX(hi) AS hi, COUNT(DISTINCT n) AS sizes
FROM TUMBLE(small, window_start, INTERVAL '20' SECOND) GROUP BY window_start, window_end, k {lateness} EMIT {second};
CREATE MATERIALIZED VIEW total AS
SELECT k, SUM(s) AS s, MAX(hi) AS hi, MIN(sizes) AS least, COUNT(*) AS n FROM large GROUP BY k EMIT {third};
"""
COMPOSED = f"""
WITH small AS (
    SELECT epoch_us(ts) // {5 * SECOND} * {5 * SECOND} AS window_start, window_start + {5 * SECOND} AS window_end, k,
        SUM(v) AS s, MAX(v) AS hi, COUNT(*) AS n FROM live GROUP BY ALL
), large AS (
    SELECT small.window_start // {20 * SECOND} * {20 * SECOND} AS window_start,
        small.window_start // {20 * SECOND} * {20 * SECOND} + {20 * SECOND} AS window_end, k,
        SUM(s) AS s, MAX(hi) AS hi, COUNT(DISTINCT n) AS sizes FROM small GROUP BY ALL
), total AS (SELECT k, SUM(s) AS s, MAX(hi) AS hi, MIN(sizes) AS least, COUNT(*) AS n FROM large GROUP BY k)
"""


@on_spark(2)
@given(strategies=st.tuples(*[st.sampled_from(AT_ONCE)] * 3), schedule=st.lists(ticks, min_size=2, max_size=2))
def test_three_views_over_each_other_are_the_composed_batch_query(
    spark: Any, strategies: tuple[str, str, str], schedule: list[Tick]
) -> None:
    first, second, third = strategies
    with tempfile.TemporaryDirectory(prefix="laminar-law-") as folder:
        root, clock = Path(folder), count(NOW, 2 * SECOND)
        feed = Feed(root / "ev")
        plans = plans_of(CASCADE.format(lateness=LATENESS, first=first, second=second, third=third), root)
        for tick in schedule:
            for version in tick.versions:
                feed.take(version)
            for plan in plans:
                run(plan, spark, root, clock, tick.kills)
                view = plan.query.view
                changes = read(root, f.CHANGELOG, view)
                assert difference(changes, in_duckdb(f"{COMPOSED} SELECT * FROM {view}", feed)) == []
                assert broken_laws(read(root, f.OUTPUT, view), changes, unique=True) == []
