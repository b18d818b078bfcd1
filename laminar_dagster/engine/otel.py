"""Sends metrics to an OpenTelemetry collector. Needs the extra `otel`: `pip install laminar-dagster[otel]`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from laminar_dagster.engine.metrics import COUNTER, Metric, Sample, by_metric
from laminar_dagster.errors import LaminarError

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
    from opentelemetry.sdk.metrics.export import MetricsData

SERVICE = "laminar"


def push(samples: Iterable[Sample], endpoint: str) -> None:
    """One export of all samples, by OTLP over HTTP; the usual OTEL_… variables set headers, timeout, certificates."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics.export import MetricExportResult
    except ImportError as missing:
        raise LaminarError(
            "LMR0711",
            "the packages of OpenTelemetry are not installed",
            detail=str(missing),
            hint="pip install laminar-dagster[otel]",
        ) from missing
    data = as_otel(samples)
    exporter = OTLPMetricExporter(endpoint=endpoint)
    sent = data is None or exporter.export(data) is MetricExportResult.SUCCESS
    exporter.shutdown()
    if not sent:
        raise LaminarError(
            "LMR0712",
            f"the metrics could not be sent to {endpoint}",
            hint="Is a collector listening there for OTLP over HTTP? The address ends with /v1/metrics.",
        )


def as_otel(samples: Iterable[Sample]) -> MetricsData | None:
    """The samples as OpenTelemetry's own objects: a sum for each counter, else a gauge. None without samples."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.resources import Resource

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], Resource.create({"service.name": SERVICE}), shutdown_on_exit=False)
    for metric, mine in by_metric(samples).items():
        _observe(provider.get_meter(SERVICE), metric, mine)
    data = reader.get_metrics_data()
    provider.shutdown()
    return data


def _observe(meter: Meter, metric: Metric, samples: list[Sample]) -> None:
    create = meter.create_observable_counter if metric.kind == COUNTER else meter.create_observable_gauge
    create(metric.name, [_callback(samples)], _unit(metric), metric.help)


def _callback(samples: list[Sample]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    from opentelemetry.metrics import Observation

    observations = [Observation(sample.value, dict(sample.labels)) for sample in samples]
    return lambda _: observations


def _unit(metric: Metric) -> str:
    """As UCUM writes it: seconds are `s`, things that are counted stand in braces."""
    if metric.unit is None:
        return "1"
    return "s" if metric.unit == "seconds" else f"{{{metric.unit}}}"
