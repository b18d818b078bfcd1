"""Makes demo events: a till system's JSON lines and a payments table, with the faults that real ones have.

What is made follows from the seed and from where the last call left off; `_generator.json` in the landing folder
remembers that. Event time begins half a day ago and moves ten minutes per call (thirty in the first), so that windows
close on every call and nothing but the rows that are meant to be is ahead of the clock.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from laminar_dagster.semantics.time import MINUTE, SECOND, from_datetime, to_datetime, to_iso

DEFAULT_SEED = 20
SPAN = 10 * MINUTE
FIRST_SPAN = 30 * MINUTE  # so that ten-minute windows close on the first call, too
FIRST_BATCH_AGO = timedelta(hours=12)
FILES = 5
COMMITS = 2
SALES_PER_FILE = 220
PAYMENTS_PER_COMMIT = 150

REGIONS = ("north", "south", "east", "west")
PRICES = {"tea": "3.20", "coffee": "3.90", "cake": "4.50", "sandwich": "6.80", "beans": "14.90"}
METHODS = ("card", "cash", "voucher")
PAYMENT_SCHEMA = pa.schema(
    [
        ("payment_id", pa.int64()),
        ("method", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("event_time", pa.timestamp("us", tz="UTC")),
    ]
)
STATE = "_generator.json"


@dataclass(frozen=True)
class Position:
    """Where the last call left off: how many calls there were, and the event time at which the next one begins."""

    seed: int
    batches: int
    next_event_time: int


@dataclass(frozen=True)
class Made:
    """What one call made; `faults` counts the rows that are wrong on purpose."""

    sales_files: int
    sales: int
    payment_commits: int
    payments: int
    faults: dict[str, int]
    since: int
    until: int


def generate(landing: Path, *, seed: int = DEFAULT_SEED, now: datetime | None = None) -> Made | None:
    """Append a few files of sales and a few commits of payments; None if event time has reached the clock."""
    clock = from_datetime(now or datetime.now(UTC))
    position = read_position(landing) or _first(seed, clock)
    since = position.next_event_time
    until = min(since + (SPAN if position.batches else FIRST_SPAN), clock)
    if until - since < SECOND:
        return None
    # Before the events: a call that is killed loses demo events, and never writes the same file twice.
    _write_position(landing, Position(position.seed, position.batches + 1, until))
    rng = random.Random(f"{position.seed}/{position.batches}")
    faults: dict[str, int] = {}
    sales = _write_sales(landing / "sales", rng, position.batches, since, until, faults)
    payments = _write_payments(landing / "payments", rng, position.batches, since, until, faults)
    return Made(FILES, sales, COMMITS, payments, faults, since, until)


def read_position(landing: Path) -> Position | None:
    path = landing / STATE
    return Position(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def _first(seed: int, clock: int) -> Position:
    start = to_datetime(clock) - FIRST_BATCH_AGO
    return Position(seed, 0, from_datetime(start.replace(minute=0, second=0, microsecond=0)))


def _write_position(landing: Path, position: Position) -> None:
    landing.mkdir(parents=True, exist_ok=True)
    _write_whole(landing / STATE, json.dumps(asdict(position)))


def _write_whole(path: Path, text: str) -> None:
    """A reader sees the whole file or none: names that begin with `_` are not part of a source."""
    unfinished = path.with_name(f"_{path.name}.new")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def _slices(since: int, until: int, count: int) -> Iterator[tuple[int, int]]:
    step = (until - since) // count
    for i in range(count):
        yield since + i * step, until if i == count - 1 else since + (i + 1) * step


# --- sales: JSON lines -----------------------------------------------------------------------------------------


def _write_sales(folder: Path, rng: random.Random, batch: int, since: int, until: int, faults: dict[str, int]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    rows = 0
    for i, (start, end) in enumerate(_slices(since, until, FILES)):
        first_id = (batch * FILES + i) * 1000
        lines = [json.dumps(_sale(rng, first_id + n, start, end)) for n in range(SALES_PER_FILE)]
        lines += _faulty_sales(rng, first_id + 900, start, faults, late=first_id > 0)
        rng.shuffle(lines)
        _write_whole(folder / f"sales-{batch:05d}-{i}.jsonl", "\n".join(lines) + "\n")
        rows += len(lines)
    return rows


def _sale(rng: random.Random, sale_id: int, start: int, end: int) -> dict[str, Any]:
    product = rng.choice(tuple(PRICES))
    return {
        "sale_id": sale_id,
        "region": rng.choices(REGIONS, weights=(5, 3, 2, 2))[0],
        "product": product,
        "quantity": rng.choice((1, 1, 1, 2, 2, 3)),
        "price": float(PRICES[product]),
        "event_time": to_iso(rng.randrange(start, end)),
    }


def _faulty_sales(rng: random.Random, first_id: int, start: int, faults: dict[str, int], *, late: bool) -> list[str]:
    """Late by minutes, dated a year ahead, cut off, of the wrong type, without a time: what tills send.

    Nothing can be late in the very first file: no watermark is known before it.
    """

    def sale(number: int, **changes: Any) -> dict[str, Any]:
        return {**_sale(rng, first_id + number, start, start + SECOND), **changes}

    behind = [to_iso(start - rng.randrange(4, 25) * MINUTE) for _ in range(3 if late else 0)]
    lines = [("late", json.dumps(sale(n, event_time=time))) for n, time in enumerate(behind)]
    lines.append(("future", json.dumps(sale(3, event_time=to_iso(start + 365 * 24 * 60 * MINUTE)))))
    lines.append(("cut off", json.dumps(sale(4))[: rng.randrange(20, 60)]))
    lines.append(("wrong type", json.dumps(sale(5, quantity="two"))))
    without_time = sale(6)
    del without_time["event_time"]
    lines.append(("no event time", json.dumps(without_time)))
    chosen = [line for line in lines if line[0] == "late" or rng.random() < 0.6]
    for kind, _ in chosen:
        faults[kind] = faults.get(kind, 0) + 1
    return [line for _, line in chosen]


# --- payments: a Delta table -----------------------------------------------------------------------------------


def _write_payments(
    folder: Path, rng: random.Random, batch: int, since: int, until: int, faults: dict[str, int]
) -> int:
    rows = 0
    for i, (start, end) in enumerate(_slices(since, until, COMMITS)):
        first_id = (batch * COMMITS + i) * 1000
        content = [_payment(rng, first_id + n, rng.randrange(start, end)) for n in range(PAYMENTS_PER_COMMIT)]
        wrong: list[tuple[str, int | None]] = [("no event time", None)]
        wrong += [("late", start - 6 * MINUTE)] if first_id > 0 else []
        content += [_payment(rng, first_id + 900 + n, time) for n, (_, time) in enumerate(wrong)]
        for kind, _ in wrong:
            faults[kind] = faults.get(kind, 0) + 1
        write_deltalake(str(folder), pa.Table.from_pylist(content, schema=PAYMENT_SCHEMA), mode="append")
        rows += len(content)
    return rows


def _payment(rng: random.Random, payment_id: int, event_time: int | None) -> dict[str, Any]:
    amount = Decimal(rng.randrange(320, 9_000)) / 100
    return {
        "payment_id": payment_id,
        "method": rng.choices(METHODS, weights=(7, 3, 1))[0],
        "amount": -amount if rng.random() < 0.06 else amount,
        "event_time": None if event_time is None else to_datetime(event_time),
    }
