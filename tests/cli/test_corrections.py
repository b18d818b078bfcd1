"""`laminar backfill` and `laminar fold-late` through the real command: what they print, refuse, deliver, and leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from laminar_dagster.cli.app import app

SQL = """
CREATE SOURCE sales (region STRING, amount BIGINT, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', format = 'json', path = 'landing');
CREATE MATERIALIZED VIEW per_hour AS
SELECT window_start, window_end, region, SUM(amount) AS total
FROM TUMBLE(sales, at, INTERVAL '1' HOUR) GROUP BY window_start, window_end, region EMIT ON WINDOW CLOSE;
CREATE SINK archive FROM per_hour WITH (connector = 'files', path = 'out/archive', format = 'json');
CREATE SINK current FROM per_hour WITH (connector = 'delta', path = 'out/current', mode = 'upsert');
CREATE SINK events FROM per_hour WITH (connector = 'files', path = 'out/events', format = 'debezium');
"""
LATE = (("05T09:20", "north", 6), ("05T10:30", "south", 3), ("07T09:00", "north", 2))

COUNTS = "1 inserted, 1 updated; 2 late row(s) folded; 3 source row(s) read again"


class Shop:
    """A project in a directory, and the command that is used on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "sql").mkdir()
        (root / "sql" / "views.sql").write_text(SQL)
        (root / "landing").mkdir()

    def sell(self, name: str, *sales: tuple[str, str, int]) -> None:
        rows = [{"region": region, "amount": n, "at": f"2026-01-{moment}:00Z"} for moment, region, n in sales]
        (self.root / "landing" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def laminar(self, *words: str) -> Result:
        return CliRunner().invoke(app, [*words, "--project", str(self.root)])

    def done(self, *words: str) -> str:
        result = self.laminar(*words)
        assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"
        return result.output

    def told(self, *words: str) -> Any:
        lines = self.done(*words, "--json").splitlines()
        return json.loads(next(line for line in lines if line.startswith("{")))

    def totals(self) -> list[tuple[str, str, int]]:
        rows = [json.loads(line) for line in self.done("show", "per_hour", "--format", "json").splitlines()]
        return sorted((row["window_start"][8:16], row["region"], row["total"]) for row in rows)


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A closed hour on each of two days, and three late rows."""
    monkeypatch.setenv("LAMINAR_SPARK", spark.sparkContext.master)
    monkeypatch.setenv("COLUMNS", "120")
    found = Shop(tmp_path)
    found.sell("1", ("05T09:10", "north", 4), ("07T09:10", "north", 1), ("09T00:00", "x", 1))
    found.done("run")
    found.sell("2", *LATE)
    found.done("run")
    return found


@pytest.mark.spark
def test_a_day_is_looked_at_backfilled_delivered_and_verified(shop: Shop) -> None:
    day = ("backfill", "per_hour", "--from", "2026-01-05", "--to", "2026-01-06")
    before = shop.totals()
    assert shop.done(*day, "--dry-run").splitlines() == [
        f"per_hour: dry run, nothing is written: {COUNTS}",
        "  -U  window_start = 2026-01-05T09:00:00Z, window_end = 2026-01-05T10:00:00Z, region = north, total = 4",
        "  +U  window_start = 2026-01-05T09:00:00Z, window_end = 2026-01-05T10:00:00Z, region = north, total = 10",
        "  +I  window_start = 2026-01-05T10:00:00Z, window_end = 2026-01-05T11:00:00Z, region = south, total = 3",
    ]
    assert shop.totals() == before
    assert len(shop.told(*day, "--dry-run")["changes"]) == 3
    assert shop.done(*day).splitlines() == [
        f"per_hour: epoch 3 (backfill): {COUNTS}",
        "  2026-01-05: 1 +I, 1 +U, 1 -U",
        "per_hour: sink archive only appends: 3 correction(s) are not delivered to it",
        "per_hour: delivered 1 epoch(s), 3 row(s) to sink current",
        "per_hour: delivered 1 epoch(s), 3 row(s) to sink events",
    ]
    assert shop.totals() == [("05T09:00", "north", 10), ("05T10:00", "south", 3), ("07T09:00", "north", 1)]
    again = shop.told(*day)
    assert {name: again[name] for name in ("epoch", "inserted", "updated", "deleted", "folded_rows")} == {
        "epoch": 4,
        "inserted": 0,
        "updated": 0,
        "deleted": 0,
        "folded_rows": 0,
    }
    current = DeltaTable(str(shop.root / "out" / "current")).to_pyarrow_table().to_pylist()
    assert sorted(row["total"] for row in current) == [1, 3, 10]
    archived = "".join(path.read_text() for path in sorted((shop.root / "out" / "archive").iterdir()))
    assert [json.loads(line)["total"] for line in archived.splitlines()] == [4, 1], "each result as it was first shown"
    events = (shop.root / "out" / "events" / "e0000000003.json").read_text().splitlines()
    assert sorted(json.loads(line)["op"] for line in events) == ["c", "u"]
    assert "all as in the view" in shop.done("verify", "per_hour")


@pytest.mark.spark
def test_late_rows_are_chosen_folded_once_and_verified(shop: Shop) -> None:
    chosen = ("fold-late", "per_hour", "--where", "event_time < '2026-01-06'")
    assert "2 late row(s) folded" in shop.done(*chosen, "--dry-run")
    told = shop.told(*chosen)
    assert (told["folded_rows"], told["partitions"]) == (2, {"2026-01-05": {"+I": 1, "+U": 1, "-U": 1}})
    assert shop.done(*chosen) == "per_hour: nothing to correct\n"
    folded = shop.done("show", "per_hour", "--side-output", "--where", "folded_epoch = 3", "--format", "json")
    assert folded.count('"kind"') == 2
    assert "all as in the view" in shop.done("verify", "per_hour")
    assert "1 late row(s) folded" in shop.done("fold-late", "per_hour")
    assert shop.totals()[2:] == [("07T09:00", "north", 3)]
    assert "all as in the view" in shop.done("verify", "per_hour")


@pytest.mark.spark
def test_mistakes_are_told_with_a_hint(shop: Shop) -> None:
    for words, code, hint in (
        (
            ("backfill", "per_hour", "--from", "2026-01-06", "--to", "2026-01-05"),
            "LMR0725",
            "--from must be before --to",
        ),
        (("backfill", "per_hour", "--from", "tomorrow", "--to", "2026-01-05"), "LMR0713", "Like 2026-01-01T12:00:30Z"),
        (("fold-late", "per_hour", "--where", "amount > 1"), "LMR0721", "SQL over the columns of the side output"),
    ):
        refused = shop.laminar(*words)
        text = refused.output + str(refused.exception)
        assert refused.exit_code != 0
        assert code in text
        assert hint in text
    (shop.root / "landing" / "1.jsonl").unlink()
    refused = shop.laminar("backfill", "per_hour", "--from", "2026-01-05", "--to", "2026-01-06")
    assert "LMR0723" in str(refused.exception)
    assert "1.jsonl" in str(refused.exception)
