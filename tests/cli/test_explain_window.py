"""`laminar explain VIEW --window`: the account of a window, over epochs written by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.time import MINUTE, from_datetime
from state_store import DeltaDirectory
from state_store import format as f
from state_store.changelog import SNAPSHOT_APPLICATION
from tests.cli.told_epochs import (
    BOUNDS,
    EMITTED,
    RESULT,
    STATE,
    ToldEpoch,
    a_project,
    at,
    change,
    laminar,
    late,
    partial,
    result,
    tell,
    timer,
)

SOURCE = """
CREATE SOURCE sales (region STRING, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5' SECOND)
WITH (connector = 'files', path = 'landing', format = 'json', idle_timeout = '1 hour');
"""
VIEW = "CREATE MATERIALIZED VIEW %s AS SELECT window_start, region, COUNT(*) AS n FROM %s"
GROUPED = " GROUP BY window_start, window_end, region %s;\n"
TUMBLING = "TUMBLE(sales, at, INTERVAL '1' MINUTE)"
SESSIONS = """
CREATE MATERIALIZED VIEW sessions AS
SELECT window_start, window_end, region, COUNT(*) AS n FROM SESSION(sales, at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, region EMIT ON WINDOW CLOSE;
"""
SQL = (
    SOURCE
    + VIEW % ("once", TUMBLING)
    + GROUPED % "EMIT ON WINDOW CLOSE"
    + VIEW % ("corrected", TUMBLING)
    + GROUPED % "ALLOW LATENESS INTERVAL '5' MINUTE EMIT ON WATERMARK"
    + VIEW % ("hopping", "HOP(sales, at, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)")
    + GROUPED % "EMIT ON WINDOW CLOSE"
    + VIEW % ("limited", "HOP(sales, at, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)")
    + GROUPED % "EMIT ON WINDOW CLOSE WITH (max_groups_per_window = 1)"
    + VIEW % ("apart", "HOP(sales, at, INTERVAL '5' MINUTE, INTERVAL '1' MINUTE)")
    + GROUPED % "EMIT ON WINDOW CLOSE"
    + VIEW % ("folded", TUMBLING)
    + GROUPED % "EMIT ON WINDOW CLOSE"
    + SESSIONS
    + "CREATE MATERIALIZED VIEW bare AS SELECT region, COUNT(*) AS n FROM sales GROUP BY region EMIT CHANGES;"
    + "CREATE MATERIALIZED VIEW blind AS SELECT COUNT(*) AS n FROM TUMBLE(sales, at, INTERVAL '1' MINUTE)"
    + " GROUP BY window_start, window_end, region EMIT ON WINDOW CLOSE;"
)
FIRST = ToldEpoch(
    "12:05:00", "12:00:55", {"sales": ("12:00:55", "12:05:00")},
    tables={
        f.PARTIALS: [partial("12:00:00", "12:01:00", "eu", 3), partial("12:00:00", "12:01:00", "us", 1)],
        f.TIMERS: [timer("12:00:00", "12:01:00", 1)],
    },
)  # fmt: skip
SECOND = ToldEpoch(
    "12:06:00", "12:02:25", {"sales": ("12:02:25", "12:06:00")},
    tables={
        f.PARTIALS: [partial("12:01:00", "12:02:00", "eu", 1), partial("12:02:00", "12:03:00", "eu", 2)],
        f.TIMERS: [timer("12:02:00", "12:03:00", 2)],
        f.SIDE_OUTPUT: [late("12:00:00", "12:01:00", "eu"), late("12:00:00", "12:01:00", "us")],
        f.OUTPUT: [result(2, "12:06:00", "12:00:00", "eu", 3), result(2, "12:06:00", "12:00:00", "us", 1),
                   result(2, "12:06:00", "12:01:00", "eu", 1)],
    },
)  # fmt: skip
THIRD = ToldEpoch(
    "12:07:00", "12:02:55", {"sales": ("12:02:55", "12:07:00")},
    tables={f.PARTIALS: [partial("12:02:00", "12:03:00", "eu", 4), partial("12:02:00", "12:03:00", "us", 1)]},
)  # fmt: skip
OLD, NEW = (result(3, "12:07:00", "12:00:00", "eu", n) for n in (3, 4))
CORRECTIONS = [
    FIRST,
    ToldEpoch(
        "12:06:00", "12:02:25", {"sales": ("12:02:25", "12:06:00")},
        tables={f.CHANGELOG: [change("+I", "12:01:00", 2, 0, result(2, "12:06:00", "12:00:00", "eu", 3)),
                              change("+I", "12:01:00", 2, 1, result(2, "12:06:00", "12:00:00", "us", 1)),
                              change("+I", "12:02:00", 2, 2, result(2, "12:06:00", "12:01:00", "eu", 1))]},
    ),
    ToldEpoch(
        "12:07:00", "12:03:00", {"sales": ("12:03:00", "12:07:00")},
        tables={f.CHANGELOG: [change("-U", "12:01:00", 3, 0, OLD), change("+U", "12:01:00", 3, 1, NEW)]},
    ),
]  # fmt: skip
SESSION_OUTPUT = pa.schema([RESULT.field(0), ("window_end", f.TIMESTAMP), *list(RESULT)[1:], *BOUNDS, *EMITTED,
                            ("_partition", pa.string())])  # fmt: skip

LIMITED_STATE = STATE.append(pa.field("evicted_from", pa.list_(pa.int64())))
EVICTED = [
    {**partial("12:01:00", "12:02:00", "eu", 3), "evicted_from": None},
    {**partial("12:01:00", "12:02:00", "us", 5), "evicted_from": [at("12:02:00")]},
]

WAITING = "the watermark is at 2026-01-01T12:02:55Z, and 2026-01-01T12:03:00Z closes it; 5 s of event time are missing"
HOLDER = (
    "watermark 2026-01-01T12:02:55Z; holds the view's watermark back; "
    "needs a row of 2026-01-01T12:03:05Z or later, or none until 2026-01-01T13:07:00Z by the clock"
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = a_project(tmp_path_factory.mktemp("project"), SQL)
    for view in ("once", "hopping", "apart"):
        tell(root / "data" / view, [FIRST, SECOND, THIRD])
    tell(root / "data" / "blind", [FIRST, ToldEpoch("12:06:00", "12:02:25", SECOND.shards)])
    tell(root / "data" / "corrected", CORRECTIONS)
    tell(root / "data" / "limited", [replace(FIRST, tables={f.PARTIALS: EVICTED})], state=LIMITED_STATE)
    folded = replace(CORRECTIONS[2], kind="fold_late")
    tell(root / "data" / "folded", [FIRST, replace(SECOND, tables=CORRECTIONS[1].tables), folded])
    closed = {
        **result(1, "12:05:00", "11:00:00", "eu", 2),
        "window_end": NEW["window_start"].replace(hour=11, minute=5),
        "_window_end": at("11:05:00"),
    }
    fragments = [partial("12:00:00", "12:01:10", "eu", 3), partial("12:01:10", "12:02:30", "eu", 2),
                 partial("12:02:31", "12:04:00", "eu", 1), partial("12:00:30", "12:02:00", "us", 1)]  # fmt: skip
    told = ToldEpoch("12:05:00", "12:00:55", FIRST.shards, tables={f.PARTIALS: fragments, f.OUTPUT: [closed]})
    tell(root / "data" / "sessions", [told], SESSION_OUTPUT)
    return root


def windows(project: Path, view: str, time: str, *more: str) -> list[dict[str, Any]]:
    text = laminar(project, "explain", view, "--window", f"2026-01-01T{time}Z", "--json", *more).stdout
    found: list[dict[str, Any]] = json.loads(text)["windows"]
    return found


def clock(moment: str) -> str:
    return f"2026-01-01T{moment}Z"


def test_an_open_window_says_what_it_waits_for(project: Path) -> None:
    (found,) = windows(project, "once", "12:02:30")
    assert (found["window_start"], found["window_end"]) == (clock("12:02:00"), clock("12:03:00"))
    assert found["open"]
    assert found["opened_in_epoch"] == 2
    assert (found["closes_at_watermark"], found["missing_seconds"]) == (clock("12:03:00"), 5)
    assert (found["groups"], found["rows"], found["partials"]) == (2, 7, 3)
    (shard,) = found["shards"]
    assert shard["holds_back"]
    assert shard["needs_event_time"] == clock("12:03:05")
    assert shard["idle_from"] == clock("13:07:00")
    assert found["emissions"] == []


def test_a_key_narrows_what_is_counted_and_shows_the_rows(project: Path) -> None:
    (found,) = windows(project, "once", "12:02:30", "--key", "region=eu")
    assert (found["groups"], found["rows"]) == (1, 6)
    (closed,) = windows(project, "once", "12:00:00", "--key", "region=us")
    assert [(row["_epoch"], row["region"], row["n"]) for row in closed["emitted_rows"]] == [(2, "us", 1)]
    assert closed["set_aside"] == [{"kind": "late", "reason": "allowed_lateness_exceeded", "rows": 1}]
    (missing,) = windows(project, "once", "12:02:30", "--key", "region=NULL")
    assert missing["groups"] == 0


def test_a_closed_window_says_in_which_epoch_and_by_which_watermark(project: Path) -> None:
    (found,) = windows(project, "once", "12:00:59.999999")
    assert not found["open"]
    expected = {"epoch": 2, "watermark_before": clock("12:00:55"), "watermark_after": clock("12:02:25")}
    assert expected.items() <= found["closed"].items()
    assert found["set_aside"] == [{"kind": "late", "reason": "allowed_lateness_exceeded", "rows": 2}]
    (emission,) = found["emissions"]
    assert (emission["epoch"], emission["operations"], emission["reason"]) == (2, {"+I": 2}, "the window closed")


def test_a_window_can_be_seen_as_it_was(project: Path) -> None:
    (found,) = windows(project, "once", "12:00:30", "--epoch", "1")
    assert found["open"]
    assert (found["groups"], found["rows"], found["missing_seconds"]) == (2, 4, 5)
    assert found["emissions"] == []


def test_a_window_that_no_row_came_for_is_told_as_well(project: Path) -> None:
    (found,) = windows(project, "once", "12:30:00")
    assert (found["open"], found["groups"], found["opened_in_epoch"]) == (True, 0, None)
    (past,) = windows(project, "once", "11:30:00")
    assert (past["open"], past["closed"]["epoch"], past["emissions"]) == (False, 1, [])


def test_all_windows_that_a_time_lies_in_are_told(project: Path) -> None:
    found = windows(project, "hopping", "12:02:30")
    assert [(w["window_start"], w["groups"], w["rows"]) for w in found] == [
        (clock("12:01:00"), 2, 8), (clock("12:02:00"), 2, 7),
    ]  # fmt: skip


def test_a_time_between_two_windows_is_said_to_be_in_a_gap(project: Path) -> None:
    asked = ("explain", "apart", "--window", clock("12:01:00"))
    stretch = f"{clock('12:01:00')} to {clock('12:05:00')}"
    assert laminar(project, *asked).stdout == (
        f"apart: that time is in a gap between two windows, {stretch}: its rows are in none\n"
    )
    told = json.loads(laminar(project, *asked, "--json").stdout)
    assert (told["windows"], told["gap"]) == ([], {"start": clock("12:01:00"), "end": clock("12:05:00")})
    assert "gap" not in json.loads(laminar(project, *asked[:-1], clock("12:00:59"), "--json").stdout)


def test_open_sessions_are_shown_with_their_keys_and_how_long_nothing_came(project: Path) -> None:
    before = from_datetime(datetime.now(UTC))
    entries = json.loads(laminar(project, "state", "sessions", "--json").stdout)["open_windows"]
    assert {tuple(entry["keys"].items()) for entry in entries} == {(("region", "eu"),), (("region", "us"),)}
    quiet = 60 * (before - at("12:05:00")) / MINUTE
    assert all(quiet <= entry["quiet_seconds"] < quiet + 600 for entry in entries)
    text = laminar(project, "state", "sessions").stdout
    assert text.count("region = eu") == 2
    assert text.count("region = us") == 1


def test_rows_that_a_limit_kept_out_of_a_window_are_not_in_it(project: Path) -> None:
    found = windows(project, "limited", "12:01:30")
    assert [(w["window_start"], w["groups"], w["rows"]) for w in found] == [
        (clock("12:00:00"), 1, 3), (clock("12:01:00"), 2, 8),
    ]  # fmt: skip


def test_a_window_that_only_appends_lists_what_was_folded_into_it(project: Path) -> None:
    (found,) = windows(project, "folded", "12:00:30")
    assert [(e["epoch"], e["operations"], e["reason"]) for e in found["emissions"]] == [
        (2, {"+I": 2}, "the window closed"),
        (3, {"+U": 1, "-U": 1}, "an epoch of kind fold_late"),
    ]


def test_corrections_are_listed_with_their_reason(project: Path) -> None:
    (found,) = windows(project, "corrected", "12:00:30")
    assert found["open"]
    assert found["closes_at_watermark"] == clock("12:06:00")
    assert [(e["epoch"], e["operations"], e["reason"]) for e in found["emissions"]] == [
        (2, {"+I": 2}, "the watermark passed the window's end"),
        (3, {"+U": 1, "-U": 1}, "a correction, by rows that came after it"),
    ]
    (eu,) = windows(project, "corrected", "12:00:30", "--key", "region=eu")
    assert [(row["_op"], row["n"]) for row in eu["emitted_rows"]] == [("+I", 3), ("-U", 3), ("+U", 4)]


def test_what_was_folded_into_a_snapshot_is_not_taken_for_an_emission_of_its_epoch(tmp_path: Path) -> None:
    root = a_project(tmp_path, SQL)
    store = root / "data" / "corrected"
    tell(store, CORRECTIONS[:2])
    DeltaDirectory(store / f.CHANGELOG).commit(application=SNAPSHOT_APPLICATION, number=2)
    tell(store, CORRECTIONS[2:])
    (found,) = windows(root, "corrected", "12:00:30")
    folded, corrected = (emission["reason"] for emission in found["emissions"])
    assert folded == "it stood in the table when older changes were folded into a snapshot"
    assert corrected == "a correction, by rows that came after it"


def test_fragments_that_touch_are_one_session_of_their_key(project: Path) -> None:
    found = windows(project, "sessions", "12:01:30")
    assert [(s["keys"]["region"], s["window_start"], s["window_end"], s["rows"]) for s in found] == [
        ("us", clock("12:00:30"), clock("12:02:00"), 1), ("eu", clock("12:00:00"), clock("12:02:30"), 5),
    ]  # fmt: skip
    assert [s["rows"] for s in windows(project, "sessions", "12:03:00")] == [1]
    assert [s["rows"] for s in windows(project, "sessions", "12:01:30", "--key", "region=us")] == [1]


def test_a_closed_session_is_found_in_the_output(project: Path) -> None:
    (found,) = windows(project, "sessions", "11:04:59")
    assert (found["window_end"], found["open"], found["emissions"][0]["epoch"]) == (clock("11:05:00"), False, 1)
    text = laminar(project, "explain", "sessions", "--window", clock("11:05:00")).stdout
    assert "no window holds that time" in text


def test_a_view_that_does_not_select_a_key_says_so(project: Path) -> None:
    (found,) = windows(project, "blind", "12:00:30", "--key", "region=eu")
    assert found["closed"]["epoch"] == 2
    assert found["notes"] == ["emissions are of all values of region, which the view does not select"]


def test_the_account_is_readable_by_people(project: Path) -> None:
    text = laminar(project, "explain", "once", "--window", "2026-01-01 12:02:30").stdout
    assert text.splitlines() == [
        "once: window 2026-01-01T12:02:00Z to 2026-01-01T12:03:00Z, as of epoch 3",
        f"├─ open: {WAITING}",
        "├─ opened in epoch 2",
        "├─ last updated at 2026-01-01T12:07:00Z",
        "├─ in the state: 2 group(s), 7 row(s), 3 partial(s)",
        "├─ shards",
        f"│  └─ sales: {HOLDER}",
        "├─ set aside: nothing",
        "└─ emissions: none",
    ]
    closed = laminar(project, "explain", "once", "--window", clock("12:00:00"), "--key", "region=eu").stdout
    assert "closed in epoch 2: the watermark went from 2026-01-01T12:00:55Z to 2026-01-01T12:02:25Z" in closed
    assert "epoch 2 at 2026-01-01T12:06:00Z: 1 +I; the window closed" in closed


@pytest.mark.parametrize(
    "arguments",
    [("once", "--window", "noon"), ("once", "--window", "2026-01-01", "--key", "regoin=eu"), ("once", "--epoch", "1"),
     ("once", "--window", "2026-01-01", "--key", "region"), ("once", "--key", "region=eu"),
     ("bare", "--window", "2026-01-01")],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(project: Path, arguments: tuple[str, ...]) -> None:
    if arguments[0] == "bare":
        tell(project / "data" / "bare", [FIRST])
    with pytest.raises(LaminarError, match="LMR0713"):
        laminar(project, "explain", *arguments)


def test_before_the_first_epoch_there_is_nothing_to_tell(tmp_path: Path) -> None:
    root = a_project(tmp_path, SQL)
    assert laminar(root, "explain", "once", "--window", clock("12:00:00")).stdout == "once: no epoch yet\n"
