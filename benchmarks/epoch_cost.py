"""What an epoch costs, side by side with a micro-batch of Spark Structured Streaming. See benchmarks/README.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contenders import Tick
from benchmarks.reporting import main_of, milliseconds, parser_for, print_table, say
from benchmarks.side_by_side import SUMMARY, WARM_UP_BATCHES, Bench, Measured, add_options, report, summary
from benchmarks.workloads import Workload, quick, tumble

# Of `small` and `medium` every batch closes a window: the dearest case for an engine that keeps partials.
# `large_state` fills one window with nearly a million groups, then closes it.
WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("small", 1_000, 10, tumble(60), batches=30, target=2.5),
        Workload("medium", 100_000, 10_000, tumble(60), batches=16, target=1.6),
        Workload("large_state", 200_000, 1_000_000, tumble(3_600), batches=17, batches_per_window=15, target=4.0),
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    return main_of(compare, _options(argv))


def compare(options: argparse.Namespace) -> dict[str, Any]:
    results: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="laminar-epoch-cost-") as folder:
        bench = Bench(Path(folder), options)
        for workload in _chosen(options):
            results.append(bench.run(workload))
            _print_workload(results[-1])
    _print_summary(results)
    return {**report(results, options), **_growth(results)}


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_for(__doc__)
    parser.add_argument("--workload", choices=WORKLOADS, action="append", help="only this one (may be repeated)")
    add_options(parser)
    return parser.parse_args(argv)


def _chosen(options: argparse.Namespace) -> list[Workload]:
    chosen = [WORKLOADS[name] for name in options.workload or WORKLOADS]
    if options.quick:
        chosen = [quick(workload) for workload in chosen]
    return [workload.with_batches(options.batches) if options.batches else workload for workload in chosen]


def flatness(rounds: Sequence[Sequence[Tick]], workload: Workload) -> float:
    """Median of the last third over median of the first third, as long as the window fills; 1 is flat."""
    until = max(3, workload.batches_per_window - WARM_UP_BATCHES) if workload.batches_per_window > 1 else None
    filling = [ticks[:until] for ticks in rounds]
    third = max(1, len(filling[0]) // 3)
    last = median(tick.seconds for ticks in filling for tick in ticks[-third:])
    return last / median(tick.seconds for ticks in filling for tick in ticks[:third])


def _print_workload(measured: Measured) -> None:
    if measured.workload.batches_per_window == 1:
        return
    print_table(
        f"{measured.workload.name}: milliseconds as open groups grow",
        ("open groups", "ours", "Structured Streaming"),
        [(f"{opened:,}", milliseconds(ours), milliseconds(theirs)) for opened, ours, theirs in measured.growth()],
    )


def _print_summary(results: Sequence[Measured]) -> None:
    print_table(
        "Milliseconds per micro-batch, median after warm-up",
        (*SUMMARY, "flatness"),
        [(*summary(measured), _both_flatnesses(measured)) for measured in results],
    )
    say("Rows of both sides are the same. Flatness: last third over first third, ours / Structured Streaming.")


def _both_flatnesses(measured: Measured) -> str:
    workload = measured.workload
    return f"{flatness(measured.ours, workload):.2f} / {flatness(measured.theirs, workload):.2f}"


def _growth(results: Sequence[Measured]) -> dict[str, Any]:
    large = next((m for m in results if m.workload.batches_per_window > 1), None)
    return {
        "flatness": None if large is None else round(flatness(large.ours, large.workload), 3),
        "growth": [] if large is None else [[n, round(o, 4), round(t, 4)] for n, o, t in large.growth()],
    }


if __name__ == "__main__":
    sys.exit(main())
