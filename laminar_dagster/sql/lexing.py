"""A cursor over a file's words: the hand-written half of the grammar reads through it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from laminar_dagster.errors import LaminarError, Span, did_you_mean, nearest
from laminar_dagster.sql.dialect import interval_end, interval_parts, tokenize

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)


def is_word(token: Token) -> bool:
    """A name or a keyword, not quoted."""
    return (
        token.token_type != TokenType.STRING and token.text.replace("_", "a").isalnum() and not token.text[0].isdigit()
    )


class Words:
    """Tokens, a position, and the text they came from."""

    def __init__(self, text: str, file: str | None = None) -> None:
        self.text = text
        self.file = file
        self.tokens = tokenize(text, file)
        self.position = 0

    # --- looking ---------------------------------------------------------------------------------------------

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else None

    def peek_type(self) -> TokenType | None:
        token = self.peek()
        return token.token_type if token is not None else None

    def sees(self, *words: str) -> bool:
        """Whether these words come next. Quoted text is never a keyword."""
        for ahead, word in enumerate(words):
            token = self.peek(ahead)
            if token is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
                return False
            if token.text.upper() != word:
                return False
        return True

    def span(self, start: int, end: int) -> Span:
        return Span(self.text, start, end, self.file)

    def span_of(self, token: Token | None) -> Span:
        if token is None:
            end = len(self.text.rstrip())
            return self.span(max(end - 1, 0), max(end, 1))
        return self.span(token.start, token.end + 1)

    def since(self, first: Token) -> Span:
        """From `first` to the word read last."""
        return self.span(first.start, self.tokens[max(self.position - 1, 0)].end + 1)

    # --- taking ----------------------------------------------------------------------------------------------

    def take(self) -> Token:
        token = self.peek()
        if token is None:
            raise self.unexpected("more text")
        self.position += 1
        return token

    def accept(self, *words: str) -> bool:
        if not self.sees(*words):
            return False
        self.position += len(words)
        return True

    def expect(self, *words: str) -> Token:
        for word in words:
            if not self.accept(word):
                raise self.unexpected(word, [word])
        return self.tokens[self.position - 1]

    def name(self, what: str) -> tuple[str, Span]:
        token = self.peek()
        if token is None or not (token.token_type == TokenType.IDENTIFIER or is_word(token)):
            raise self.unexpected(what)
        self.position += 1
        return token.text, self.span_of(token)

    def string(self, what: str) -> tuple[str, Span]:
        token = self.peek()
        if token is None or token.token_type != TokenType.STRING:
            raise self.unexpected(f"{what} in quotes")
        self.position += 1
        return token.text, self.span_of(token)

    def interval(self) -> tuple[str, str | None, Span]:
        """INTERVAL's text, its unit if that stands outside of the text, and its place."""
        first = self.peek()
        if first is None or not self.sees("INTERVAL"):
            raise self.unexpected("INTERVAL", ["INTERVAL"])
        end = interval_end(self.tokens, self.position)
        if end is None:
            self.position += 1
            raise self.unexpected("an interval's length, as in INTERVAL '10' SECOND")
        amount, unit = interval_parts(self.tokens[self.position : end])
        self.position = end
        return amount, unit, self.since(first)

    def until(self, stop: int) -> Sequence[Token]:
        taken = self.tokens[self.position : stop]
        self.position = stop
        return taken

    def depths(self) -> list[int]:
        """How many parentheses are open before each token from here to the end of the statement."""
        depth, found = 0, []
        for token in self.tokens[self.position :]:
            depth -= token.token_type in _CLOSING
            found.append(depth)
            depth += token.token_type in _OPENING
            if token.token_type == TokenType.SEMICOLON:
                break
        return found

    # --- refusing --------------------------------------------------------------------------------------------

    def unexpected(self, wanted: str, keywords: Sequence[str] = ()) -> LaminarError:
        token = self.peek()
        found = f'"{token.text}"' if token is not None else "the end of the text"
        meant = nearest(token.text, keywords) if token is not None and keywords else None
        return LaminarError(
            "LMR0002",
            f"expected {wanted}, found {found}",
            where=self.span_of(token),
            hint=f"Did you mean {meant}?" if meant and token and meant != token.text.upper() else None,
        )


def closest(word: str, known: Sequence[str]) -> str | None:
    """The keyword of which this word is surely a misspelling: stricter than `nearest`, for a word could be a name."""
    found = difflib.get_close_matches(word.upper(), known, n=1, cutoff=0.75)
    return found[0] if found else None


def unknown(code: str, what: str, name: str, known: Sequence[str], where: Span) -> LaminarError:
    """A name that is not among the known ones."""
    return LaminarError(code, f'unknown {what} "{name}"', where=where, hint=did_you_mean(name, known))
