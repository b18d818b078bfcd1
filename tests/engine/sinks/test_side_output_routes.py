"""Routes of the side output are sinks of its entries: numbered, delivered after any kill, never to the view itself."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from laminar_dagster.cli.run import delivered_data
from laminar_dagster.engine.crash import CrashError, raising_after
from laminar_dagster.engine.sinks.delivering import Deliveries
from laminar_dagster.engine.sinks.side_output import entries_since
from laminar_dagster.engine.sinks.targets import Surroundings
from laminar_dagster.errors import LaminarError
from state_store import CommitRow, MaintenancePolicy, StoreReader, StoreWriter
from state_store import format as f
from state_store.merging import merge_if_due
from state_store.parquet import write_file
from state_store.positions import SinkPositions
from tests.changes.changelogs import NOON
from tests.engine.sinks.histories import deliver, query, texts

VIEW = """
CREATE MATERIALIZED VIEW view AS SELECT k, SUM(x) AS n FROM TUMBLE(s, at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, k EMIT FINAL
"""
SOURCE = """
CREATE SOURCE s (k STRING, x BIGINT, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', format = 'json', path = 'in');
"""
REINJECTED = f"{SOURCE}{VIEW} WITH (side_output.late = 'reinject', side_output.reinject_to = 'again');"
Entry = tuple[str, str | None]


def entries(store: Path, *found: Entry) -> None:
    """An epoch that set rows aside: of these kinds, with these originals."""
    with StoreWriter(store) as writer:
        tail = writer.tail()
        epoch = tail.commit.epoch + 1 if tail.commit else 1
        if found:
            moment = NOON + timedelta(seconds=epoch)
            rows = [{"kind": k, "original_event": o, "processing_time": moment, "_epoch": epoch} for k, o in found]
            table = pa.Table.from_pylist(rows, f.SIDE_OUTPUT_SCHEMA)
            name = f"e{epoch:010d}-{writer.run_id}/part-0.parquet"
            file = write_file(writer.table(f.SIDE_OUTPUT).root, name, table)
            writer.land(f.SIDE_OUTPUT, epoch, schema=f.SIDE_OUTPUT_SCHEMA, add=[file])
        versions = writer.versions(f.TABLES)
        writer.finish(CommitRow(epoch, "tick", writer.run_id, 0, "f", None, {}, {}, versions, {}))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    store = root / "data" / "view"
    entries(store, ("late", '{"k":"b"}'), ("error", "oops"), ("late", '{"k":"a"}'))
    entries(store)
    entries(store, ("error", "oops"))
    entries(store, ("late", '{\n "k":\r\n"c"}'), ("late", None))
    return root


def test_the_events_of_an_epoch_are_lines_of_a_file_named_by_it(project: Path) -> None:
    run = deliver(project, REINJECTED)
    assert texts(project / "again") == {
        "e0000000001-view-late.json": '{"k":"a"}\n{"k":"b"}\n',
        "e0000000004-view-late.json": '{  "k": "c"}\n',
    }
    assert {name: (done.epochs, done.rows) for name, done in run.delivered.items()} == {"side_output.late": (2, 4)}
    assert deliver(project, REINJECTED).delivered == {}


def test_a_run_that_is_killed_after_any_write_reinjects_the_same(project: Path, tmp_path: Path) -> None:
    writes: list[str] = []
    calm = Path(shutil.copytree(project, tmp_path / "calm" / "shop"))
    deliver(calm, REINJECTED, writes.append)
    assert len(writes) >= 5
    for kill in range(1, len(writes) + 1):
        root = Path(shutil.copytree(project, tmp_path / str(kill) / "shop"))
        with pytest.raises(CrashError):
            deliver(root, REINJECTED, raising_after(kill))
        deliver(root, REINJECTED)
        assert texts(root / "again") == texts(calm / "again"), writes[kill - 1]
        position = SinkPositions(root / "data" / "view").read("side_output.late")
        assert position is not None
        assert position.epoch == 4


ROUTED = f"{SOURCE}{VIEW} WITH (side_output.late = 'kafka:aside', side_output.brokers = '{{}}');"


@pytest.fixture
def brokers() -> Iterator[str]:
    """Something that takes connections, and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def without_jars() -> NoReturn:
    raise LaminarError("LMR0513", "this Spark was started without the jars for Kafka", hint="Start it anew.")


def test_a_spark_without_kafkas_jars_is_an_error_and_drops_nothing(project: Path, brokers: str) -> None:
    store = project / "data" / "view"
    run = Deliveries(query(ROUTED.format(brokers)), store, Surroundings(project), without_jars)
    run.catch_up()
    with pytest.raises(LaminarError, match="LMR0513") as caught:
        run.require_success()
    assert caught.value.hint == "Start it anew."
    position = SinkPositions(store).read("side_output.late")
    assert position is not None
    assert (position.epoch, position.dropped) == (0, 0)


@pytest.mark.parametrize("brokers", ["localhost", "localhost:kafka"])
def test_brokers_without_a_port_are_an_error_and_drop_nothing(project: Path, brokers: str) -> None:
    with pytest.raises(LaminarError, match="LMR0648"):
        deliver(project, ROUTED.format(brokers))


def test_a_folder_that_is_a_file_is_an_error_and_drops_nothing(project: Path) -> None:
    (project / "again").write_text("a file where the directory should be")
    sql = REINJECTED.replace("side_output.reinject_to", "side_output.on_saturation = 'drop', side_output.reinject_to")
    with pytest.raises(LaminarError, match="LMR0641"):
        deliver(project, sql)
    (project / "again").unlink()
    assert deliver(project, sql).delivered["side_output.late"].rows == 4


def test_a_route_that_took_nothing_was_never_delivered_to(project: Path) -> None:
    run = deliver(project, ROUTED.format("127.0.0.1:1"))
    position = SinkPositions(project / "data" / "view").read("side_output.late")
    assert position is not None
    assert (position.epoch, position.delivered, position.at, position.dropped) == (4, 0, None, 4)
    assert delivered_data(run.delivered)["route_dropped"] == 4
    assert delivered_data(deliver(project, ROUTED.format("127.0.0.1:1")).delivered)["route_dropped"] == 0


def numbered(store: Path) -> list[tuple[int, int, Any]]:
    found = [*entries_since(StoreReader(store), "late", 0), *entries_since(StoreReader(store), "error", 0)]
    rows = [row for changes in found for row in changes.rows.to_pylist()]
    return [(row["_epoch"], row["_seq"], row["original_event"]) for row in rows]


def test_no_two_entries_of_an_epoch_have_one_number_and_merging_files_changes_none(project: Path) -> None:
    store = project / "data" / "view"
    before = numbered(store)
    assert len({(epoch, number) for epoch, number, _ in before}) == len(before) == 6
    with StoreWriter(store) as writer:
        writer.tail()
        assert merge_if_due(writer, f.SIDE_OUTPUT, MaintenancePolicy(merge_files=2)) == 2
        versions = writer.versions(f.TABLES)
        writer.finish(CommitRow(5, "tick", writer.run_id, 0, "f", None, {}, {}, versions, {}))
    assert numbered(store) == before


def test_only_what_comes_after_a_position_is_read(project: Path) -> None:
    found = list(entries_since(StoreReader(project / "data" / "view"), "late", 1))
    assert [(changes.epoch, changes.rows.num_rows) for changes in found] == [(4, 2)]


def test_a_way_back_into_the_view_that_the_plan_cannot_see_is_refused_and_nothing_is_written(project: Path) -> None:
    (project / "in").mkdir()
    (project / "again").symlink_to("in")
    with pytest.raises(LaminarError, match="LMR0310") as refused:
        deliver(project, REINJECTED)
    assert refused.value.next_command == "laminar run view"
    assert list((project / "in").iterdir()) == []
