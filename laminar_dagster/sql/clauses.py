"""What stands behind a view's SELECT: ALLOW LATENESS, GAP FILL, EMIT, LATE DATA TO and WITH, in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot.tokenizer_core import TokenType

from laminar_dagster.errors import LaminarError, Span, did_you_mean, nearest
from laminar_dagster.semantics import emit
from laminar_dagster.semantics.emit import EmitPolicy
from laminar_dagster.sql.intervals import IntervalText
from laminar_dagster.sql.lexing import Words, closest, is_word

CLAUSE_WORDS = ("ALLOW", "GAP", "EMIT", "LATE", "WITH")
_SECOND_WORDS = {"ALLOW": "LATENESS", "GAP": "FILL", "LATE": "DATA"}
GAP_FILLS = ("NULL", "LOCF", "LINEAR")


@dataclass(frozen=True)
class OptionValue:
    """One `name = value` of WITH (…) or of a table of the configuration: the value as text, and both places."""

    value: str
    name_where: Span
    where: Span
    table: str | None = None

    @property
    def whole(self) -> Span:
        return Span(self.where.text, self.name_where.start, self.where.end, self.where.file)


@dataclass(frozen=True)
class Emission:
    policy: EmitPolicy
    period: IntervalText | None
    where: Span


@dataclass(frozen=True)
class Clauses:
    """What was said behind the SELECT. `places` has the whole clause, by the clause's first word."""

    lateness: IntervalText | None = None
    gap_fill: str | None = None
    emission: Emission | None = None
    late_data: str | None = None
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    places: Mapping[str, Span] = field(default_factory=dict)


def clause_start(words: Words) -> int:
    """The index of the first token behind the SELECT: a clause's first word, a semicolon, or the end."""
    seen_from = words.sees("(")  # a query in parentheses has its FROM inside
    for ahead, depth in enumerate(words.depths()):
        token = words.peek(ahead)
        if token is None:
            break
        if token.token_type == TokenType.SEMICOLON:
            return words.position + ahead
        if depth > 0:
            continue
        seen_from = seen_from or token.token_type == TokenType.FROM
        if seen_from and begins_clause(words, ahead):
            return words.position + ahead
    return len(words.tokens)


_BEFORE_A_NAME = (
    TokenType.DOT, TokenType.COMMA, TokenType.ALIAS, TokenType.FROM, TokenType.GROUP_BY, TokenType.WHERE,
    TokenType.HAVING, TokenType.AND, TokenType.OR, TokenType.NOT,
)  # fmt: skip


def begins_clause(words: Words, ahead: int) -> bool:
    """Whether a clause behind the query begins at this word."""
    token, following = words.peek(ahead), words.peek(ahead + 1)
    before = words.peek(ahead - 1)
    if token is None or not is_word(token) or token.token_type == TokenType.IDENTIFIER:
        return False
    word = token.text.upper()
    if word not in CLAUSE_WORDS or (before is not None and before.token_type in _BEFORE_A_NAME):
        return False
    if word == "WITH":
        return following is not None and following.token_type == TokenType.L_PAREN
    if word in _SECOND_WORDS:
        return following is not None and nearest(following.text, [_SECOND_WORDS[word]]) is not None
    return following is None or following.token_type not in (TokenType.DOT, TokenType.COMMA, TokenType.EQ)


def read_clauses(words: Words) -> Clauses:
    clauses = Clauses()
    while not words.at_end and words.peek_type() != TokenType.SEMICOLON:
        first = words.take()
        word = first.text.upper()
        reader = _READERS.get(word) if is_word(first) else None
        if reader is None:
            words.position -= 1
            raise _unknown_clause(words)
        clauses = reader(words, clauses)
        where = words.since(first)
        if word in clauses.places:
            full = {"ALLOW": "ALLOW LATENESS", "GAP": "GAP FILL", "LATE": "LATE DATA TO"}.get(word, word)
            raise LaminarError("LMR0007", f"{full} is said twice", where=where, hint="Keep one of the two.")
        clauses = replace(clauses, places={**clauses.places, word: where})
    return clauses


_WHAT_COMES = "Behind the query come ALLOW LATENESS, GAP FILL, EMIT, LATE DATA TO and WITH (…), then a semicolon."


def _unknown_clause(words: Words) -> LaminarError:
    token = words.peek()
    text = token.text if token is not None else ""
    close = closest(text, CLAUSE_WORDS)
    return LaminarError(
        "LMR0005",
        f'"{text}" is not expected here',
        where=words.span_of(token),
        hint=f"Did you mean {close}?" if close is not None else _WHAT_COMES,
    )


def _lateness(words: Words, clauses: Clauses) -> Clauses:
    words.expect("LATENESS")
    return replace(clauses, lateness=IntervalText(*words.interval()))


def _gap_fill(words: Words, clauses: Clauses) -> Clauses:
    words.expect("FILL")
    kind, where = words.name("NULL, LOCF or LINEAR")
    if kind.upper() not in GAP_FILLS:
        raise LaminarError(
            "LMR0008", f'unknown GAP FILL "{kind}"', where=where, hint=did_you_mean(kind.upper(), GAP_FILLS)
        )
    return replace(clauses, gap_fill=kind.upper())


def _late_data(words: Words, clauses: Clauses) -> Clauses:
    words.expect("DATA", "TO")
    route, where = words.name("side_output")
    if route.lower() != "side_output":
        raise LaminarError(
            "LMR0009",
            f'late data cannot go to "{route}"',
            where=where,
            hint="Write LATE DATA TO side_output, or a route per kind: WITH (side_output.late = 'metrics_only').",
        )
    return replace(clauses, late_data="side_output")


# --- EMIT ----------------------------------------------------------------------------------------------------

_STRATEGIES: tuple[tuple[tuple[str, ...], EmitPolicy], ...] = (
    (("ON", "WATERMARK"), emit.ON_WATERMARK),
    (("AFTER", "WATERMARK"), emit.ON_WATERMARK),
    (("ON", "UPDATE"), emit.ON_UPDATE),
    (("EVERY",), emit.EVERY),
    (("ON", "WINDOW", "CLOSE"), emit.ON_WINDOW_CLOSE),
    (("CHANGES",), emit.CHANGES),
    (("FINAL",), emit.FINAL),
)


def _emission(words: Words, clauses: Clauses) -> Clauses:
    first = words.tokens[words.position - 1]
    for spelling, policy in _STRATEGIES:
        if words.accept(*spelling):
            period = IntervalText(*words.interval()) if policy is emit.EVERY else None
            return replace(clauses, emission=Emission(policy, period, words.since(first)))
    raise _unknown_strategy(words)


def _unknown_strategy(words: Words) -> LaminarError:
    token = words.peek()
    following = words.peek(1)
    written = token.text if token is not None else "nothing"
    if token is not None and token.text.upper() in ("ON", "AFTER") and following is not None:
        written = f"{token.text} {following.text}"
    spellings = [" ".join(spelling) for spelling, _ in _STRATEGIES]
    close = closest(written, spellings)
    listed = ", ".join(emit.EMIT_CLAUSES)
    if token is not None and " " in written and following is not None:
        where = words.span(token.start, following.end + 1)
    else:
        where = words.span_of(token)
    return LaminarError(
        "LMR0010",
        f"EMIT cannot be followed by {written}",
        where=where,
        detail=f"The strategies are {listed}.",
        hint=f"Did you mean EMIT {close}?" if close else None,
    )


# --- WITH ----------------------------------------------------------------------------------------------------


def read_options(words: Words) -> dict[str, OptionValue]:
    """`(name = 'value', group.name = 5, …)`; names in lower case."""
    options: dict[str, OptionValue] = {}
    words.expect("(")
    while True:
        name, where = _option_name(words)
        if name in options:
            raise LaminarError("LMR0302", f'option "{name}" is given twice', where=where)
        words.expect("=")
        options[name] = _option_value(words, name, where)
        if not words.accept(","):
            break
    words.expect(")")
    return options


def _option_name(words: Words) -> tuple[str, Span]:
    first = words.peek()
    name, where = words.name("an option's name")
    while words.accept("."):
        part, _ = words.name("the rest of the option's name")
        name = f"{name}.{part}"
        where = words.since(first) if first is not None else where
    return name.lower(), where


_VALUES = (TokenType.STRING, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE)


def _option_value(words: Words, name: str, name_where: Span) -> OptionValue:
    first = words.peek()
    sign = "-" if words.accept("-") else ""
    token = words.peek()
    if first is None or token is None or token.token_type not in _VALUES:
        raise words.unexpected(f'a value for option "{name}": text in quotes, or a number')
    words.take()
    value = token.text if token.token_type in (TokenType.STRING, TokenType.NUMBER) else token.text.lower()
    return OptionValue(sign + value, name_where, words.since(first))


def _options(words: Words, clauses: Clauses) -> Clauses:
    return replace(clauses, options=read_options(words))


_READERS: Mapping[str, Callable[[Words, Clauses], Clauses]] = {
    "ALLOW": _lateness,
    "GAP": _gap_fill,
    "EMIT": _emission,
    "LATE": _late_data,
    "WITH": _options,
}
