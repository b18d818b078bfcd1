"""A file of SQL as statements: sources, materialized views and sinks, each with its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from laminar_dagster.errors import LaminarError, Span
from laminar_dagster.semantics import types as t
from laminar_dagster.sql.clauses import CLAUSE_WORDS, Clauses, OptionValue, clause_start, read_clauses, read_options
from laminar_dagster.sql.dialect import UnreadableError, extent, parse_query
from laminar_dagster.sql.intervals import IntervalText
from laminar_dagster.sql.lexing import Words, closest, unknown


@dataclass(frozen=True)
class ColumnStatement:
    """`name TYPE [METADATA [FROM '…']]`; of METADATA without FROM, `metadata` is empty."""

    name: str
    type: str
    where: Span
    metadata: str | None = None


@dataclass(frozen=True)
class WatermarkStatement:
    """`WATERMARK FOR column [AS column - INTERVAL …]`."""

    column: str
    lag: IntervalText | None
    where: Span


@dataclass(frozen=True)
class SourceStatement:
    name: str
    columns: tuple[ColumnStatement, ...]
    watermark: WatermarkStatement | None
    options: Mapping[str, OptionValue]
    where: Span


@dataclass(frozen=True)
class ViewStatement:
    name: str
    query: exp.Expr = field(compare=False)
    clauses: Clauses
    where: Span
    sql: str

    def span(self, node: exp.Expr) -> Span:
        """Where a piece of the query stands; the view's name for a piece that has no text of its own."""
        found = extent(node)
        while found is None and node.parent is not None:
            node = node.parent
            found = extent(node)
        return Span(self.where.text, *found, self.where.file) if found else self.where


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
    raise words.unexpected("SOURCE, MATERIALIZED VIEW or SINK", ["SOURCE", "MATERIALIZED", "SINK"])


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
    columns: list[ColumnStatement] = []
    watermark: WatermarkStatement | None = None
    if words.accept("("):
        while True:
            if words.sees("WATERMARK", "FOR"):
                watermark = _watermark(words, watermark)
            else:
                columns.append(_column(words, columns))
            if not words.accept(","):
                break
        words.expect(")")
    if words.sees("AS"):
        raise words.unexpected("WITH (connector = '…')", ["WITH"])
    options: Mapping[str, OptionValue] = {}
    if words.peek_type() not in (TokenType.SEMICOLON, None):
        words.expect("WITH")
        options = read_options(words)
    return SourceStatement(name, tuple(columns), watermark, options, where)


def _column(words: Words, earlier: Iterable[ColumnStatement]) -> ColumnStatement:
    name, where = words.name("a column's name")
    if any(column.name.lower() == name.lower() for column in earlier):
        raise LaminarError("LMR0104", f'column "{name}" is declared twice', where=where)
    tokens = _until_comma(words)
    if not tokens:
        raise words.unexpected(f'the type of column "{name}"')
    type_ = words.text[tokens[0].start : tokens[-1].end + 1]
    metadata = None
    if words.accept("METADATA"):
        metadata = words.string("what it is of the message")[0] if words.accept("FROM") else ""
    return ColumnStatement(name, type_, words.since(tokens[0]), metadata)


def _until_comma(words: Words) -> list[Token]:
    """A type's words: up to the comma or parenthesis that is not its own, `<` and `>` counted too."""
    depth = 0
    taken: list[Token] = []
    while (token := words.peek()) is not None:
        if depth == 0 and (token.text in (",", ")") or words.sees("METADATA")):
            break
        depth += token.text.count("<") + (token.text == "(")
        depth -= token.text.count(">") + (token.text == ")")
        taken.append(words.take())
    return taken


def _watermark(words: Words, earlier: WatermarkStatement | None) -> WatermarkStatement:
    first = words.expect("WATERMARK")
    words.expect("FOR")
    column, _ = words.name("the event-time column")
    lag = None
    if words.accept("AS"):
        again, where = words.name("the event-time column")
        if again.lower() != column.lower():
            raise LaminarError(
                "LMR0004",
                f'a watermark for "{column}" cannot be computed from "{again}"',
                where=where,
                hint=f"Write WATERMARK FOR {column} AS {column} - INTERVAL '…'.",
            )
        if words.accept("-"):
            lag = IntervalText(*words.interval())
    if earlier is not None:
        raise LaminarError("LMR0004", "a source has one watermark, not two", where=words.since(first))
    return WatermarkStatement(column, lag, words.since(first))


# --- views ---------------------------------------------------------------------------------------------------


def _view(words: Words) -> ViewStatement:
    name, where = _own_name(words, "view")
    words.expect("AS")
    if not any(words.sees(word) for word in ("SELECT", "WITH", "(")):
        raise words.unexpected("SELECT", ["SELECT", "WITH"])
    first = words.position
    tokens = list(words.until(clause_start(words)))
    query = _query(words, tokens)
    clauses = read_clauses(words)
    sql = words.text[words.tokens[first].start : words.tokens[words.position - 1].end + 1]
    return ViewStatement(name, query, clauses, where, sql)


def _query(words: Words, tokens: list[Token]) -> exp.Expr:
    try:
        query = parse_query(tokens, words.text)
    except UnreadableError as error:
        raise _unreadable(words, tokens, error) from None
    except RecursionError:
        raise LaminarError("LMR0005", "this query is nested too deeply", where=words.span_of(tokens[0])) from None
    if query is None:
        raise LaminarError("LMR0005", "this is not a query", where=words.span_of(tokens[0]))
    return query


_QUERY_WORDS = (
    *CLAUSE_WORDS, "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "UNION", "AS", "AND", "OR", "BETWEEN", "FILTER",
)  # fmt: skip


def _unreadable(words: Words, tokens: list[Token], error: UnreadableError) -> LaminarError:
    at = next((i for i, token in enumerate(tokens) if token.start >= error.start), len(tokens) - 1)
    for suspect in (tokens[at], tokens[max(at - 1, 0)]):
        meant = _meant(suspect)
        if meant is not None:
            return LaminarError(
                "LMR0005",
                f'"{suspect.text}" is not expected here',
                where=words.span_of(suspect),
                hint=f"Did you mean {meant}?",
            )
    if error.problem.startswith("Expected TYPE"):
        text = tokens[at].text
        return unknown("LMR0101", "type", text, t.KNOWN_TYPE_NAMES, words.span_of(tokens[at]))
    known = error.problem.lower().startswith(("expected", "required"))
    return LaminarError(
        "LMR0005",
        f'"{tokens[at].text}" is not expected here',
        where=words.span(error.start, error.end),
        detail=error.problem if known else None,
    )


def _meant(token: Token) -> str | None:
    """The keyword of which this word is a misspelling."""
    if token.token_type != TokenType.VAR:
        return None
    meant = closest(token.text, _QUERY_WORDS)
    return meant if meant and meant != token.text.upper() else None


# --- sinks ---------------------------------------------------------------------------------------------------


def _sink(words: Words) -> SinkStatement:
    name, where = _own_name(words, "sink")
    words.expect("FROM")
    view, view_where = words.name("the view's name")
    words.expect("WITH")
    return SinkStatement(name, view, view_where, read_options(words), where)
