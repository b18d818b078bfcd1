"""Metrics as OpenMetrics text, version 1.0: for Prometheus, by a scraper of files or an HTTP server of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from laminar_dagster.engine.metrics import Metric, Number, Sample, by_metric


def open_metrics(samples: Iterable[Sample]) -> str:
    lines = [line for metric, mine in by_metric(samples).items() for line in _family(metric, mine)]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _family(metric: Metric, samples: list[Sample]) -> Iterator[str]:
    yield f"# TYPE {metric.name} {metric.kind}"
    if metric.unit is not None:
        yield f"# UNIT {metric.name} {metric.unit}"
    yield f"# HELP {metric.name} {_escaped(metric.help)}"
    for sample in samples:
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
        yield f"{metric.series}{{{labels}}} {_number(sample.value)}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: Number) -> str:
    return repr(value)
