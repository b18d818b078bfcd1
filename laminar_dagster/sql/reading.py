"""Pieces of SQL that sqlglot reads: queries and expressions out of a file's words, its complaints in our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from laminar_dagster.errors import LaminarError, Span
from laminar_dagster.semantics import types as t
from laminar_dagster.sql.clauses import CLAUSE_WORDS
from laminar_dagster.sql.dialect import UnreadableError, extent, parse_expression
from laminar_dagster.sql.lexing import Words, closest, unknown


def read(words: Words, tokens: list[Token], parse: Callable[[list[Token], str], Any]) -> Any:
    """What sqlglot makes of the tokens, its complaints in our words."""
    try:
        return parse(tokens, words.text)
    except UnreadableError as error:
        raise _unreadable(words, tokens, error) from None
    except RecursionError:
        raise LaminarError("LMR0005", "this query is nested too deeply", where=words.span_of(tokens[0])) from None


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


def expression(
    words: Words, what: str, is_stop: Callable[[Words, int], bool] = lambda _words, _ahead: False
) -> exp.Expr:
    """The expression that comes next, up to a stop, or to the comma or parenthesis that is not its own."""
    depth = ahead = 0
    while (token := words.peek(ahead)) is not None and token.token_type != TokenType.SEMICOLON:
        depth -= token.token_type == TokenType.R_PAREN
        if depth < 0 or (depth == 0 and (token.token_type == TokenType.COMMA or is_stop(words, ahead))):
            break
        depth += token.token_type == TokenType.L_PAREN
        ahead += 1
    tokens = list(words.until(words.position + ahead))
    if not tokens:
        raise words.unexpected(what)
    found: exp.Expr = read(words, tokens, parse_expression)
    return found


def before_as(words: Words, ahead: int) -> bool:
    token = words.peek(ahead)
    return token is not None and token.token_type == TokenType.ALIAS


def place_of(node: exp.Expr, otherwise: Span) -> Span:
    """Where a piece stands in the text; one that has none of its own stands where what it is part of does."""
    found = extent(node)
    while found is None and node.parent is not None:
        node = node.parent
        found = extent(node)
    return Span(otherwise.text, *found, otherwise.file) if found else otherwise


def same_names(one: exp.Expr, other: exp.Expr) -> bool:
    """Whether two pieces say the same, the letter case of names aside."""
    return _lowered(one) == _lowered(other)


def _lowered(node: exp.Expr) -> exp.Expr:
    lowered = node.unnest().copy()
    for name in lowered.find_all(exp.Identifier):
        name.set("this", name.name.lower())
    return lowered


def text_of(words: Words, node: exp.Expr) -> str:
    start, end = extent(node) or (0, 0)
    return words.text[start:end]
