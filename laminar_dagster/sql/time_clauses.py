"""What a query says about its own time: WATERMARK(time, lag), and WINDOW kind (lengths) ON time.

Both stand anywhere behind FROM, before or behind other clauses, and are taken out of the words before these are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from laminar_dagster.errors import LaminarError, Span, did_you_mean
from laminar_dagster.sql.clauses import begins_clause
from laminar_dagster.sql.intervals import IntervalText
from laminar_dagster.sql.lexing import Words, closest, is_word
from laminar_dagster.sql.nodes import TimeZone
from laminar_dagster.sql.reading import expression

# The kinds of windows by what people call them, as the functions in FROM are called.
KINDS = {
    "TUMBLING": "TUMBLE", "TUMBLE": "TUMBLE", "HOPPING": "HOP", "HOP": "HOP",
    "CUMULATING": "CUMULATE", "CUMULATE": "CUMULATE", "SESSION": "SESSION",
}  # fmt: skip
# The lengths of each, in the order of its function's arguments; `*` must be there.
LENGTHS = {
    "TUMBLE": ("SIZE*", "OFFSET"),
    "HOP": ("SLIDE*", "SIZE*", "OFFSET"),
    "CUMULATE": ("STEP*", "SIZE*"),
    "SESSION": ("GAP*",),
}
# What may come behind a clause, or ends the expression of ON.
_NEXT_CLAUSES = (
    TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY, TokenType.ORDER_BY, TokenType.LIMIT,
    TokenType.UNION, TokenType.WINDOW,
)  # fmt: skip


@dataclass(frozen=True)
class Watermark:
    """`WATERMARK(time [, lag])` of a query, `WATERMARK FOR time [AS time - lag]` of a source."""

    time: exp.Expr = field(compare=False)
    lag: IntervalText | None
    where: Span


@dataclass(frozen=True)
class WindowClause:
    """`WINDOW kind (lengths) [ON time]`: the function that it stands for, and its lengths as arguments of that."""

    name: str
    lengths: tuple[IntervalText, ...]
    time: exp.Expr | None = field(compare=False)
    where: Span
    zone: TimeZone | None = field(default=None, compare=False)


@dataclass(frozen=True)
class TimeClauses:
    watermark: Watermark | None = None
    window: WindowClause | None = None


def take_time_clauses(words: Words) -> tuple[TimeClauses, Token]:
    """The clauses about time of the statement that begins here, taken out of its words, and its last word."""
    start, last = words.position, words.tokens[-1]
    found = TimeClauses()
    depth = 0
    is_behind_from = words.sees("(")  # a query in parentheses has its FROM inside
    ahead = 0
    while (token := words.peek(ahead)) is not None and token.token_type != TokenType.SEMICOLON:
        last = token
        name = _clause_at(words, ahead)
        if name is not None and depth > 0:
            raise _inside(name, words.span_of(token))
        if name is not None and is_behind_from:
            words.position = start + ahead
            found = _with_clause(words, found, name)
            _require_end(words)
            last = words.tokens[words.position - 1]
            del words.tokens[start + ahead : words.position]
            words.position = start
            continue
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        is_behind_from = is_behind_from or (depth == 0 and token.token_type == TokenType.FROM)
        ahead += 1
    return found, last


def _clause_at(words: Words, ahead: int) -> str | None:
    """Whether a clause about time begins here. `EMIT ON WATERMARK` has the same word, and columns may be called so."""
    token, following, third = (words.peek(ahead + i) for i in range(3))
    before = words.peek(ahead - 1) if ahead else None
    if token is None or following is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return None
    if before is not None and before.text.upper() in ("ON", "AFTER", "."):
        return None
    if token.text.upper() == "WATERMARK" and following.token_type == TokenType.L_PAREN:
        return "WATERMARK"
    is_call = third is not None and third.token_type == TokenType.L_PAREN
    if token.text.upper() != "WINDOW" or not is_word(following) or not is_call:
        return None
    return "WINDOW" if closest(following.text, list(KINDS)) is not None or _has_a_length(words, ahead + 3) else None


def _has_a_length(words: Words, ahead: int) -> bool:
    """Whether parentheses begin as those of a window do: with a length, or the name of one."""
    token, following = words.peek(ahead), words.peek(ahead + 1)
    if token is None or following is None:
        return False
    return "INTERVAL" in (token.text.upper(), following.text.upper()) or token.token_type == TokenType.NUMBER


def _require_end(words: Words) -> None:
    """Behind a clause comes another one, or nothing: what it was cut out of would be read as something else."""
    token = words.peek()
    if token is None or token.token_type in (TokenType.SEMICOLON, *_NEXT_CLAUSES):
        return
    if begins_clause(words, 0) or _clause_at(words, 0) is not None:
        return
    raise LaminarError(
        "LMR0005", f'"{token.text}" is not expected here', where=words.span_of(token),
        hint="WINDOW and WATERMARK(…) are clauses of their own: before WHERE or GROUP BY, or behind the query.",
    )  # fmt: skip


def _inside(name: str, where: Span) -> LaminarError:
    return LaminarError(
        "LMR0013", f"{name} is a clause of the whole query, and cannot stand inside of parentheses", where=where,
        hint="Put it behind the outermost query, or write FROM TUMBLE(source, event_time, INTERVAL '…').",
    )  # fmt: skip


def _with_clause(words: Words, found: TimeClauses, name: str) -> TimeClauses:
    first = words.take()
    earlier = found.watermark if name == "WATERMARK" else found.window
    if earlier is not None:
        where = words.span_of(first)
        raise LaminarError("LMR0007", f"{name} is said twice", where=where, hint="Keep one of the two.")
    if name == "WATERMARK":
        return replace(found, watermark=_watermark(words, first))
    return replace(found, window=_window(words, first))


def _watermark(words: Words, first: Token) -> Watermark:
    words.expect("(")
    time = expression(words, "the event time")
    lag = _length(words) if words.accept(",") else None
    words.expect(")")
    return Watermark(time, lag, words.since(first))


def _window(words: Words, first: Token) -> WindowClause:
    written, where = words.name("the kind of window")
    name = KINDS.get(written.upper())
    if name is None:
        raise LaminarError(
            "LMR0201", f'there is no window "{written}"', where=where,
            hint=did_you_mean(written.upper(), list(KINDS), "There are TUMBLING, HOPPING, CUMULATING and SESSION."),
        )  # fmt: skip
    words.expect("(")
    lengths, zone = _lengths(words, name)
    words.expect(")")
    time = expression(words, "the event time", _ends_time) if words.accept("ON") else None
    return WindowClause(name, lengths, time, words.since(first), zone)


def _ends_time(words: Words, ahead: int) -> bool:
    """Whether a word ends the time behind ON. The first one never does: a column may be called `late`."""
    token = words.peek(ahead)
    if token is None or ahead == 0:
        return False
    return token.token_type in _NEXT_CLAUSES or begins_clause(words, ahead) or _clause_at(words, ahead) is not None


def _lengths(words: Words, name: str) -> tuple[tuple[IntervalText, ...], TimeZone | None]:
    """The lengths under their names, and the TIME ZONE; a length that is needed alone may go without its name."""
    known = [length.removesuffix("*") for length in LENGTHS[name]]
    needed = [length.removesuffix("*") for length in LENGTHS[name] if length.endswith("*")]
    given: dict[str, IntervalText] = {}
    zone = None
    while True:
        at = words.peek()
        if zone is None and words.sees("TIME", "ZONE"):
            zone = _zone(words)
            if not words.accept(","):
                break
            continue
        said = _length_name(words, known) or (needed[0] if len(needed) == 1 and not given else None)
        if said is None:
            raise _unnamed(words, needed, known)
        if said in given:
            raise LaminarError("LMR0007", f"{said} is said twice", where=words.span_of(at), hint="Keep one of the two.")
        given[said] = _length(words)
        if not words.accept(","):
            break
    missing = next((length for length in needed if length not in given), None)
    if missing is not None:
        raise LaminarError(
            "LMR0201", f"the window has no {missing}", where=words.span_of(words.peek()),
            hint=f"Write ({', '.join(f'{length} INTERVAL …' for length in needed)}).",
        )  # fmt: skip
    return tuple(given[length] for length in known if length in given), zone


def _zone(words: Words) -> TimeZone:
    first = words.take()
    words.expect("ZONE")
    name, _ = words.string("the time zone")
    return TimeZone(this=exp.Literal.string(name)).at(words.since(first))


def _unnamed(words: Words, needed: list[str], known: list[str]) -> LaminarError:
    """A length without its name, where there are several."""
    refusal = words.unexpected(" or ".join(known), known)
    hint = refusal.hint or f"Each length has its name: ({', '.join(f'{length} INTERVAL …' for length in needed)})."
    return LaminarError(refusal.code, refusal.problem, where=refusal.where, hint=hint)


def _length_name(words: Words, known: list[str]) -> str | None:
    if words.accept("ADVANCE", "BY"):
        return "SLIDE"
    return next((length for length in known if words.accept(length)), None)


def _length(words: Words) -> IntervalText:
    """`INTERVAL '1' MINUTE`, or, as it also is written in a window, `1 MINUTE`."""
    token, unit = words.peek(), words.peek(1)
    if token is not None and token.token_type == TokenType.NUMBER and unit is not None and is_word(unit):
        words.position += 2
        return IntervalText(token.text, unit.text, words.since(token))
    if token is not None and token.token_type == TokenType.STRING:
        raise LaminarError(
            "LMR0002", f"expected INTERVAL, found '{token.text}'", where=words.span_of(token),
            hint=f"Write INTERVAL '{token.text}'.",
        )  # fmt: skip
    return IntervalText(*words.interval())
