"""A file of SQL as statements: sources, materialized views and sinks, each with its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from laminar_dagster.errors import LaminarError, Span
from laminar_dagster.sql.clauses import CLAUSE_WORDS, Clauses, OptionValue, clause_start, read_clauses, read_options
from laminar_dagster.sql.dialect import parse_query
from laminar_dagster.sql.intervals import from_node
from laminar_dagster.sql.lexing import Words
from laminar_dagster.sql.reading import before_as, expression, place_of, read, same_names, text_of
from laminar_dagster.sql.time_clauses import TimeClauses, Watermark, take_time_clauses


@dataclass(frozen=True)
class ColumnStatement:
    """`name TYPE [METADATA [FROM '…']]`; of METADATA without FROM, `metadata` is empty."""

    name: str
    type: str
    where: Span
    metadata: str | None = None


@dataclass(frozen=True)
class ComputedStatement:
    """`name [TYPE] AS expression`, over the other columns of its source."""

    name: str
    type: str | None
    node: exp.Expr = field(compare=False)
    where: Span


@dataclass(frozen=True)
class SourceStatement:
    name: str
    columns: tuple[ColumnStatement, ...]
    watermark: Watermark | None
    options: Mapping[str, OptionValue]
    where: Span
    computed: tuple[ComputedStatement, ...] = ()

    def span(self, node: exp.Expr) -> Span:
        """Where a piece of the declaration stands."""
        return place_of(node, self.where)


@dataclass(frozen=True)
class ViewStatement:
    name: str
    query: exp.Expr = field(compare=False)
    clauses: Clauses
    where: Span
    sql: str
    time: TimeClauses = field(default_factory=TimeClauses)

    def span(self, node: exp.Expr) -> Span:
        """Where a piece of the query stands; the view's name for a piece that has no text of its own."""
        return place_of(node, self.where)


@dataclass(frozen=True)
class SinkStatement:
    """`CREATE SINK name FROM view WITH (…)`."""

    name: str
    view: str
    view_where: Span
    options: Mapping[str, OptionValue]
    where: Span


@dataclass(frozen=True)
class Script:
    sources: tuple[SourceStatement, ...]
    views: tuple[ViewStatement, ...]
    sinks: tuple[SinkStatement, ...] = ()

    def __add__(self, other: Script) -> Script:
        """Several files as one: a project's views see each other's sources."""
        return Script(self.sources + other.sources, self.views + other.views, self.sinks + other.sinks)


def parse_script(text: str, file: str | None = None) -> Script:
    """The statements of one file; LaminarError (LMR00xx) with a caret where the text says none."""
    words = Words(text, file)
    script = Script((), ())
    while not words.at_end:
        if words.peek_type() == TokenType.SEMICOLON:
            words.take()
            continue
        script += _statement(words)
        if words.peek_type() not in (TokenType.SEMICOLON, None):
            raise words.unexpected(";", CLAUSE_WORDS)
    return script


def _statement(words: Words) -> Script:
    """One statement, as a script of its own."""
    words.expect("CREATE")
    if words.accept("SOURCE"):
        return Script((_source(words),), ())
    if words.accept("SINK"):
        return Script((), (), (_sink(words),))
    if words.accept("MATERIALIZED"):
        words.expect("VIEW")
        return Script((), (_view(words),))
    if words.accept("STREAM"):
        return Script((), (_view(words),))
    if words.sees("VIEW"):
        raise LaminarError(
            "LMR0003",
            "a view here is always a materialized one",
            where=words.span_of(words.peek()),
            hint="Write CREATE MATERIALIZED VIEW, or CREATE STREAM.",
        )
    if words.sees("OR", "REPLACE"):
        raise LaminarError(
            "LMR0019",
            "OR REPLACE is not needed here: the file is the view, and a changed file replaces it",
            where=words.span_of(words.peek()),
            hint="Leave OR REPLACE out. What a changed query does to saved state: docs/how-to/change-a-query.md.",
        )
    raise words.unexpected("SOURCE, MATERIALIZED VIEW, STREAM or SINK", ["SOURCE", "MATERIALIZED", "STREAM", "SINK"])


def _own_name(words: Words, what: str) -> tuple[str, Span]:
    """The name of a source, view or sink, which is also the name of a directory, an asset or a file."""
    name, where = words.name(f"the {what}'s name")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise LaminarError(
            "LMR0014", f'a {what} cannot be called "{name}"', where=where,
            hint="A name has letters, digits and _, and does not begin with a digit.",
        )  # fmt: skip
    return name, where


# --- sources -------------------------------------------------------------------------------------------------


def _source(words: Words) -> SourceStatement:
    name, where = _own_name(words, "source")
    columns: list[ColumnStatement | ComputedStatement] = []
    watermark: Watermark | None = None
    if words.accept("("):
        while True:
            if words.sees("WATERMARK", "FOR"):
                watermark = _watermark(words, watermark)
            else:
                columns.append(_column(words, columns))
            if not words.accept(","):
                break
        words.expect(")")
    held = tuple(column for column in columns if isinstance(column, ColumnStatement))
    computed = tuple(column for column in columns if isinstance(column, ComputedStatement))
    if words.sees("AS"):
        raise words.unexpected("WITH (connector = '…')", ["WITH"])
    options: Mapping[str, OptionValue] = {}
    if words.peek_type() not in (TokenType.SEMICOLON, None):
        words.expect("WITH")
        options = read_options(words)
    return SourceStatement(name, held, watermark, options, where, computed)


def _column(
    words: Words, earlier: Iterable[ColumnStatement | ComputedStatement]
) -> ColumnStatement | ComputedStatement:
    name, where = words.name("a column's name")
    if any(column.name.lower() == name.lower() for column in earlier):
        raise LaminarError("LMR0104", f'column "{name}" is declared twice', where=where)
    tokens = _until_comma(words, "METADATA", "GENERATED", "AS")
    if not tokens and not words.sees("AS"):
        raise words.unexpected(f'the type of column "{name}"')
    type_ = words.text[tokens[0].start : tokens[-1].end + 1] if tokens else None
    if words.accept("AS") or words.accept("GENERATED", "ALWAYS", "AS"):
        return ComputedStatement(name, type_, expression(words, f'what column "{name}" is'), where)
    assert type_ is not None
    metadata = None
    if words.accept("METADATA"):
        metadata = words.string("what it is of the message")[0] if words.accept("FROM") else ""
    return ColumnStatement(name, type_, words.since(tokens[0]), metadata)


def _until_comma(words: Words, *stops: str) -> list[Token]:
    """A type's words: up to a stop, or to the comma or parenthesis that is not its own, `<` and `>` counted too."""
    depth = 0
    taken: list[Token] = []
    while (token := words.peek()) is not None:
        if depth == 0 and (token.text in (",", ")") or any(words.sees(stop) for stop in stops)):
            break
        depth += token.text.count("<") + (token.text == "(")
        depth -= token.text.count(">") + (token.text == ")")
        taken.append(words.take())
    return taken


def _watermark(words: Words, earlier: Watermark | None) -> Watermark:
    first = words.expect("WATERMARK")
    words.expect("FOR")
    time = expression(words, "the event-time column", before_as)
    lag = None
    if words.accept("AS"):
        again: exp.Expr = expression(words, "the event-time column").unnest()
        if isinstance(again, exp.Sub):
            lag = from_node(again.expression, place_of(again.expression, words.since(first)))
            again = again if lag is None else again.this
        if not same_names(again, time):
            shown, other = (text_of(words, node) for node in (time, again))
            raise LaminarError(
                "LMR0004",
                f'a watermark for "{shown}" cannot be computed from "{other}"',
                where=place_of(again, words.since(first)),
                hint=f"Write WATERMARK FOR {shown} AS {shown} - INTERVAL '…'.",
            )
    if earlier is not None:
        raise LaminarError("LMR0004", "a source has one watermark, not two", where=words.since(first))
    return Watermark(time, lag, words.since(first))


# --- views ---------------------------------------------------------------------------------------------------


def _view(words: Words) -> ViewStatement:
    name, where = _own_name(words, "view")
    words.expect("AS")
    if not any(words.sees(word) for word in ("SELECT", "WITH", "(")):
        raise words.unexpected("SELECT", ["SELECT", "WITH"])
    first = words.peek()
    time, last = take_time_clauses(words)
    tokens = list(words.until(clause_start(words)))
    query = read(words, tokens, parse_query)
    if query is None:
        raise LaminarError("LMR0005", "this is not a query", where=words.span_of(tokens[0]))
    clauses = read_clauses(words)
    sql = words.text[first.start if first else 0 : last.end + 1]
    return ViewStatement(name, query, clauses, where, sql, time)


# --- sinks ---------------------------------------------------------------------------------------------------


def _sink(words: Words) -> SinkStatement:
    name, where = _own_name(words, "sink")
    words.expect("FROM")
    view, view_where = words.name("the view's name")
    words.expect("WITH")
    return SinkStatement(name, view, view_where, read_options(words), where)
