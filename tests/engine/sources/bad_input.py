"""Broken input by the thousands, always the same: each text is no row, in one of the ways in which texts are none."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

from tests.engine.sources.views import at, json_line

BROKEN = 10_000
GOOD = 2_000
Random = random.Random
Maker = Callable[[Random, int], bytes]


def good_json(number: int) -> bytes:
    return json_line("good", number, number % 10).encode()


def _with(number: int, **values: object) -> bytes:
    return json.dumps({**json.loads(good_json(number)), **values}).encode()


def _truncated(draw: Random, number: int) -> bytes:
    line = good_json(number)
    return line[: draw.randrange(1, len(line) - 1)]


def _mistyped(draw: Random, number: int) -> bytes:
    value = draw.choice(["12", "", 1.5, True, {}, {"a": number}, [], [number], "null"])
    return (
        _with(number, v=value) if draw.random() < 0.7 else _with(number, ts=draw.choice([number, "yesterday", "", {}]))
    )


def _huge(draw: Random, number: int) -> bytes:
    digits = str(draw.randrange(1, 10)) * draw.randrange(20, 400)
    return _with(number, v=0).replace(
        b'"v": 0', f'"v": {draw.choice(["", "-"])}{digits}{draw.choice(["", "e999"])}'.encode()
    )


def _not_text(draw: Random, number: int) -> bytes:
    line = good_json(number)
    place = draw.randrange(len(line))
    return line[:place] + draw.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88"]) + line[place:]


def _null(draw: Random, number: int) -> bytes:
    return draw.choice(
        [b"null", _with(number, ts=None), _with(number, k="a").replace(b'"a"', b'"a\x00"'), b"\x00", b"{}"]
    )


def _nested(draw: Random, number: int) -> bytes:
    depth = draw.randrange(1, 3000)
    opening = draw.choice([b"[", b'{"a":'])
    return draw.choice(
        [
            b'{"deep":' + opening * depth,
            opening * depth,
            b'{"deep":' + b"[" * 1500 + b"]" * 1500 + b"," + good_json(number)[1:],
            _with(number, v=0).replace(b'"v": 0', b'"v": ' + b"[" * depth + b"]" * depth),
        ]
    )


def _other_schema(draw: Random, number: int) -> bytes:
    line = good_json(number)
    return draw.choice(
        [b"[" + line + b"]", line + line, line + b" more", f'{{"x":{number}}}'.encode(), b'"text"', b"7"]
    )


def _noise(draw: Random, _: int) -> bytes:
    return b"~" + bytes(draw.choices(range(32, 127), k=draw.randrange(1, 80)))


JSON_MAKERS: tuple[Maker, ...] = (
    _truncated,
    _mistyped,
    _huge,
    _not_text,
    _null,
    _nested,
    _other_schema,
    _noise,
)


def good_csv(number: int) -> bytes:
    return f"good,{number},{at(number % 10).isoformat()}".encode()


def _bad_field(draw: Random, number: int) -> bytes:
    value = draw.choice(["x", "1.5", "true", "1e3", "0x1F", "٣", "9" * draw.randrange(19, 300), "1\x00", "{}", "- 1"])
    return good_csv(number).replace(f",{number},".encode(), f",{value},".encode())


def _bad_time(draw: Random, number: int) -> bytes:
    return (
        f"good,{number},{draw.choice(['', 'yesterday', '2026', '2026-02-30', str(number), 'T12:00', 'null'])}".encode()
    )


def _fields(draw: Random, number: int) -> bytes:
    line = good_csv(number)
    return draw.choice([line.rsplit(b",", 1)[0], line + b"," * draw.randrange(1, 50), b"," * 25_000, b",", b"good"])


def _quote(draw: Random, number: int) -> bytes:
    return draw.choice([b'"' + good_csv(number), good_csv(number) + b'"', b'"', b'"""'])


def _csv_not_text(draw: Random, number: int) -> bytes:
    return good_csv(number).replace(b"good", b"go" + draw.choice([b"\xff", b"\xc3", b"\xed\xa0\x80"]) + b"od")


CSV_MAKERS: tuple[Maker, ...] = (_bad_field, _bad_time, _fields, _quote, _csv_not_text, _noise)


def broken(makers: Sequence[Maker], count: int = BROKEN) -> list[bytes]:
    """The same texts each time, in each way about as many."""
    draw = Random(20260101)
    return [makers[number % len(makers)](draw, number) for number in range(count)]


def in_among(bad: Sequence[bytes], good: Sequence[bytes]) -> list[bytes]:
    mixed = [*bad, *good]
    Random(7).shuffle(mixed)
    return mixed
