"""Values as Arrow hands them out, in the engine's form."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from laminar_dagster.semantics.time import from_datetime

_FIRST_DAY = date(1970, 1, 1).toordinal()


def engine_value(value: Any) -> Any:
    """Microseconds for a time, days for a date; everything else as it is."""
    if isinstance(value, datetime):
        return from_datetime(value)
    return value.toordinal() - _FIRST_DAY if isinstance(value, date) else value
