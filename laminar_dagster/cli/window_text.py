"""The account of a window, as a tree for people and as data for machines."""

from __future__ import annotations

from typing import Any

from laminar_dagster.cli.values import lasting, plain_row, shown_row
from laminar_dagster.engine.window_account import Emission, Waiting, WindowAccount
from laminar_dagster.engine.window_evidence import Turn
from laminar_dagster.plan.explain import Node, tree_lines
from laminar_dagster.semantics.time import SECOND, to_iso


def as_text(view: str, epoch: int, account: WindowAccount) -> str:
    window = account.window
    of = "".join(f", {name} = {value}" for name, value in account.keys.items())
    parts = [Node(_standing(account)), *_opening(account)]
    parts.append(Node("shards", [Node(_shard(waiting, account.is_open)) for waiting in account.shards]))
    aside = ", ".join(f"{count} {kind} ({reason})" for (kind, reason), count in account.aside.items())
    parts.append(Node(f"set aside: {aside or 'nothing'}"))
    emissions = [Node(_emission(emission)) for emission in account.emissions]
    parts.append(Node("emissions" if emissions else "emissions: none", emissions))
    if account.rows:
        parts.append(Node("rows", [Node(shown_row(row)) for row in account.rows]))
    parts += [Node(note) for note in account.notes]
    title = f"{view}: window {to_iso(window.start)} to {to_iso(window.end)}{of}, as of epoch {epoch}"
    return "\n".join(tree_lines(Node(title, parts)))


def _standing(account: WindowAccount) -> str:
    """Open or closed, and by which watermark."""
    if account.closed is not None:
        turn = account.closed
        moved = f"from {_time(turn.before)} to {_time(turn.after)}"
        return f"closed in epoch {turn.epoch}: the watermark went {moved}, and {to_iso(account.deadline)} closes it"
    if account.watermark is None or account.missing is None:
        return f"open: the watermark is not known yet, and {to_iso(account.deadline)} closes it"
    needed = f"at {to_iso(account.watermark)}, and {to_iso(account.deadline)} closes it"
    return f"open: the watermark is {needed}; {lasting(account.missing)} of event time are missing"


def _opening(account: WindowAccount) -> list[Node]:
    """When its first row came, and what the state has of it."""
    if not account.is_open:
        return []
    held = account.held
    if held.partials == 0:
        return [Node("in the state: nothing")]
    opened = [] if account.opened_in is None else [Node(f"opened in epoch {account.opened_in}")]
    updated = Node(f"last updated at {_time(held.updated_at)}")
    return [
        *opened,
        updated,
        Node(f"in the state: {held.groups} group(s), {held.rows} row(s), {held.partials} partial(s)"),
    ]


def _shard(waiting: Waiting, is_open: bool) -> str:
    standing = waiting.standing
    parts = [f"{standing.shard}: watermark {_time(standing.watermark)}"]
    if standing.is_idle:
        parts.append("idle, does not count")
    if standing.holds_back and is_open:
        parts.append("holds the view's watermark back")
    if waiting.needs is not None:
        idle = "" if standing.idle_from is None else f", or none until {to_iso(standing.idle_from)} by the clock"
        parts.append(f"needs a row of {to_iso(waiting.needs)} or later{idle}")
    return "; ".join(parts)


def _emission(emission: Emission) -> str:
    turn = emission.turn
    operations = ", ".join(f"{count} {operation}" for operation, count in emission.operations.items())
    moved = f"watermark {_time(turn.before)} to {_time(turn.after)}"
    return f"epoch {turn.epoch} at {to_iso(turn.processing_time)}: {operations}; {emission.reason} ({moved})"


def as_data(account: WindowAccount) -> dict[str, Any]:
    held = account.held
    return {
        "window_start": to_iso(account.window.start),
        "window_end": to_iso(account.window.end),
        "keys": dict(account.keys),
        "open": account.is_open,
        "closes_at_watermark": to_iso(account.deadline),
        "watermark": _known(account.watermark),
        "missing_seconds": None if account.missing is None else account.missing / SECOND,
        "opened_in_epoch": account.opened_in,
        "closed": None if account.closed is None else _turn(account.closed),
        "groups": held.groups,
        "rows": held.rows,
        "partials": held.partials,
        "updated_at": _known(held.updated_at),
        "shards": [_shard_data(waiting) for waiting in account.shards],
        "set_aside": [{"kind": kind, "reason": why, "rows": n} for (kind, why), n in account.aside.items()],
        "emissions": [
            {**_turn(emission.turn), "reason": emission.reason, "operations": dict(emission.operations)}
            for emission in account.emissions
        ],
        "emitted_rows": [plain_row(row) for row in account.rows],
        "notes": list(account.notes),
    }


def _shard_data(waiting: Waiting) -> dict[str, Any]:
    standing = waiting.standing
    return {
        "shard": standing.shard,
        "watermark": _known(standing.watermark),
        "idle": standing.is_idle,
        "idle_from": _known(standing.idle_from),
        "holds_back": standing.holds_back,
        "needs_event_time": _known(waiting.needs),
    }


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "epoch": turn.epoch,
        "processing_time": to_iso(turn.processing_time),
        "watermark_before": _known(turn.before),
        "watermark_after": _known(turn.after),
    }


def _known(micros: int | None) -> str | None:
    return None if micros is None else to_iso(micros)


def _time(micros: int | None) -> str:
    return "unknown" if micros is None else to_iso(micros)
