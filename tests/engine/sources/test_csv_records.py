"""Where rows of CSV end: as Python's own reader has it, and each line by itself where quotes are wrong. No Spark."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.engine.sources import csv_records
from laminar_dagster.engine.sources.csv_records import Rows

VALUE = st.text(alphabet='ab ",\n\r;é\x00', max_size=6)
LINE_END = st.sampled_from(["\n", "\r\n"])
THREE = Rows(",", '"', 3)


def found(text: str, rows: Rows = THREE) -> list[str]:
    return list(rows.read(io.StringIO(text, newline="")))


def spans(text: str, rows: Rows = THREE) -> bool:
    return rows.may_span_lines(io.StringIO(text, newline=""))


@given(st.lists(st.tuples(VALUE, VALUE, VALUE), max_size=5), LINE_END, st.booleans())
def test_rows_end_where_pythons_csv_reader_ends_them(
    rows: list[tuple[str, str, str]], line_end: str, ended: bool
) -> None:
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator=line_end, quoting=csv.QUOTE_ALL).writerows(rows)
    text = written.getvalue() if ended else written.getvalue().removesuffix(line_end)
    texts = [row for row in found(text) if row]
    assert [next(csv.reader(io.StringIO(row, newline=""), strict=True)) for row in texts] == [list(r) for r in rows]


@given(st.text(alphabet='ab",\n\r', max_size=30))
def test_every_character_is_in_a_row_or_ends_one(text: str) -> None:
    rows = found(text)
    assert "".join(rows).replace("\n", "").replace("\r", "") == text.replace("\n", "").replace("\r", "")
    if not spans(text):
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        assert rows == (lines if lines[-1] else lines[:-1])


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('a,"x\ny\r\nz",1\nb,c,2\n', ['a,"x\ny\r\nz",1', "b,c,2"]),
        ('a,"x\n""y"",\n",1\rb,c,2', ['a,"x\n""y"",\n",1', "b,c,2"]),
        ('\ufeff"a\nb",c,1\n', ['\ufeff"a\nb",c,1']),
        # A quote that is not closed: only its own line.
        ('a,"b,1\nc,d,2\ne,f,3\n', ['a,"b,1', "c,d,2", "e,f,3"]),
        ('a,"b,1\nc,"d",2\ne,f,3\n', ['a,"b,1', 'c,"d",2', "e,f,3"]),
        ('a,"b,1\nc,d,2\ne,"f\ng",3\n', ['a,"b,1', "c,d,2", 'e,"f\ng",3']),
        # Two of them, which together look like one value: the lines between are rows of their own.
        ('"a,b,1\nc,d,2\ne,f,3"\n', ['"a,b,1', "c,d,2", 'e,f,3"']),
        # Too few fields over several lines, none of which is a row: one broken row.
        ('a,"x\ny\nz"\nb,c,2\n', ['a,"x\ny\nz"', "b,c,2"]),
        ('5" pipe,b,1\nc,"d\ne",2\n', ['5" pipe,b,1', 'c,"d\ne",2']),
        ("\n\n", ["", ""]),
        ("", []),
        ('"', ['"']),
        ("\x00,b,1\n", ["\x00,b,1"]),
    ],
)
def test_rows_over_several_lines_and_rows_with_wrong_quotes(text: str, rows: list[str]) -> None:
    assert found(text) == rows


def test_a_row_longer_than_the_limit_has_a_quote_that_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_records, "MOST_CHARACTERS", 20)
    monkeypatch.setattr(csv_records, "_CHUNK", 5)
    long = "x" * 50
    text = f'a,"b\nc",1\na,"{long}\n{long}",1\nd,e,2\n{long},"f\ng",3\n'
    assert spans(text)
    assert found(text) == ['a,"b\nc",1', f'a,"{long}', f'{long}",1', "d,e,2", f'{long},"f', 'g",3']


@pytest.mark.parametrize(("delimiter", "quote"), [("|", "'"), ("]", "["), ("^", "\\"), ("\t", "«"), ("-", "^")])
def test_any_character_may_delimit_or_quote(delimiter: str, quote: str) -> None:
    d, q = delimiter, quote
    text = f"a{d}{q}b\n{d}{q}{q}{q}{d}1\nc{d}d{d}2\n"
    assert found(text, Rows(d, q, 3)) == [f"a{d}{q}b\n{d}{q}{q}{q}{d}1", f"c{d}d{d}2"]
    assert spans(text, Rows(d, q, 3))
