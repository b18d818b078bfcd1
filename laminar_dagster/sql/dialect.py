"""Spark's SQL with this project's words: the one place that knows how sqlglot works inside.

Functions are left as the user wrote them: sqlglot's table of functions translates between products, and what
a name means here is decided by `semantics.functions` alone. Every node keeps the piece of text it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from laminar_dagster.errors import LaminarError, Span
from laminar_dagster.sql.nodes import IS_NOT, SPAN, Extract, Plus, TimeZone, TypedLiteral

WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")


class UnreadableError(ParseError):
    """What sqlglot could not read, with the token at which it stopped."""

    def __init__(self, message: str, start: int, end: int) -> None:
        self.problem, self.start, self.end = message, start, end
        super().__init__(message)


def _marking(read: Callable[..., Any]) -> Callable[..., Any]:
    """A clause's reader that keeps the clause's place, keyword included."""

    def reader(parser: LaminarParser) -> Any:
        first = parser._curr
        key, found = read(parser)
        for node in found if isinstance(found, list) else [found]:
            parser._marked(node, first)
        return key, found

    return reader


class LaminarParser(SparkParser):
    """Keeps spans, reads window functions, and never accepts a piece of text that it then forgets."""

    STRICT_CAST: ClassVar[bool] = True
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {"CASE": lambda self: self._parse_case()}
    COLUMN_OPERATORS: ClassVar[dict[TokenType, Callable[..., Any] | None]] = {
        kind: SparkParser.COLUMN_OPERATORS[kind] for kind in (TokenType.DOT, TokenType.DCOLON)
    }
    QUERY_MODIFIER_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        kind: _marking(read) for kind, read in SparkParser.QUERY_MODIFIER_PARSERS.items()
    }
    UNARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: self.expression(Plus(this=self._parse_unary())),
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CAST": lambda self: self._parse_cast(strict=True),
        "TRY_CAST": lambda self: self._parse_cast(strict=False, safe=True),
        "EXTRACT": lambda self: self._parse_extract_part(),
        **{name: lambda self, name=name: self._parse_window_call(name) for name in WINDOW_FUNCTIONS},
    }

    def raise_error(self, message: str, token: Token | None = None) -> None:
        at = token or self._curr or self._prev
        if not at:
            raise UnreadableError(message, 0, 1)
        raise UnreadableError(message, at.start, at.end + 1)

    def _marked(self, node: Any, first: Token) -> Any:
        """The node, with the text from `first` to the token read last."""
        if isinstance(node, exp.Expr) and first and self._prev and self._prev.end >= first.start:
            node.meta.setdefault(SPAN, (first.start, self._prev.end + 1))
        return node

    def _closed(self, node: Any) -> Any:
        """sqlglot takes a missing parenthesis after these for granted."""
        if self._curr.token_type != TokenType.R_PAREN:
            self.raise_error("expected )")
        return node

    def _warn_unsupported(self) -> None:
        """Where sqlglot would keep the text as a command of some product."""
        self.raise_error("Invalid expression / Unexpected token", self._tokens[0])

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        """A list without gaps: sqlglot forgives `a, , b` and `a,`."""
        items = [parse_method()]
        while self._match(sep):
            items.append(parse_method())
        if None in items and len(items) > 1:
            self.raise_error("expected something between two commas", self._prev)
        return [item for item in items if item is not None]

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
        first = self._curr
        return self._marked(super()._parse_function_call(*args, **kwargs), first)

    def _parse_window_call(self, name: str) -> Any:
        first = self._tokens[self._index - 2]
        call = exp.Anonymous(this=name, expressions=self._parse_csv(self._parse_window_argument))
        call.update_positions(first)
        call.meta[SPAN] = (first.start, self._curr.end + 1 if self._curr else self._prev.end + 1)
        return self._closed(call)

    def _parse_window_argument(self) -> Any:
        first = self._curr
        if self._match(TokenType.TABLE):
            return self._marked(self._parse_table(), first)
        if self._match_text_seq("TIME", "ZONE"):
            return self._marked(TimeZone(this=self._parse_string()), first)
        if self._curr.token_type == TokenType.L_PAREN and self._opens_query():
            return self._marked(self._parse_select(table=True), first)
        return self._parse_assignment()

    def _opens_query(self) -> bool:
        index = self._index
        while self._tokens[index].token_type == TokenType.L_PAREN and index + 1 < len(self._tokens):
            index += 1
        return self._tokens[index].token_type in (TokenType.SELECT, TokenType.WITH)

    def _parse_extract_part(self) -> Any:
        """`EXTRACT(YEAR FROM t)` is `year(t)`."""
        part = self._parse_var(any_token=True)
        if not self._match(TokenType.FROM):
            self.raise_error("expected FROM")
        name = part.name.lower() if part else ""
        return self._closed(Extract(this=name, expressions=[self._required()], part=part.name if part else ""))

    def _parse_type(self, *args: Any, **kwargs: Any) -> Any:
        start = self._index
        found = super()._parse_type(*args, **kwargs)
        return _with_typed_literal(found) if begins_typed_literal(self._tokens[start : start + 2]) else found

    def _parse_is(self, this: Any) -> Any:
        is_not = self._curr.token_type == TokenType.NOT
        found = super()._parse_is(this)
        if is_not and isinstance(found, exp.Not):
            found.meta[IS_NOT] = True
        return found

    def _parse_cast(self, strict: bool, safe: bool | None = None) -> Any:
        return self._closed(super()._parse_cast(strict, safe))

    def _required(self) -> Any:
        """An expression, where sqlglot would also take none."""
        found = self._parse_disjunction()
        if found is None:
            self.raise_error("expected an expression")
        return found

    def _parse_case(self) -> Any:
        first = self._prev
        operand = None if self._curr.token_type == TokenType.WHEN else self._required()
        branches = []
        while self._match(TokenType.WHEN):
            condition = self._required()
            if not self._match(TokenType.THEN):
                self.raise_error("expected THEN")
            branches.append(exp.If(this=condition, true=self._required()))
        default = self._required() if self._match(TokenType.ELSE) else None
        if not branches or not self._match(TokenType.END):
            self.raise_error("expected END" if branches else "expected WHEN")
        return self._marked(self.expression(exp.Case(this=operand, ifs=branches, default=default)), first)

    def _parse_interval(self, *_: Any, **__: Any) -> Any:
        first = self._curr
        if not first or first.token_type != TokenType.INTERVAL:
            return None
        end = interval_end(self._tokens, self._index)
        if end is None:
            return None
        amount, unit = interval_parts(self._tokens[self._index : end])
        self._advance(end - self._index)
        node = exp.Interval(this=exp.Literal.string(amount), unit=exp.Var(this=unit) if unit else None)
        return self._marked(node, first)

    def _parse_table(self, *args: Any, **kwargs: Any) -> Any:
        first, index = self._curr, self._index
        if first and first.token_type == TokenType.TABLE and self._next.token_type == TokenType.L_PAREN:
            return self._marked(self._parse_table_of_function(), first)
        node = super()._parse_table(*args, **kwargs)
        if isinstance(node, exp.Table):
            self._refuse_star(self._tokens[index : self._index])
        return self._marked(node, first)

    def _refuse_star(self, tokens: list[Token]) -> None:
        """PostgreSQL's `FROM t *`, which sqlglot takes for nothing."""
        depth = 0
        for token in tokens:
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if depth == 0 and token.token_type == TokenType.STAR:
                self.raise_error("Invalid expression / Unexpected token", token)

    def _parse_table_of_function(self) -> exp.Table:
        """`TABLE(TUMBLE(TABLE src, DESCRIPTOR(t), …))`, the standard's spelling."""
        self._advance(2)
        call = self._parse_function()
        if not isinstance(call, exp.Anonymous):
            self.raise_error("expected a window function")
        self._match_r_paren()
        return exp.Table(this=call, alias=self._parse_table_alias())

    def _parse_select(self, *args: Any, **kwargs: Any) -> Any:
        first = self._curr
        return self._marked(super()._parse_select(*args, **kwargs), first)


def begins_typed_literal(tokens: list[Token]) -> bool:
    """A word and a text, as `DATE '…'`; or a number with its suffix, which comes as two more tokens at its place."""
    if len(tokens) < 2:
        return False
    first, second = tokens
    if first.token_type == TokenType.NUMBER:
        return second.token_type == TokenType.DCOLON and second.start == first.start
    return second.token_type == TokenType.STRING


def _with_typed_literal(found: Any) -> Any:
    """The innermost cast is none: the literal is what the others cast."""
    cast = next((each for each in _casts(found) if isinstance(each.this, exp.Literal)), None)
    if cast is None:
        return found
    typed = TypedLiteral(**cast.args)
    typed.meta.update(cast.meta)
    if cast is found:
        return typed
    cast.replace(typed)
    return found


def _casts(node: Any) -> Iterator[exp.Cast]:
    while isinstance(node, exp.Cast):
        yield node
        node = node.this


def interval_end(tokens: list[Token], start: int) -> int | None:
    """The index behind an INTERVAL that starts at `start`, or None where INTERVAL is just a name."""
    index = start + 1
    if index < len(tokens) and tokens[index].token_type == TokenType.DASH:
        index += 1
    if index >= len(tokens) or tokens[index].token_type not in (TokenType.STRING, TokenType.NUMBER):
        return None
    is_number = tokens[index].token_type == TokenType.NUMBER
    index += 1
    has_unit = index < len(tokens) and _could_be_unit(tokens[index])
    if has_unit and (is_number or _is_plain_number(tokens[index - 1].text)):
        return index + 1
    return index


def _is_plain_number(text: str) -> bool:
    return text.strip().lstrip("+-").isdigit()


def _could_be_unit(token: Token) -> bool:
    return token.text.isalpha() and token.token_type not in _NOT_UNITS


_NOT_UNITS = {
    TokenType.STRING, TokenType.IDENTIFIER, TokenType.ALIAS, TokenType.AND, TokenType.OR, TokenType.THEN,
    TokenType.ELSE, TokenType.END, TokenType.WHEN, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY,
    TokenType.HAVING, TokenType.UNION, TokenType.IN, TokenType.IS, TokenType.BETWEEN, TokenType.WITH,
}  # fmt: skip


def interval_parts(tokens: list[Token]) -> tuple[str, str | None]:
    """INTERVAL's number, or its whole text, and its unit if that stands outside of the text."""
    rest = tokens[1:]
    sign = "-" if rest[0].token_type == TokenType.DASH else ""
    rest = rest[1:] if sign else rest
    unit = rest[1].text if len(rest) > 1 else None
    return sign + rest[0].text, unit


# Words of other statements, which are names here.
_PLAIN_WORDS = {"SESSION", "SESSION_USER", "REFRESH", "CACHE", "UNCACHE", "DECLARE", "SQL SECURITY", "FOREIGN KEY"}


class Laminar(Spark):
    """The dialect: Spark's tokens without its shell commands, and the parser above."""

    class Tokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'"]  # since Spark 4, 'it''s' is one text
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if word not in _PLAIN_WORDS
        }

    Parser = LaminarParser


_DIALECT = Laminar()


def tokenize(text: str, file: str | None = None) -> list[Token]:
    try:
        return _DIALECT.tokenize(text)
    except TokenError:
        start = _unclosed(text)
        raise LaminarError(
            "LMR0001",
            "this text cannot be split into words",
            where=Span(text, start, min(start + 1, len(text)), file),
            hint="Close the quote or the comment that begins here.",
        ) from None


def _unclosed(text: str) -> int:
    """The shortest beginning of the text that cannot be read ends behind its culprit."""
    for mark in ("'", '"', "`", "/*"):
        position = text.rfind(mark)
        while position >= 0:
            if _readable(text[:position]) and not _readable(text[: position + len(mark)]):
                return position
            position = text.rfind(mark, 0, position)
    return 0


def _readable(text: str) -> bool:
    try:
        _DIALECT.tokenize(text)
    except TokenError:
        return False
    return True


# sqlglot reads many products and forgives much: these it would pass over without a word.
_FOREIGN = {
    TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.COLON, TokenType.L_BRACE, TokenType.R_BRACE, TokenType.HASH,
}  # fmt: skip
_ENDS = {TokenType.R_PAREN, TokenType.COMMA, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING}
_NOT_AFTER = {
    TokenType.COMMA: _ENDS,
    TokenType.SELECT: {*_ENDS, TokenType.ALIAS},
    TokenType.FROM: {*_ENDS, TokenType.SELECT, TokenType.DOT, TokenType.ALIAS},
    TokenType.ALIAS: {*_ENDS, TokenType.SELECT, TokenType.STAR},
    TokenType.L_PAREN: {TokenType.ALIAS, TokenType.COMMA, TokenType.FROM, TokenType.PLUS},
    TokenType.WITH: {TokenType.ALIAS},
    TokenType.UNION: {TokenType.FROM},
    TokenType.ALL: {TokenType.FROM, TokenType.STAR},
    TokenType.EXCEPT: {TokenType.FROM},
}


def _refuse_misplaced(tokens: list[Token]) -> None:
    for before, token in zip([None, *tokens], tokens, strict=False):
        misplaced = before is not None and token.token_type in _NOT_AFTER.get(before.token_type, ())
        if misplaced or token.token_type in _FOREIGN:
            raise UnreadableError("Invalid expression / Unexpected token", token.start, token.end + 1)


def parse_query(tokens: list[Token], text: str) -> exp.Expr | None:
    """The query that these tokens say; UnreadableError where they say none."""
    _refuse_misplaced(tokens)
    parser = LaminarParser(error_level=ErrorLevel.IMMEDIATE, dialect=_DIALECT)
    try:
        found = parser.parse(tokens, text)
    except UnreadableError:
        raise
    except ParseError as error:
        raise UnreadableError(str(error).split("\n")[0], tokens[0].start, tokens[-1].end + 1) from None
    return found[0] if len(found) == 1 else None


def parse_expression(tokens: list[Token], text: str) -> exp.Expr:
    """The one expression that these tokens say; UnreadableError where they say none, or more."""
    _refuse_misplaced(tokens)
    parser = LaminarParser(error_level=ErrorLevel.IMMEDIATE, dialect=_DIALECT)
    try:
        (found,) = parser._parse(LaminarParser.EXPRESSION_PARSERS[exp.Condition], tokens, text)
    except UnreadableError:
        raise
    except ParseError as error:
        raise UnreadableError(str(error).split("\n")[0], tokens[0].start, tokens[-1].end + 1) from None
    if found is None:
        raise UnreadableError("expected an expression", tokens[0].start, tokens[-1].end + 1)
    return found


def extent(node: exp.Expr) -> tuple[int, int] | None:
    """From where to where the node stands in the text."""
    own = node.meta.get(SPAN)
    if own:
        return own  # type: ignore[no-any-return]
    found = [piece for child in node.iter_expressions() if (piece := extent(child))]
    if "start" in node.meta and "end" in node.meta:
        found.append((node.meta["start"], node.meta["end"] + 1))
    if not found:
        return None
    return min(start for start, _ in found), max(end for _, end in found)
