"""Makes the demo shop's events: a till's JSON lines, a web server's CSV, a bank's Delta table, with real ones' faults.

What is made follows from the seed and from where the last call left off; `_generator.json` in the landing folder
remembers that. Event time begins in the evening of the day before yesterday. The first call goes past midnight, so that
a day closes at once; each further one moves half an hour, and none goes beyond the clock.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from laminar_dagster.semantics.time import HOUR, MINUTE, SECOND, from_datetime, to_datetime, to_iso

DEFAULT_SEED = 20
SPAN = 30 * MINUTE
FIRST_SPAN = 4 * HOUR
FIRST_HOUR = 21  # of the day before yesterday, in UTC
SALES_FILES = 5
SALES_PER_MINUTE = 12
VISITS_PER_MINUTE = 2
PAYMENTS_PER_MINUTE = 3

REGIONS = ("north", "south", "east", "west")
PRICES = {"tea": "3.20", "coffee": "3.90", "cake": "4.50", "sandwich": "6.80", "beans": "14.90"}
PAGES = ("/", "/tea", "/coffee", "/cake", "/beans", "/basket", "/checkout")
CUSTOMERS = ("ada", "ben", "chloe", "dan", "eve", "finn", "gus", "hana")
METHODS = ("card", "cash", "voucher")
PAYMENT_SCHEMA = pa.schema(
    [
        ("payment_id", pa.int64()),
        ("customer", pa.string()),
        ("method", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("event_time", pa.timestamp("us", tz="UTC")),
    ]
)
# Of a call's payments, by number: what the bank puts right later, what it takes back, and who pays only once.
CORRECTED = (0, 1, 2, 3)
CANCELLED = (4, 5)
GUESTS = (5,)
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

    since: int
    until: int
    sales: int
    clicks: int
    payments: int
    corrected: int
    cancelled: int
    faults: dict[str, int]


@dataclass(frozen=True)
class _Batch:
    """One call: its number, its stretch of event time, its own chance, and the faults that it has made so far."""

    number: int
    since: int
    until: int
    rng: random.Random
    faults: Counter[str]

    def slices(self, count: int) -> Iterator[tuple[int, int, int]]:
        step = (self.until - self.since) // count
        for i in range(count):
            yield i, self.since + i * step, self.until if i == count - 1 else self.since + (i + 1) * step

    def many(self, per_minute: int, start: int, end: int) -> int:
        return max(1, per_minute * (end - start) // MINUTE)


def generate(landing: Path, *, seed: int = DEFAULT_SEED, now: datetime | None = None) -> Made | None:
    """Append sales, clicks, and payments with their corrections; None if event time has reached the clock."""
    clock = from_datetime(now or datetime.now(UTC))
    position = read_position(landing) or _first(seed, clock)
    since = position.next_event_time
    until = min(since + (SPAN if position.batches else FIRST_SPAN), clock)
    if until - since < SECOND:
        return None
    # Before the events: a call that is killed loses demo events, and never writes the same file twice.
    _write_position(landing, Position(position.seed, position.batches + 1, until))
    rng = random.Random(f"{position.seed}/{position.batches}")
    batch = _Batch(position.batches, since, until, rng, Counter())
    sales = _write_sales(landing / "sales", batch)
    clicks = _write_clicks(landing / "clicks", batch)
    payments, corrected, cancelled = _write_payments(landing / "payments", batch)
    return Made(since, until, sales, clicks, payments, corrected, cancelled, dict(batch.faults))


def read_position(landing: Path) -> Position | None:
    path = landing / STATE
    return Position(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def _first(seed: int, clock: int) -> Position:
    day = to_datetime(clock) - timedelta(days=2)
    return Position(seed, 0, from_datetime(day.replace(hour=FIRST_HOUR, minute=0, second=0, microsecond=0)))


def _write_position(landing: Path, position: Position) -> None:
    _write_whole(landing / STATE, json.dumps(asdict(position)))


def _write_whole(path: Path, text: str) -> None:
    """A reader sees the whole file or none: names that begin with `_` are not part of a source."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"_{path.name}.new")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


# --- sales: JSON lines -----------------------------------------------------------------------------------------


def _write_sales(folder: Path, batch: _Batch) -> int:
    rows = 0
    for i, start, end in batch.slices(SALES_FILES):
        first_id = (batch.number * SALES_FILES + i) * 10_000
        count = batch.many(SALES_PER_MINUTE, start, end)
        lines = [json.dumps(_sale(batch.rng, first_id + n, start, end)) for n in range(count)]
        lines += _faulty_sales(batch, first_id + 9_000, start, late=first_id > 0)
        batch.rng.shuffle(lines)
        _write_whole(folder / f"sales-{batch.number:05d}-{i}.jsonl", "\n".join(lines) + "\n")
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


def _faulty_sales(batch: _Batch, first_id: int, start: int, *, late: bool) -> list[str]:
    """Late by a minute or by many, dated a year ahead, cut off, of the wrong type, without a time: what tills send.

    Nothing can be late in the very first file: no watermark is known before it.
    """
    rng = batch.rng

    def sale(number: int, **changes: Any) -> dict[str, Any]:
        return {**_sale(rng, first_id + number, start, start + SECOND), **changes}

    behind = [("late", rng.randrange(4, 25) * MINUTE) for _ in range(3)]
    behind += [("a little late", rng.randrange(35, 80) * SECOND) for _ in range(2)]
    lines = [(kind, json.dumps(sale(n, event_time=to_iso(start - by)))) for n, (kind, by) in enumerate(behind) if late]
    lines.append(("future", json.dumps(sale(5, event_time=to_iso(start + 365 * 24 * HOUR)))))
    lines.append(("cut off", json.dumps(sale(6))[: rng.randrange(20, 60)]))
    lines.append(("wrong type", json.dumps(sale(7, quantity="two"))))
    without_time = sale(8)
    del without_time["event_time"]
    lines.append(("no event time", json.dumps(without_time)))
    chosen = [line for line in lines if "late" in line[0] or rng.random() < 0.6]
    batch.faults.update(kind for kind, _ in chosen)
    return [line for _, line in chosen]


# --- clicks: CSV -----------------------------------------------------------------------------------------------


def _write_clicks(folder: Path, batch: _Batch) -> int:
    visits = batch.many(VISITS_PER_MINUTE, batch.since, batch.until)
    clicks = sorted(click for _ in range(visits) for click in _visit(batch.rng, batch.since, batch.until))
    lines = [f"{visitor},{page},{to_iso(time)}" for time, visitor, page in clicks]
    lines += _faulty_clicks(batch)
    _write_whole(folder / f"clicks-{batch.number:05d}.csv", "\n".join(["visitor,page,event_time", *lines, ""]))
    return len(lines)


def _visit(rng: random.Random, start: int, end: int) -> Iterator[tuple[int, str, str]]:
    """A visitor looks at a few pages, less than a minute at each."""
    visitor, time = f"v{rng.randrange(60):02d}", rng.randrange(start, end)
    for _ in range(rng.randrange(1, 8)):
        if time < end:
            yield time, visitor, rng.choice(PAGES)
        time += rng.randrange(5 * SECOND, 55 * SECOND)


def _faulty_clicks(batch: _Batch) -> list[str]:
    """A line without a time, and, once there is a watermark, the clicks of a phone that was offline."""
    lines = [("cut off", f"v{batch.rng.randrange(60):02d},/ba")]
    behind = [batch.rng.randrange(15, 40) * MINUTE for _ in range(2 if batch.number else 0)]
    lines += [("late", f"v99,/tea,{to_iso(batch.since - by)}") for by in behind]
    batch.faults.update(kind for kind, _ in lines)
    return [line for _, line in lines]


# --- payments: a Delta table with a change feed ----------------------------------------------------------------


def _write_payments(folder: Path, batch: _Batch) -> tuple[int, int, int]:
    """New payments, then the bank's corrections and cancellations of earlier ones."""
    feed = {"delta.enableChangeDataFeed": "true"}
    folder.parent.mkdir(parents=True, exist_ok=True)
    DeltaTable.create(folder, PAYMENT_SCHEMA, mode="ignore", configuration=feed)
    first_id = batch.number * 100_000
    earlier = first_id - 100_000 if batch.number else 10
    count = batch.many(PAYMENTS_PER_MINUTE, batch.since, batch.until)
    rows = [_payment(batch, first_id, number) for number in range(count)]
    write_deltalake(folder, pa.Table.from_pylist(rows, schema=PAYMENT_SCHEMA), mode="append")
    table = DeltaTable(folder)
    corrected = table.update({"amount": "CAST(amount / 2 AS DECIMAL(12, 2))"}, predicate=_among(earlier, CORRECTED))
    cancelled = table.delete(_among(earlier, CANCELLED))
    return count, int(corrected["num_updated_rows"]), int(cancelled["num_deleted_rows"])


def _among(first_id: int, numbers: tuple[int, ...]) -> str:
    return f"payment_id IN ({', '.join(str(first_id + number) for number in numbers)})"


def _payment(batch: _Batch, first_id: int, number: int) -> dict[str, Any]:
    rng = batch.rng
    amount = Decimal(rng.randrange(320, 9_000)) / 100
    return {
        "payment_id": first_id + number,
        "customer": f"guest-{batch.number}" if number in GUESTS else rng.choice(CUSTOMERS),
        "method": rng.choices(METHODS, weights=(7, 3, 1))[0],
        "amount": -amount if rng.random() < 0.06 else amount,
        "event_time": to_datetime(rng.randrange(batch.since, batch.until)),
    }
