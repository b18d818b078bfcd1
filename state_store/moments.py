"""Times as integers, microseconds (of dates: days) since 1970: Python's own end with the year 9999, Spark's do not."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa

MICROSECOND = pa.timestamp("us", tz="UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = -62_135_596_800_000_000  # 0001-01-01
_LAST = 253_402_300_799_999_000  # the last millisecond of the year 9999
_DAY = 86_400_000_000


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def is_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))


def as_integers(table: pa.Table) -> pa.Table:
    """The table with its times as numbers, which Python can hold whatever they are."""
    for place, field in enumerate(table.schema):
        if is_time(field.type):
            table = table.set_column(place, field.name, integers(table.column(place)))
    return table


def integers(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32())
    whole = values.type if not pa.types.is_date(values.type) else pa.timestamp("ms")
    unit = pa.timestamp("us", tz=getattr(whole, "tz", None))
    return values.cast(whole).cast(unit, safe=False).cast(pa.int64())


def from_physical(value: int, type_: pa.DataType) -> int | None:
    """What a footer has of a column of this type, cut off where that is finer. None: beyond all times."""
    if pa.types.is_date(type_):
        return value if pa.types.is_date32(type_) else value // 86_400_000
    found = value // 1_000 if type_.unit == "ns" else value * {"ms": 1_000, "s": 1_000_000}.get(type_.unit, 1)
    return found if -(1 << 63) <= found < 1 << 63 else None


def text(value: int, type_: pa.DataType, *, up: bool) -> str | None:
    """As the log of a Delta table has it, rounded outwards to the millisecond; None where four digits hold no year."""
    moment = value * _DAY if pa.types.is_date(type_) else (-(-value // 1000) if up else value // 1000) * 1000
    if not _FIRST <= moment <= _LAST:
        return None
    if pa.types.is_date(type_):
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    found = (_EPOCH + timedelta(microseconds=moment)).isoformat(timespec="milliseconds")
    return found.replace("+00:00", "Z" if type_.tz is not None else "")
