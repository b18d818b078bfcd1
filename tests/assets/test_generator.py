"""The demo's events are what the generator says they are."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from assets.generator import COMMITS, FILES, FIRST_SPAN, SPAN, generate, read_position
from laminar_dagster.semantics.time import MINUTE, from_datetime, from_iso, to_datetime

NOW = datetime(2026, 3, 1, 18, 20, tzinfo=UTC)


def lines_of(landing: Path) -> list[str]:
    return [line for path in sorted((landing / "sales").glob("*.jsonl")) for line in path.read_text().splitlines()]


def readable(lines: list[str]) -> list[dict[str, Any]]:
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def test_a_call_makes_files_and_commits(tmp_path: Path) -> None:
    made = generate(tmp_path, now=NOW)
    assert made is not None
    assert len(list((tmp_path / "sales").glob("*.jsonl"))) == made.sales_files == FILES
    assert len(lines_of(tmp_path)) == made.sales
    table = DeltaTable(str(tmp_path / "payments"))
    assert table.version() + 1 == made.payment_commits == COMMITS
    assert table.to_pyarrow_table().num_rows == made.payments


def test_the_faults_are_as_many_as_it_says(tmp_path: Path) -> None:
    made = generate(tmp_path, now=NOW)
    assert made is not None
    rows, ahead = readable(lines_of(tmp_path)), from_datetime(NOW) + 5 * MINUTE
    times = [from_iso(row["event_time"]) for row in rows if "event_time" in row]
    payments = DeltaTable(str(tmp_path / "payments")).to_pyarrow_table()
    assert made.faults["cut off"] == made.sales - len(rows)
    assert made.faults["wrong type"] == sum(isinstance(row.get("quantity"), str) for row in rows)
    assert made.faults["future"] == sum(time > ahead for time in times)
    without_time = sum("event_time" not in row for row in rows)
    assert made.faults["no event time"] == without_time + payments.column("event_time").null_count
    assert made.faults["late"] > 0


def test_the_same_seed_and_clock_make_the_same_events(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        generate(tmp_path / folder, now=NOW)
        generate(tmp_path / folder, now=NOW)
    assert lines_of(tmp_path / "a") == lines_of(tmp_path / "b")


def test_another_seed_makes_other_events(tmp_path: Path) -> None:
    generate(tmp_path / "a", seed=1, now=NOW)
    generate(tmp_path / "b", seed=2, now=NOW)
    assert lines_of(tmp_path / "a") != lines_of(tmp_path / "b")


def test_the_next_call_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    first = generate(tmp_path, now=NOW)
    second = generate(tmp_path, now=NOW + timedelta(seconds=5))
    assert first is not None
    assert second is not None
    assert second.since == first.until == first.since + FIRST_SPAN
    assert second.until == second.since + SPAN
    ids = [row["sale_id"] for row in readable(lines_of(tmp_path))]
    assert len(ids) == len(set(ids))


def test_event_time_stops_at_the_clock(tmp_path: Path) -> None:
    first = generate(tmp_path, now=NOW)
    assert first is not None
    clock = to_datetime(first.until) + timedelta(minutes=3)
    second = generate(tmp_path, now=clock)
    assert second is not None
    assert second.until == from_datetime(clock)
    before = read_position(tmp_path)
    assert generate(tmp_path, now=clock) is None
    assert read_position(tmp_path) == before


def test_a_source_never_sees_an_unfinished_file(tmp_path: Path) -> None:
    generate(tmp_path, now=NOW)
    names = {path.name for path in (tmp_path / "sales").iterdir()}
    assert all(name.startswith("sales-") for name in names)
