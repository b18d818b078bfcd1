"""What hopping windows and sessions cost, also against Spark Structured Streaming. See benchmarks/README.md."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.hop_cost import Close, Kept, close_some, keep_open, same_state
from benchmarks.reporting import main_of, milliseconds, parser_for, print_table, say
from benchmarks.side_by_side import (
    WARM_UP_BATCHES,
    Bench,
    add_options,
    by_steps,
    figures,
    seconds_of,
    step_medians,
)
from benchmarks.workloads import Workload, hop, quick, session, tumble, write_source

PARTS = ("fold", "close", "streaming")
FOLD = Workload("fold", 100_000, 1_000, hop(1, 60), batches=16, span=10)
FOLD_TARGET = 1.3
CLOSE = Workload("close", 50_000, 1_000, hop(1, 60), batches=12, span=30)
CLOSE_KEYS = (100, 1_000)
CLOSING = (1, 10, 60)
# Sessions: a key has a row every 6 seconds on the average. With a gap of 10 s a session has about 5 rows, and each
# batch closes two sessions per key; with 30 s it has about 150, and next to none closes.
STREAMING = {
    workload.name: workload
    for workload in (
        Workload("hop_1s", 100_000, 1_000, hop(1, 60), batches=12, span=10, target=3.0),
        Workload("hop_10s", 100_000, 1_000, hop(10, 60), batches=12, span=10, target=3.0),
        Workload("session_short", 100_000, 10_000, session(10), batches=12, span=60, target=2.0),
        Workload("session_long", 100_000, 10_000, session(30), batches=12, span=60, target=2.0),
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    return main_of(compare, _options(argv))


def compare(options: argparse.Namespace) -> dict[str, Any]:
    parts = {"fold": fold, "close": close, "streaming": streaming}
    with tempfile.TemporaryDirectory(prefix="laminar-windows-") as folder:
        bench = Bench(Path(folder), options)
        return {part: parts[part](bench, options) for part in options.part or PARTS}


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_for(__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this one (may be repeated)")
    parser.add_argument("--workload", choices=STREAMING, action="append", help="of part streaming, only this one")
    add_options(parser)
    return parser.parse_args(argv)


def fold(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """An epoch that closes nothing: HOP(1 s, 60 s) against TUMBLE(1 s)."""
    workload = quick(FOLD) if options.quick else FOLD
    source = bench.root / "fold" / "source"
    write_source(workload, source, "files")
    sides = {"hop": workload.window, "tumble": tumble(workload.window.slide)}
    runs: dict[str, list[Kept]] = {side: [] for side in sides}
    for number in range(bench.rounds + bench.tune):
        for side in sides if number % 2 == 0 else reversed(sides):
            data = bench.root / "fold" / f"{side}-{number}"
            runs[side].append(keep_open(bench.spark, workload, sides[side], source, data))
        rows = same_state(runs["hop"][-1], runs["tumble"][-1])
    ticks = {side: [kept.ticks[WARM_UP_BATCHES:] for kept in runs[side][bench.tune :]] for side in sides}
    middle = {side: median(seconds_of(ticks[side])) for side in sides}
    ratio = middle["hop"] / middle["tumble"]
    print_table(
        f"An epoch that closes nothing: {workload.rows:,} rows, {workload.keys:,} keys, {workload.span_seconds:.0f} s",
        ("", "ms", *step_medians(ticks["hop"]), "state rows of an epoch"),
        [
            (
                side,
                milliseconds(middle[side]),
                *(milliseconds(seconds) for seconds in step_medians(ticks[side]).values()),
                f"{rows // workload.batches:,}",
            )
            for side in sides
        ],
    )
    say(f"ratio {ratio:.2f} (target: at most {FOLD_TARGET}); the state rows are the same")
    shutil.rmtree(bench.root / "fold")
    return {"ratio": round(ratio, 3), "state_rows": rows, **{side: figures(ticks[side]) for side in sides}}


def close(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """Epochs that close 1, 10 and 60 windows of HOP(1 s, 60 s) and have no rows of their own."""
    closes: list[Close] = []
    for keys in CLOSE_KEYS:
        workload = replace(CLOSE, keys=keys)
        if options.quick:
            workload = replace(CLOSE, rows=1_000, keys=keys // 20, batches=5)
        source = bench.root / "close" / "source"
        write_source(workload, source, "files")
        for number in range(bench.rounds):
            closes += close_some(bench.spark, workload, source, bench.root / "close" / f"{number}", CLOSING)
        shutil.rmtree(bench.root / "close")
    return _print_closes(closes)


def _print_closes(closes: Sequence[Close]) -> dict[str, Any]:
    """What is beyond the smallest case is put down to rows."""
    by_size: dict[tuple[int, int], list[Close]] = defaultdict(list)
    for one in closes:
        by_size[one.keys, one.windows].append(one)
    middle = {size: median(one.seconds for one in found) for size, found in by_size.items()}
    rows = {size: round(median(one.rows_out for one in found)) for size, found in by_size.items()}
    smallest = min(rows, key=lambda size: rows[size])
    beyond = {
        size: (middle[size] - middle[smallest]) / (rows[size] - rows[smallest]) * 1e6
        for size in rows
        if rows[size] > rows[smallest]
    }
    print_table(
        "Epochs that close windows of HOP(1 s, 60 s)",
        ("keys", "windows", "rows out", "ms", "ms per 1,000 rows beyond the first line"),
        [
            (f"{keys:,}", str(windows), f"{rows[size]:,}", milliseconds(middle[size]), _shown(beyond.get(size)))
            for size in sorted(rows)
            for keys, windows in [size]
        ],
    )
    return {
        f"{keys} keys, {windows} windows": {
            "rows_out": rows[keys, windows],
            "median_ms": round(middle[keys, windows] * 1000, 1),
            "times_ms": [round(one.seconds * 1000, 1) for one in by_size[keys, windows]],
        }
        for keys, windows in sorted(rows)
    }


def _shown(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.1f}"


def streaming(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """Hopping windows and sessions against Structured Streaming."""
    return by_steps(bench, STREAMING, options)


if __name__ == "__main__":
    sys.exit(main())
