"""What results that change cost, side by side with a stream that merges them into a table. See benchmarks/README.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.contenders import opened, run_merging_stream
from benchmarks.reporting import main_of, milliseconds, parser_for, print_table, say
from benchmarks.side_by_side import Bench, add_options, by_steps
from benchmarks.workloads import VIEW, Workload, no_window, quick, tumble, write_source
from laminar_dagster.changes import subscribe

PARTS = ("merge", "reading")
# Each batch has two rows of each of 10,000 keys; in the end the table has about 70,000 rows.
MERGE = {
    workload.name: workload
    for workload in (
        Workload(
            "changes", 20_000, 100_000, no_window(), batches=12, target=2.0, span=60, emit="CHANGES", changed=10_000
        ),
        Workload(
            "on_update", 20_000, 100_000, tumble(3_600), batches=12, target=2.0, span=60, emit="ON UPDATE",
            changed=10_000,
        ),
    )
}  # fmt: skip
READ = Workload("reading", 2_000, 20_000, no_window(), batches=200, span=60, emit="CHANGES", changed=1_000)
BACK = (1, 10, 100)
LOOKS = 7


def main(argv: Sequence[str] | None = None) -> int:
    return main_of(compare, _options(argv))


def compare(options: argparse.Namespace) -> dict[str, Any]:
    parts = {"merge": merge, "reading": reading}
    with tempfile.TemporaryDirectory(prefix="laminar-changes-") as folder:
        bench = Bench(Path(folder), options, contender=run_merging_stream)
        return {part: parts[part](bench, options) for part in options.part or PARTS}


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_for(__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this one (may be repeated)")
    parser.add_argument("--workload", choices=MERGE, action="append", help="of part merge, only this one")
    add_options(parser)
    return parser.parse_args(argv)


def merge(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """A table that is kept up to date, and its changelog, against update mode with MERGE."""
    figures = by_steps(bench, MERGE, options)
    say("Both tables are the same in the end. Ours also wrote the changelog.")
    return figures


def reading(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """The changes since 1, 10 and 100 epochs ago, and all: without Spark."""
    workload = quick(READ).with_batches(12) if options.quick else READ
    source, data = bench.root / "reading" / "source", bench.root / "reading" / "data"
    write_source(workload, source, "files")
    epochs = 0
    with opened(bench.spark, workload, source, "files", data) as view:
        while view.step() is not None:
            epochs += 1
    found = {
        back: [_read_since(data / VIEW, epochs - back) for _ in range(LOOKS)]
        for back in sorted({min(back, epochs) for back in (*BACK, epochs)})
    }
    times = {back: median(seconds for _, seconds in looks) for back, looks in found.items()}
    print_table(
        f"Reading the changes of the last epochs, of {epochs:,}",
        ("epochs", "rows", "ms", "ms per 1,000 rows"),
        [
            (f"{back:,}", f"{looks[0][0]:,}", milliseconds(times[back]), f"{times[back] * 1e6 / looks[0][0]:.2f}")
            for back, looks in found.items()
        ],
    )
    return {str(back): {"rows": looks[0][0], "ms": round(times[back] * 1000, 2)} for back, looks in found.items()}


def _read_since(view_store: Path, epoch: int) -> tuple[int, float]:
    start = perf_counter()
    rows = sum(batch.rows.num_rows for batch in subscribe(view_store, since=epoch))
    return rows, perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
