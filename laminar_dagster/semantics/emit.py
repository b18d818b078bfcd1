"""When results leave the view: one table of strategies. The engine asks the row, never the strategy's name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Early(Enum):
    """What is emitted before the watermark reaches a window's end."""

    NOTHING = "nothing"
    EACH_EPOCH = "changed results, each epoch"
    EACH_PERIOD = "changed results, once per period of processing time"


@dataclass(frozen=True)
class EmitPolicy:
    """One strategy, as the columns of the table in docs/reference/emit.md."""

    name: str
    sql: str
    early: Early
    at_watermark: bool
    corrects: bool
    at_close: bool
    waits_for_lateness: bool
    append_only: bool
    weights: bool = False

    @property
    def emits_intermediate(self) -> bool:
        return self.early is not Early.NOTHING and not self.weights

    @property
    def requires_changelog(self) -> bool:
        return self.weights

    @property
    def is_append_only_compatible(self) -> bool:
        return self.append_only

    @property
    def generates_retractions(self) -> bool:
        return not self.append_only

    @property
    def needs_window(self) -> bool:
        """Nothing would ever be emitted without a window that the watermark can pass."""
        return self.early is Early.NOTHING

    def lateness(self, allowed: int) -> int:
        """The time after a window's end for which this strategy keeps the window open."""
        return allowed if self.waits_for_lateness else 0


ON_WATERMARK = EmitPolicy(
    "on_watermark", "ON WATERMARK", Early.NOTHING,
    at_watermark=True, corrects=True, at_close=False, waits_for_lateness=True, append_only=False,
)  # fmt: skip
EVERY = EmitPolicy(
    "every", "EVERY", Early.EACH_PERIOD,
    at_watermark=True, corrects=True, at_close=True, waits_for_lateness=True, append_only=False,
)  # fmt: skip
ON_UPDATE = EmitPolicy(
    "on_update", "ON UPDATE", Early.EACH_EPOCH,
    at_watermark=True, corrects=True, at_close=False, waits_for_lateness=True, append_only=False,
)  # fmt: skip
CHANGES = EmitPolicy(
    "changes", "CHANGES", Early.EACH_EPOCH,
    at_watermark=True, corrects=True, at_close=False, waits_for_lateness=True, append_only=False, weights=True,
)  # fmt: skip
ON_WINDOW_CLOSE = EmitPolicy(
    "on_window_close", "ON WINDOW CLOSE", Early.NOTHING,
    at_watermark=False, corrects=False, at_close=True, waits_for_lateness=True, append_only=True,
)  # fmt: skip
FINAL = EmitPolicy(
    "final", "FINAL", Early.NOTHING,
    at_watermark=False, corrects=False, at_close=True, waits_for_lateness=False, append_only=True,
)  # fmt: skip

EMIT_POLICIES = (ON_WATERMARK, ON_UPDATE, EVERY, ON_WINDOW_CLOSE, CHANGES, FINAL)
DEFAULT_WINDOWED = ON_WATERMARK
DEFAULT_UNWINDOWED = CHANGES

EMIT_CLAUSES = (
    "EMIT ON WATERMARK",
    "EMIT AFTER WATERMARK",
    "EMIT ON UPDATE",
    "EMIT EVERY INTERVAL '…'",
    "EMIT ON WINDOW CLOSE",
    "EMIT CHANGES",
    "EMIT FINAL",
)


@dataclass(frozen=True)
class Sink:
    """What a table of results can take, and the strategy it gives to a view that names none, and why."""

    name: str
    accepts: tuple[EmitPolicy, ...]
    default: EmitPolicy | None
    why: str


_APPEND_ONLY = tuple(policy for policy in EMIT_POLICIES if policy.append_only)
SINKS = {
    "append": Sink("append", _APPEND_ONLY, ON_WINDOW_CLOSE, "the sink is append-only"),
    "upsert": Sink("upsert", EMIT_POLICIES, None, "the sink takes any"),
    "changelog": Sink("changelog", (CHANGES, *_APPEND_ONLY), CHANGES, "the sink is a changelog"),
}
