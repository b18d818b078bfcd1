"""The law of accounts: in every epoch each row that came in is aggregated, filtered, in the side output, or counted as
beyond a limit; as the tables have it, and as the reference says.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.semantics.query import SIDE_OUTPUT_KINDS
from laminar_dagster.semantics.reference import Commit, EpochResult, Reference
from laminar_dagster.semantics.time import SECOND, from_datetime
from state_store import format as f
from tests.engine.sources.views import NOON, View, at, source, write
from tests.laws.examples import on_spark
from tests.laws.logs import commits, rows

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND"
SELECT = """
CREATE MATERIALIZED VIEW out AS SELECT window_start, window_end, k, COUNT(*) AS n, SUM(10 / v) AS total
FROM {window} WHERE v >= 0 GROUP BY window_start, window_end, k
ALLOW LATENESS INTERVAL '5' SECOND EMIT CHANGES WITH ({options});
"""
SHAPES = (
    ("TUMBLE(ev, ts, INTERVAL '10' SECOND)", "max_groups_per_window = 2"),
    ("TUMBLE(ev, ts, INTERVAL '10' SECOND)", "max_groups_per_window = 3, side_output.max_rows_per_epoch = 1"),
    ("SESSION(ev, ts, INTERVAL '3' SECOND)", "side_output.max_rows_per_epoch = 2"),
    ("SESSION(ev, ts, INTERVAL '3' SECOND)", "side_output.duplicate = 'metrics_only'"),
)
BROKEN = ('{"id": 1', "[]", '{"id": "x", "k": "a"}', '{"v": 1e400}', '{"id": 1}{"id": 2}', '{"ts": "2026-13-01"}')
NOW = from_datetime(NOON) + 60 * SECOND
FAR_AHEAD = 3600

drawn_rows = rows(
    st.one_of(st.none(), st.just(FAR_AHEAD), st.integers(0, 45), st.integers(0, 45)),
    keys=("a", "b", "c", "d", None),
    values=(-1, 0, 1, 5, 5, 5),
    id=st.one_of(st.none(), st.integers(1, 12)),
)
lines = st.one_of(drawn_rows, drawn_rows, drawn_rows, st.sampled_from(BROKEN))
drawn_logs = commits(lines, rows=(1, 12), commits=(2, 3))
Line = Mapping[str, Any] | str


@dataclass(frozen=True)
class Account:
    """What became of an epoch's rows."""

    rows_in: int
    aggregated: int
    filtered: int
    aside: Mapping[str, int]


def written(line: Line) -> str:
    if isinstance(line, str):
        return line
    return json.dumps({**line, "ts": None if line["ts"] is None else at(line["ts"]).isoformat()})


def commit_of(file: Sequence[Line]) -> Commit:
    """The rows that can be read, as the reference takes them."""
    whole = [line for line in file if not isinstance(line, str)]
    micros = [None if line["ts"] is None else from_datetime(at(line["ts"])) for line in whole]
    return Commit("ev", [{**line, "ts": time} for line, time in zip(whole, micros, strict=True)])


def expected(result: EpochResult, files: Sequence[Sequence[Line]]) -> Account:
    broken = sum(isinstance(line, str) for file in files for line in file)
    counts = Counter(result.counts)
    aside = {kind: counts[kind] + (broken if kind == "error" else 0) for kind in SIDE_OUTPUT_KINDS}
    return Account(counts["rows_in"] + broken, counts["aggregated"], counts["filtered"], aside)


def accounts(view: View) -> list[Account]:
    """As the tables have it: rows shown and rows set aside; what is filtered or only counted is nowhere but there."""
    store, shown = view.store, 0
    entries = Counter((entry["_epoch"], entry["kind"]) for entry in view.aside())
    found: list[Account] = []
    for commit in reversed(store.log.commits()):
        counts = commit.counts
        total = sum(row["n"] for row in store.read(f.OUTPUT, commit).to_pylist())
        dropped = {kind: counts.get(f"side_output_dropped_{kind}", 0) for kind in SIDE_OUTPUT_KINDS}
        kept = {kind: entries[(commit.epoch, kind)] for kind in SIDE_OUTPUT_KINDS}
        unrouted = {k: 0 if view.plan.query.side_output.keeps(k) else counts.get(k, 0) for k in SIDE_OUTPUT_KINDS}
        assert counts.get("side_output_dropped", 0) == sum(dropped.values())
        aside = {kind: kept[kind] + dropped[kind] + unrouted[kind] for kind in SIDE_OUTPUT_KINDS}
        assert aside == {kind: counts.get(kind, 0) for kind in SIDE_OUTPUT_KINDS}
        assert counts["rows_in"] == total - shown + counts["filtered"] + sum(aside.values())
        found.append(Account(counts["rows_in"], total - shown, counts["filtered"], aside))
        shown = total
    return found


@on_spark(examples=5)
@given(shape=st.sampled_from(SHAPES), log=drawn_logs, files_per_epoch=st.integers(1, 3))
def test_in_every_epoch_the_rows_that_came_in_are_accounted_for(
    spark: Any, shape: tuple[str, str], log: list[list[Line]], files_per_epoch: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        declared = source(
            columns=COLUMNS, connector="files", path="in", format="json", unique_key="id", unique_within="20 seconds"
        )
        view = View(root, declared + SELECT.format(window=shape[0], options=shape[1]))
        for position, file in enumerate(log):
            write(root, f"{position}.json", "".join(written(line) + "\n" for line in file), mtime=position + 1)
        done = view.run(spark, now=lambda: NOW, max_files=files_per_epoch)
        reference, waiting = Reference(view.plan.query), list(log)
        wanted: list[Account] = []
        for commit in done:
            taken, waiting = waiting[: commit.counts["commits"]], waiting[commit.counts["commits"] :]
            wanted.append(expected(reference.epoch([commit_of(file) for file in taken], NOW), taken))
        assert waiting == []
        assert accounts(view) == wanted
        at_once = Reference(view.plan.query).epoch([commit_of(file) for file in log], NOW)
        assert expected(at_once, log).aside == {k: sum(a.aside[k] for a in wanted) for k in SIDE_OUTPUT_KINDS}
