"""The demo's events are what the generator says they are."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from assets.generator import FIRST_SPAN, SALES_FILES, SPAN, Made, generate, read_position
from laminar_dagster.semantics.time import MINUTE, from_datetime, from_iso, to_datetime

NOW = datetime(2026, 3, 3, 18, 20, tzinfo=UTC)


def made_by(landing: Path, now: datetime = NOW) -> Made:
    made = generate(landing, now=now)
    assert made is not None
    return made


def sales_in(landing: Path) -> list[str]:
    return [line for path in sorted((landing / "sales").iterdir()) for line in path.read_text().splitlines()]


def clicks_in(landing: Path) -> list[list[str]]:
    """The fields of each line, without the headings."""
    return [
        line.split(",")
        for path in sorted((landing / "clicks").iterdir())
        for line in path.read_text().splitlines()[1:]
    ]  # fmt: skip


def readable(lines: list[str]) -> list[dict[str, Any]]:
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def test_a_call_makes_files_and_commits(tmp_path: Path) -> None:
    made = made_by(tmp_path)
    assert len(list((tmp_path / "sales").iterdir())) == SALES_FILES
    assert len(sales_in(tmp_path)) == made.sales
    assert len(list((tmp_path / "clicks").iterdir())) == 1
    assert len(clicks_in(tmp_path)) == made.clicks
    payments = DeltaTable(tmp_path / "payments")
    assert payments.version() > 0
    assert payments.to_pyarrow_table().num_rows == made.payments - made.cancelled


def test_the_first_call_passes_a_midnight_in_berlin_so_that_a_day_closes(tmp_path: Path) -> None:
    made = made_by(tmp_path)
    assert made.until - made.since == FIRST_SPAN
    assert to_datetime(made.since) == datetime(2026, 3, 1, 21, tzinfo=UTC)


def test_payments_are_corrected_and_cancelled_in_the_change_feed(tmp_path: Path) -> None:
    first = made_by(tmp_path)
    second = made_by(tmp_path)
    feed = DeltaTable(tmp_path / "payments").load_cdf(starting_version=0).read_all()
    counts = Counter(feed.column("_change_type").to_pylist())
    assert counts["insert"] == first.payments + second.payments
    assert counts["update_preimage"] == counts["update_postimage"] == first.corrected + second.corrected == 8
    assert counts["delete"] == first.cancelled + second.cancelled == 4


def test_a_customer_who_pays_once_and_takes_it_back_is_gone(tmp_path: Path) -> None:
    """So that a row of `customer_balance` is deleted, with `-D`, while somebody watches."""
    made_by(tmp_path)
    assert "guest-0" in DeltaTable(tmp_path / "payments").to_pyarrow_table().column("customer").to_pylist()
    made_by(tmp_path)
    assert "guest-0" not in DeltaTable(tmp_path / "payments").to_pyarrow_table().column("customer").to_pylist()


def test_the_faults_are_as_many_as_it_says(tmp_path: Path) -> None:
    made = made_by(tmp_path)
    rows, ahead = readable(sales_in(tmp_path)), from_datetime(NOW) + 5 * MINUTE
    times = [from_iso(row["event_time"]) for row in rows if "event_time" in row]
    cut_off_clicks = sum(len(fields) < 3 for fields in clicks_in(tmp_path))
    assert made.faults["cut off"] == made.sales - len(rows) + cut_off_clicks
    assert made.faults["wrong type"] == sum(isinstance(row.get("quantity"), str) for row in rows)
    assert made.faults["future"] == sum(time > ahead for time in times)
    assert made.faults["no event time"] == sum("event_time" not in row for row in rows)
    assert made.faults["late"] > made.faults["a little late"] > 0


def test_the_same_seed_and_clock_make_the_same_events(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        made_by(tmp_path / folder)
        made_by(tmp_path / folder)
    assert sales_in(tmp_path / "a") == sales_in(tmp_path / "b")
    assert clicks_in(tmp_path / "a") == clicks_in(tmp_path / "b")


def test_another_seed_makes_other_events(tmp_path: Path) -> None:
    generate(tmp_path / "a", seed=1, now=NOW)
    generate(tmp_path / "b", seed=2, now=NOW)
    assert sales_in(tmp_path / "a") != sales_in(tmp_path / "b")


def test_the_next_call_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    first = made_by(tmp_path)
    second = made_by(tmp_path, NOW + timedelta(seconds=5))
    assert second.since == first.until
    assert second.until == second.since + SPAN
    ids = [row["sale_id"] for row in readable(sales_in(tmp_path))]
    assert len(ids) == len(set(ids))


def test_event_time_stops_at_the_clock(tmp_path: Path) -> None:
    first = made_by(tmp_path)
    clock = to_datetime(first.until) + timedelta(minutes=3)
    assert made_by(tmp_path, clock).until == from_datetime(clock)
    before = read_position(tmp_path)
    assert generate(tmp_path, now=clock) is None
    assert read_position(tmp_path) == before


@pytest.mark.parametrize("source", ["sales", "clicks"])
def test_a_source_never_sees_an_unfinished_file(tmp_path: Path, source: str) -> None:
    made_by(tmp_path)
    assert all(path.name.startswith(f"{source}-") for path in (tmp_path / source).iterdir())
