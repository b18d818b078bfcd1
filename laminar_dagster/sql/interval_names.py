"""An interval as Spark shows it in a name: `INTERVAL '01:30' HOUR TO MINUTE`, from the first unit said to the last."""

from __future__ import annotations

import re

from laminar_dagster.semantics.time import DAY, HOUR, MINUTE, SECOND, interval, parse_interval

# Each field with its length, how it is filled up, and what stands before it.
_FIELDS = (
    ("DAY", DAY, "d", ""),
    ("HOUR", HOUR, "02d", " "),
    ("MINUTE", MINUTE, "02d", ":"),
    ("SECOND", SECOND, "02d", ":"),
)
_NAMES = [name for name, *_ in _FIELDS]
# Units that are no fields: the field in which they are shown.
_SHOWN_IN = {"WEEK": "DAY", "MILLISECOND": "SECOND", "MICROSECOND": "SECOND"}


def interval_name(text: str, unit: str | None) -> str:
    length = parse_interval(text) if unit is None else interval(int(text), unit)
    if length.months:
        return f"INTERVAL '{text}'{'' if unit is None else f' {unit.upper()}'}"
    said = sorted(_NAMES.index(_field(word)) for word in re.findall(r"[A-Za-z]+", text if unit is None else unit))
    first, last = said[0], said[-1]
    fields = _NAMES[first] if first == last else f"{_NAMES[first]} TO {_NAMES[last]}"
    return f"INTERVAL '{_digits(length.micros, first, last)}' {fields}"


def _field(word: str) -> str:
    unit = word.upper().removesuffix("S")
    return _SHOWN_IN.get(unit, unit)


def _digits(micros: int, first: int, last: int) -> str:
    shown, rest = "-" if micros < 0 else "", abs(micros)
    for place in range(first, last + 1):
        _, length, form, before = _FIELDS[place]
        shown += ("" if place == first else before) + format(rest // length, form)
        rest %= length
    return shown + (f".{rest:06d}".rstrip("0") if rest else "")
