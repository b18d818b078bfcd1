"""Whether a store was built with the query at hand: what writes state, or reads it by the query, asks here first.

Under another query the same state means something else: with another lateness, a window that is open counts as closed.
"""

from __future__ import annotations

from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.fingerprint import fingerprint
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.query import Query
from laminar_dagster.semantics.time import to_iso
from state_store import CommitRow, PlanRow, StoreReader
from state_store.epochs import Tail


def require_same_query(plan: Plan, built: CommitRow | PlanRow | None, last: CommitRow | None) -> None:
    """Refuse an epoch, committed or planned, of another query. `last`: what is committed."""
    require_fingerprint(fingerprint(plan), plan.query, built, last)


def require_fingerprint(mine: str, query: Query, built: CommitRow | PlanRow | None, last: CommitRow | None) -> None:
    """The same, where the fingerprint is known: the plan as the engine runs it has other columns, and so another."""
    if built is None or built.fingerprint == mine:
        return
    decided = f"; EMIT {query.emit.sql} was chosen for sink {query.emit_for}" if query.emit_for else ""
    raise LaminarError(
        "LMR0405",
        f'view "{query.view}" is not the query that its state was built with',
        detail=f"state: plan {built.fingerprint}; SQL now: plan {mine}{decided}",
        hint="Restore the SQL, give the changed view a new name, or run it in another data directory.",
        committed=standing(last),
    )


def require_same_query_throughout(plan: Plan, tail: Tail) -> None:
    """Refuse a store whose last epoch, or one that was cut short, is of another query."""
    for built in (tail.commit, tail.unfinished):
        require_same_query(plan, built, tail.commit)


def require_store_of(plan: Plan, reader: StoreReader) -> None:
    """Refuse a store of another query; one that is empty is of any."""
    if reader.exists:
        require_same_query_throughout(plan, reader.tail())


def standing(commit: CommitRow | None) -> str:
    if commit is None:
        return "Nothing is committed yet."
    return f"Epoch {commit.epoch} is committed (at {to_iso(commit.written_at)}), and all before it."
