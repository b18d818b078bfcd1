"""What can go wrong with a store, each with a stable code and the way out."""

from __future__ import annotations


class StoreError(Exception):
    """A store that cannot be used as asked: what, why, and what to do."""

    def __init__(self, code: str, problem: str, *, detail: str | None = None, hint: str | None = None) -> None:
        self.code = code
        self.problem = problem
        self.detail = detail
        self.hint = hint
        super().__init__(self.render())

    def render(self) -> str:
        tail = [f"{label}: {text}" for label, text in (("detail", self.detail), ("hint", self.hint)) if text]
        head = f"{self.problem} [{self.code}]"
        return "\n\n".join([head, "\n".join(tail)]) if tail else head


class StoreBusyError(StoreError):
    """Another run writes this store: this one must stop, and has left no trace in any table."""
