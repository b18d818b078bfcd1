"""`laminar metrics` in all its forms, over epochs written by hand."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from laminar_dagster.cli.run import report
from laminar_dagster.engine.metrics import COUNTER, METRICS, Sample, samples_of
from laminar_dagster.engine.open_metrics import open_metrics
from laminar_dagster.engine.otel import as_otel
from laminar_dagster.engine.project import Project
from laminar_dagster.errors import LaminarError
from laminar_dagster.integration.summary import epoch_line
from state_store import StoreReader
from tests.cli.told_epochs import ToldEpoch, a_project, at, laminar, tell

SQL = """
CREATE SOURCE sales (region STRING, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5' SECOND)
WITH (connector = 'files', path = 'landing', format = 'json');
CREATE SOURCE returns (region STRING, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', path = 'returned', format = 'json', idle_timeout = '10 minutes');
CREATE MATERIALIZED VIEW both AS
SELECT window_start, COUNT(*) AS n
FROM TUMBLE((SELECT region, at FROM sales UNION ALL SELECT region, at FROM returns), at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW untouched AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(sales, at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""
EPOCHS = [
    ToldEpoch("12:05:00", "12:00:30", {"sales": ("12:04:00", "12:05:00"), "returns": ("12:00:30", "12:05:00")},
              {"rows_in": 7, "aggregated": 5, "late": 2, "windows_opened": 3, "windows_open": 3},
              {"read": 0.5, "fold": 1.25}),
    ToldEpoch("12:14:59", "12:00:30", {"sales": ("12:14:00", "12:14:59"), "returns": ("12:00:30", "12:05:00")},
              {"rows_in": 1, "aggregated": 1, "windows_opened": 1, "windows_open": 4}, {"read": 0.25, "fold": 0.25}),
    ToldEpoch("12:15:00", "12:14:10", {"sales": ("12:14:10", "12:15:00"), "returns": ("12:00:30", "12:05:00")},
              {"rows_in": 1, "error": 1, "windows_closed": 4, "windows_open": 0}, {"read": 0.25, "close": 2.0}),
]  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = a_project(tmp_path_factory.mktemp("project"), SQL)
    tell(root / "data" / "both", EPOCHS)
    return root


def samples(project: Path) -> list[Sample]:
    return samples_of(Project.find(project).plan("both"), StoreReader(project / "data" / "both"))


def values(project: Path) -> dict[tuple[str, ...], float]:
    """Values by the metric's name, without its prefix, and its label besides the view."""
    lines = map(json.loads, laminar(project, "metrics", "both", "--format", "json").stdout.splitlines())
    return {
        (line["metric"].removeprefix("laminar_"), *(line[of] for of in ("shard", "step") if of in line)): line["value"]
        for line in lines
    }


def test_counters_are_sums_over_all_epochs_and_gauges_are_of_the_last(project: Path) -> None:
    found = values(project)
    assert found["epochs_total",] == 3
    assert (found["input_rows_total",], found["late_rows_total",], found["error_rows_total",]) == (9, 2, 1)
    assert (found["opened_windows_total",], found["closed_windows_total",], found["open_windows",]) == (4, 4, 0)
    assert found["evicted_rows_total",] == 0
    assert (found["epoch_step_seconds_total", "read"], found["epoch_step_seconds_total", "fold"]) == (1.0, 1.5)
    assert ("last_epoch_step_seconds", "fold") not in found
    assert found["last_epoch_step_seconds", "close"] == 2.0


def test_rows_evicted_repeated_and_dropped_are_told_by_metrics_by_the_history_and_by_the_state(tmp_path: Path) -> None:
    root = a_project(tmp_path, SQL)
    counts = {"rows_in": 9, "late": 2, "evicted": 3, "duplicate": 4, "side_output_dropped": 5}
    by_kind = {"side_output_dropped_late": 1, "side_output_dropped_duplicate": 4}
    tell(root / "data" / "both", [ToldEpoch("12:05:00", "12:00:30", {}, {**counts, **by_kind})])
    found = values(root)
    names = ("late", "evicted", "duplicate", "side_output_dropped")
    assert [found[f"{name}_rows_total",] for name in names] == [2, 3, 4, 5]
    history = laminar(root, "state", "both", "--history").stdout
    assert "epoch 1 also: 3 evicted, 4 duplicates, 5 beyond side_output.max_rows_per_epoch" in history
    assert "left out, in this epoch: 1 late, 4 duplicate" in laminar(root, "state", "both").stdout


def test_rows_between_windows_are_told_by_the_run_that_took_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = a_project(tmp_path, SQL)
    counts = {"commits": 1, "rows_in": 5, "between_windows": 3}
    tell(root / "data" / "both", [ToldEpoch("12:05:00", "12:00:30", {}, counts)])
    commits = list(StoreReader(root / "data" / "both").log.commits())
    report("both", commits, {}, as_json=False)
    line, warning = capsys.readouterr()
    assert "0 rows out, 3 between windows; watermark" in line
    assert warning.startswith("warning: both: 3 row(s) lie between two windows of HOP, whose slide is longer")
    report("both", commits, {}, as_json=True)
    assert json.loads(capsys.readouterr().out)["between_windows"] == 3
    assert "epoch 1 also: 3 between windows" in laminar(root, "state", "both", "--history").stdout
    assert "3 between windows" in epoch_line(commits[0])


def test_watermark_and_lag_are_told_of_the_view_and_of_each_shard(project: Path) -> None:
    found = values(project)
    assert found["watermark_timestamp_seconds",] == at("12:14:10") / 1_000_000
    assert found["watermark_lag_seconds",] == 50
    assert found["shard_watermark_lag_seconds", "returns"] == 14 * 60 + 30
    assert found["shard_active_timestamp_seconds", "returns"] == at("12:05:00") / 1_000_000


@pytest.mark.parametrize(("epochs", "idle", "holder"), [(2, 0, "returns"), (3, 1, "sales")])
def test_the_shard_that_holds_the_watermark_is_the_last_one_that_is_not_idle(
    tmp_path: Path, epochs: int, idle: int, holder: str
) -> None:
    root = a_project(tmp_path, SQL)
    tell(root / "data" / "both", EPOCHS[:epochs])
    found = values(root)
    assert found["shard_idle", "returns"] == idle
    assert [name for name in ("sales", "returns") if found["shard_holds_watermark", name]] == [holder]
    shards = json.loads(laminar(root, "state", "both", "--json").stdout)["shards"]
    assert [shard["shard"] for shard in shards if shard["holds_back"]] == [holder]
    text = laminar(root, "state", "both").stdout
    assert re.search(rf"{holder} .*holds back", text)
    assert re.search(r"returns .*idle" if idle else r"sales .*13 min 30 s ahead", text)


def test_what_is_not_known_is_left_out(tmp_path: Path) -> None:
    root = a_project(tmp_path, SQL)
    tell(root / "data" / "both", [ToldEpoch("12:00:00", None, {"sales": (None, "12:00:00")}, {"rows_in": 0})])
    found = values(root)
    unknown = {
        ("watermark_timestamp_seconds",),
        ("watermark_lag_seconds",),
        ("open_windows",),
        ("opened_windows_total",),
    }
    assert unknown & set(found) == set()
    assert found["shard_holds_watermark", "sales"] == 1


def test_open_metrics_text_is_as_the_standard_has_it(project: Path) -> None:
    text = laminar(project, "metrics", "--format", "openmetrics").stdout
    assert text.endswith("\n# EOF\n")
    families = re.split(r"^# TYPE ", text.removesuffix("# EOF\n"), flags=re.MULTILINE)[1:]
    names = [family.split()[0] for family in families]
    assert len(names) == len(set(names))
    for family in families:
        (name, kind), *lines = (line.split(" ", 1) for line in family.splitlines())
        told = {line[1].split(" ")[0] for line in lines if line[0] == "#"}
        unit = re.search(rf"^# UNIT {name} (\w+)$", family, re.MULTILINE)
        assert told <= {"UNIT", "HELP"}
        assert "HELP" in told
        assert unit is None or name.endswith(f"_{unit[1]}")
        series = f"{name}_total" if kind == "counter" else name
        sample = re.compile(re.escape(series) + r'\{view="both"(,(shard|step)="\w+")?\} -?[0-9.e+]+')
        bare = [line for line in family.splitlines()[1:] if not line.startswith("#")]
        assert bare
        assert all(sample.fullmatch(line) for line in bare), bare


def test_open_metrics_text_escapes_what_labels_hold(project: Path) -> None:
    odd = replace(samples(project)[0], labels={"view": 'a"b\\c\nd'})
    assert 'laminar_epochs_total{view="a\\"b\\\\c\\nd"} 3\n' in open_metrics([odd])


def test_a_metrics_name_ends_with_its_unit_and_is_there_once() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert [m.name for m in METRICS if m.unit is not None and not m.name.endswith(f"_{m.unit}")] == []
    assert [m.name for m in METRICS if m.name.endswith("_total")] == []


def test_the_table_is_readable_by_people_and_says_when_there_is_nothing(project: Path) -> None:
    text = laminar(project, "metrics").stdout
    assert re.search(r"both +shard_watermark_timestamp_seconds +returns +2026-01-01T12:00:30Z", text)
    assert laminar(project, "metrics", "untouched").stdout == "no epoch yet\n"
    with pytest.raises(LaminarError, match="LMR0706"):
        laminar(project, "metrics", "--format", "xml")


# --- OpenTelemetry ---------------------------------------------------------------------------------------------


def test_open_telemetry_gets_the_same_numbers_counters_as_sums(project: Path) -> None:
    mine = samples(project)
    data = as_otel(mine)
    assert data is not None
    found = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    for metric in {sample.metric for sample in mine}:
        points = found[metric.name].data.data_points
        expected = {(tuple(s.labels.items()), s.value) for s in mine if s.metric is metric}
        assert {(tuple((point.attributes or {}).items()), point.value) for point in points} == expected
        assert getattr(found[metric.name].data, "is_monotonic", False) == (metric.kind == COUNTER)
    assert (found["laminar_epoch_step_seconds"].unit, found["laminar_late_rows"].unit) == ("s", "{rows}")


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """An HTTP server that keeps what is posted to it."""
    posted: list[bytes] = []

    class Keeping(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200 if self.path == "/v1/metrics" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Keeping)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", posted
    server.shutdown()
    thread.join()
    server.server_close()


def test_metrics_are_sent_to_a_collector(project: Path, collector: tuple[str, list[bytes]]) -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    address, posted = collector
    text = laminar(project, "metrics", "both", "--otlp", f"{address}/v1/metrics").stdout
    assert text == f"{len(samples(project))} value(s) sent to {address}/v1/metrics\n"
    request = ExportMetricsServiceRequest.FromString(posted[0])
    sent = {metric.name: metric for metric in request.resource_metrics[0].scope_metrics[0].metrics}
    assert sent["laminar_late_rows"].sum.data_points[0].as_int == 2


def test_a_collector_that_refuses_is_an_error(project: Path, collector: tuple[str, list[bytes]]) -> None:
    with pytest.raises(LaminarError, match="LMR0712"):
        laminar(project, "metrics", "both", "--otlp", f"{collector[0]}/elsewhere")
