"""Writes the reference pages that follow from the code: `python docs/generate.py`. A test compares them with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from laminar_dagster.cli.app import app
from laminar_dagster.engine.metrics import METRICS, Metric
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import AGGREGATES, SYNONYMS, Aggregate, Distinct, Kernel
from laminar_dagster.semantics.aggregates.moments import MOMENTS
from laminar_dagster.semantics.types import DataType

REFERENCE = Path(__file__).parent / "reference"
NOTE = "<!-- Written by docs/generate.py; `python docs/generate.py` writes it anew. -->"

NUMBERS = ((t.INT,), (t.BIGINT,), (t.decimal(10, 2),), (t.DOUBLE,))
COUNTED: dict[str, tuple[tuple[DataType, ...], ...]] = {"sum": NUMBERS, "avg": NUMBERS, "count": ((),)}
SHOWN: dict[str, DataType] = {
    **dict.fromkeys(("bool_and", "bool_or"), t.BOOLEAN),
    **dict.fromkeys(("string_agg", "listagg", "first", "last", "mode"), t.STRING),
}
MOMENT_NAMES = {aggregate.name for aggregate in MOMENTS}
CONSTANTS: dict[str, tuple[Any, ...]] = {
    "approx_percentile": (0.9,), "percentile_approx": (0.9,), "string_agg": (", ",), "listagg": (", ",),
}  # fmt: skip
OVER = {"": "Over", "DISTINCT ": "With DISTINCT, over"}
RETRACTION = {
    "weight": "yes, by weight",
    "value": "yes, with a count per value",
    "none": "no",
}


# --- aggregates ------------------------------------------------------------------------------------------------


ABOUT_AGGREGATES = """\
An aggregate is three Spark expressions: how rows become a partial, how partials merge, and how the merged partial
becomes a result. An epoch writes partials; a window that closes merges and finishes them. So a result does not depend
on how the rows were cut into epochs. The table is
[`semantics/aggregates/`](../../laminar_dagster/semantics/aggregates/__init__.py).

Unless it says otherwise, an aggregate skips NULLs and is NULL over no value. `FILTER (WHERE …)` works on each. A result
that does not fit its type is not emitted: its group gets one entry in the [side output](side-output.md).

Where an order would show (FIRST, LAST, ARRAY_AGG), it is that of event times and then that of arrival: the commit, and
the row's place in it. Over a source that takes rows back it is that of event times and then of values. Ties of MIN_BY
and MAX_BY go by value. `ARRAY_AGG(x ORDER BY y DESC)` and `LISTAGG(x, ', ') WITHIN GROUP (ORDER BY y)` order by other
columns first.

An aggregate that keeps values says that its **state grows**, and so does `laminar explain`. Sketches do not grow: their
results are near enough, and exact up to some hundred values.

Over **input with retractions** (a change data feed, the changelog of another view) every row has a weight, which is
negative for a row that is taken back, and a result is that of the rows that remain. Some aggregates need no more than
the weights. The others keep each value with the sum of its weights, so that over such input their state grows. A sum
or mean of floats is that of what remains up to rounding; all other results are the same. FIRST, LAST, ARRAY_AGG and
STRING_AGG tell rows apart by their event time too: a row must be taken back with the event time it came with, and a
source without one does not do. An aggregate that cannot take a row back is refused ([LMR0209](errors.md#lmr0209))."""
ABOUT_THE_COLUMNS = """\
Below, `x` and `y` are the arguments, NULL where FILTER leaves the row out; `t` is a row's event time in microseconds,
and `keep` whether FILTER lets it in. `w` is a row's weight. Of rows without weights `t` is a STRUCT: `_t`, the event
time, and `_arrival`, the row's place in the order of arrival (`file`: 2^24 times the epoch, plus the file's number in
it; `block`: where in the file a task began to read; `row`: greater for later rows of a block)."""


KERNEL = ("argument", "result", "partial columns", "finish", "does not fit when")


def aggregates_page() -> str:
    header = ("aggregate", "DISTINCT", "takes a retraction", "state grows", "state grows over retracting input")
    synonyms = ", ".join(f"`{synonym.upper()}` for `{name.upper()}`" for synonym, name in SYNONYMS.items())
    parts = [
        "# Aggregates",
        NOTE,
        ABOUT_AGGREGATES,
        _rows(header, [_overview(aggregate) for aggregate in AGGREGATES.values()]),
        f"Other names: {synonyms}.",
        ABOUT_THE_COLUMNS,
        *(_aggregate_section(aggregate) for aggregate in AGGREGATES.values()),
    ]
    return "\n\n".join(parts) + "\n"


def _overview(aggregate: Aggregate) -> tuple[str, ...]:
    kernel = _kernels(aggregate)[0]
    called = f"[`{_call(aggregate)}`](#{aggregate.name})"
    over_retractions = "–" if kernel.weighted is None else kernel.weighted.grows or "no"
    return called, aggregate.distinct.value, RETRACTION[kernel.retraction], kernel.grows or "no", over_retractions


def _call(aggregate: Aggregate) -> str:
    """How it is written; what may be left out is in brackets."""
    arguments = ", ".join(["x", "y"][: aggregate.arguments])
    for constant in aggregate.constants:
        arguments += f", {constant.name}" if constant.required else f" [, {constant.name}]"
    order = " [ORDER BY y, …]" if aggregate.ordered else ""
    return f"{aggregate.name.upper()}({arguments}{order})"


def _kernels(aggregate: Aggregate, *, distinct: bool = False) -> list[Kernel]:
    """For the types that the page shows."""
    kind = SHOWN.get(aggregate.name, t.DOUBLE if aggregate.name in MOMENT_NAMES else t.BIGINT)
    types = COUNTED.get(aggregate.name, ((kind,) * aggregate.arguments,))
    if distinct and aggregate.name == "count":
        types = ((t.BIGINT,),)
    constants = CONSTANTS.get(aggregate.name, ())
    return [aggregate.kernel(*some, constants=constants, distinct=distinct) for some in types]


def _aggregate_section(aggregate: Aggregate) -> str:
    kernels = [("", kernel) for kernel in _kernels(aggregate)]
    if aggregate.distinct is Distinct.OWN:
        kernels += [("DISTINCT ", kernel) for kernel in _kernels(aggregate, distinct=True)]
    return "\n\n".join(
        [
            f"## {aggregate.name.upper()}",
            f"`{_call(aggregate)}`: {aggregate.summary}.",
            _rows(KERNEL, [_kernel_row(word, kernel) for word, kernel in kernels]),
            *_with_retractions(kernels),
        ]
    )


def _with_retractions(kernels: list[tuple[str, Kernel]]) -> Iterator[str]:
    """What becomes of the kernels over weighted rows; of those that keep values only that, as their SQL is long."""
    weighted = [(word, kernel.weighted) for word, kernel in kernels if kernel.weighted is not None]
    if not weighted:
        yield "Refused over input with retractions."
    by_weight = [_kernel_row(word, kernel) for word, kernel in weighted if kernel.grows is None]
    if by_weight:
        yield "Over input with retractions:"
        yield _rows(KERNEL, by_weight)
    for word, grows in dict.fromkeys((word, kernel.grows) for word, kernel in weighted if kernel.grows is not None):
        yield f"{OVER[word]} input with retractions it keeps {grows}, with the sum of its weights."


def _kernel_row(word: str, kernel: Kernel) -> tuple[str, ...]:
    names = {partial.name: partial.name for partial in kernel.partials}
    row = {name: name for name in kernel.mentions}
    partials = "<br>".join(
        f"`{p.name}` = `{p.make.format(**row)}`, merged by `{p.merge.format(p=p.name, **names)}`"
        for p in kernel.partials
    )
    overflow = "–" if kernel.overflow is None else f"`{kernel.overflow.format(**names)}`"
    argument = word + (", ".join(map(str, kernel.arguments)) or "any, or `*`")
    return argument, str(kernel.result), partials, f"`{kernel.finish.format(**names)}`", overflow


def _rows(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


# --- command line ----------------------------------------------------------------------------------------------


ABOUT_THE_COMMAND_LINE = """\
`laminar` is in the environment that the package is installed in; after `make setup` that is `.venv/bin/laminar`.
Errors go to standard error, in the form that [errors.md](errors.md) explains, with exit code 1; a command line that
cannot be read ends with exit code 2.

Commands that only look (`show`, `changes`, `state`, `metrics`, `explain`) read Delta directly: they need no Java, take
no lock and may run while a view is being run."""


def cli_page() -> str:
    # Typer's own classes, which may or may not be click's: only what both have is used.
    command: Any = typer.main.get_command(app)
    parts = ["# Command line", NOTE, ABOUT_THE_COMMAND_LINE, *_command_sections("laminar", command)]
    return "\n\n".join(parts) + "\n"


def _command_sections(name: str, command: Any) -> Iterator[str]:
    children: dict[str, Any] = getattr(command, "commands", {})
    yield _command_section(name, command)
    for child_name, child in children.items():
        yield from _command_sections(f"{name} {child_name}", child)


def _command_section(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join([name, *(["[OPTIONS]"] if options else []), *map(_argument_name, arguments)])
    if getattr(command, "commands", None):
        usage += " COMMAND …"
    parts = [f"## `{name}`", " ".join((command.help or "").split()), f"```\n{usage}\n```"]
    if arguments:
        parts.append(_rows(("argument", "meaning"), [(f"`{_argument_name(a)}`", a.help or "") for a in arguments]))
    if options:
        parts.append(_rows(("option", "default", "meaning"), [_option_row(option) for option in options]))
    return "\n\n".join(parts)


def _argument_name(argument: Any) -> str:
    name = str(argument.name).upper() + ("…" if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _option_row(option: Any) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    choices = type(option.default) if isinstance(option.default, Enum) else ()
    shown = " One of: " + ", ".join(f"`{_text(c)}`" for c in choices) + "." if choices else ""
    return names, _default(option), f"{option.help or ''}{shown}"


def _default(option: Any) -> str:
    if option.default is None or option.is_flag:
        return ""
    return f"`{_text(option.default)}`"


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))


# --- metrics ---------------------------------------------------------------------------------------------------


ABOUT_METRICS = """\
What `laminar metrics` prints of each view, as a table, as JSON, or as OpenMetrics text for Prometheus; with `--otlp` it
sends the same to an OpenTelemetry collector. The values are those of the last committed epoch, out of the
[epoch log](state-format.md#commit): counters are sums over all epochs since the view's data directory was made, and
nothing is lost with a process that ends. Reading them takes no lock and no Java.

Every value has the label `view`. A counter's series ends with `_total`. A value that is not known yet, or that this
kind of window does not have, is left out. The table is
[`engine/metrics.py`](../../laminar_dagster/engine/metrics.py); [how to watch views](../how-to/watch-views.md)."""
ABOUT_LAG = """\
A lag is as of the last epoch, whose processing time it is measured by. While no epoch runs it stays: for the lag at
this moment, take `time() - laminar_watermark_timestamp_seconds`."""


def metrics_page() -> str:
    header = ("metric", "kind", "unit", "labels", "meaning", "from the commit row's")
    table = _rows(header, [_metric_row(metric) for metric in METRICS])
    return "\n\n".join(["# Metrics", NOTE, ABOUT_METRICS, table, ABOUT_LAG]) + "\n"


def _metric_row(metric: Metric) -> tuple[str, ...]:
    labels = ", ".join(f"`{name}`" for name in metric.labels)
    return f"`{metric.series}`", metric.kind, metric.unit or "–", labels, metric.help, metric.origin


# --- all of them -----------------------------------------------------------------------------------------------

PAGES: dict[str, Callable[[], str]] = {
    "aggregates.md": aggregates_page,
    "cli.md": cli_page,
    "metrics.md": metrics_page,
}


def main() -> None:
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
        sys.stderr.write(f"wrote {REFERENCE / name}\n")


if __name__ == "__main__":
    main()
