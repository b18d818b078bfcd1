"""What a sink makes of a view's EMIT, in every combination: a strategy and its reason in explain, or a refusal."""

from __future__ import annotations

import pytest

from laminar_dagster.errors import LaminarError
from laminar_dagster.plan.build import plan_script
from laminar_dagster.plan.explain import explain

EV = "CREATE SOURCE ev (k STRING, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory');"
FROM = {
    "windowed": "FROM TUMBLE(ev, ts, INTERVAL '1' MINUTE) GROUP BY window_start, window_end, k",
    "windowless": "FROM ev GROUP BY k",
}
SINKS = (None, "append", "upsert", "changelog")
WRITTEN = (
    "ON WATERMARK",
    "AFTER WATERMARK",
    "ON UPDATE",
    "EVERY INTERVAL '1' MINUTE",
    "CHANGES",
    "ON WINDOW CLOSE",
    "FINAL",
)
APPEND_ONLY = ("ON WINDOW CLOSE", "FINAL")
WITHOUT_A_WINDOW = ("ON UPDATE", "EVERY INTERVAL '1' MINUTE", "CHANGES")
TAKEN = {None: WRITTEN, "append": APPEND_ONLY, "upsert": WRITTEN, "changelog": ("CHANGES", *APPEND_ONLY)}
NO_EMIT = "since the view says no EMIT"
CHOSEN = {
    ("windowed", None): ("ON WATERMARK", f"the default with a window, {NO_EMIT}"),
    ("windowed", "append"): ("ON WINDOW CLOSE", f"chosen because the sink is append-only, {NO_EMIT}"),
    ("windowed", "upsert"): ("ON WATERMARK", f"the default with a window, {NO_EMIT}"),
    ("windowed", "changelog"): ("CHANGES", f"chosen because the sink is a changelog, {NO_EMIT}"),
    ("windowless", None): ("CHANGES", f"the default without a window, {NO_EMIT}"),
    ("windowless", "upsert"): ("CHANGES", f"the default without a window, {NO_EMIT}"),
    ("windowless", "changelog"): ("CHANGES", f"chosen because the sink is a changelog, {NO_EMIT}"),
}  # fmt: skip


def explained(shape: str, emit: str | None, sink: str | None) -> list[str]:
    clause = "" if emit is None else f"EMIT {emit}"
    option = "" if sink is None else f"WITH (sink = '{sink}')"
    view = f"CREATE MATERIALIZED VIEW out AS SELECT k, COUNT(*) AS n {FROM[shape]} {clause} {option}"
    return explain(plan_script(EV + view)[-1]).splitlines()


def emit_of(lines: list[str]) -> tuple[str, str]:
    """The strategy and the line below it."""
    place = next(i for i, line in enumerate(lines) if line.startswith("├─ emit "))
    return lines[place].removeprefix("├─ emit ").partition(":")[0], lines[place + 1].removeprefix("│  ├─ ")


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("emit", WRITTEN)
@pytest.mark.parametrize("shape", FROM)
def test_an_emit_that_is_written_stands_or_is_refused(shape: str, emit: str, sink: str | None) -> None:
    if shape == "windowless" and emit not in WITHOUT_A_WINDOW:
        with pytest.raises(LaminarError, match="needs a window") as refused:
            explained(shape, emit, sink)
        assert refused.value.code == "LMR0210"
    elif emit not in TAKEN[sink]:
        with pytest.raises(LaminarError, match=f"sink '{sink}' cannot take EMIT") as refused:
            explained(shape, emit, sink)
        assert refused.value.code == "LMR0211"
        assert "sink = 'upsert'" in (refused.value.hint or "")
    else:
        strategy = emit.replace("AFTER", "ON").replace("INTERVAL '1' MINUTE", "1 minute")
        assert emit_of(explained(shape, emit, sink)) == (strategy, "as written")


@pytest.mark.parametrize(("shape", "sink"), CHOSEN)
def test_without_emit_the_sink_decides_or_the_window(shape: str, sink: str | None) -> None:
    assert emit_of(explained(shape, None, sink)) == CHOSEN[shape, sink]


def test_an_append_sink_of_groups_without_a_window_is_refused_with_the_sink_as_the_reason() -> None:
    with pytest.raises(LaminarError, match="ON WINDOW CLOSE, which the append sink asks for, needs a window"):
        explained("windowless", None, "append")


@pytest.mark.parametrize("emit", [None, "FINAL"])
def test_the_remedy_for_an_append_sink_without_a_window_is_one_that_the_next_rule_accepts(emit: str | None) -> None:
    with pytest.raises(LaminarError) as refused:
        explained("windowless", emit, "append")
    assert "EMIT CHANGES with sink = 'upsert'" in (refused.value.hint or "")
    assert emit_of(explained("windowless", "CHANGES", "upsert")) == ("CHANGES", "as written")


UPSERTS = ("connector = 'delta', path = 'out'", "connector = 'kafka', brokers = 'b:9092', topic = 't'")


@pytest.mark.parametrize("target", UPSERTS)
@pytest.mark.parametrize("emit", WRITTEN)
def test_a_target_of_upserts_takes_any_strategy(emit: str, target: str) -> None:
    view = f"CREATE MATERIALIZED VIEW out AS SELECT window_start, k, COUNT(*) AS n {FROM['windowed']} EMIT {emit};"
    sink = f"CREATE SINK current FROM out WITH ({target}, mode = 'upsert');"
    alone, delivered = (plan_script(EV + view + more)[-1].query for more in ("", sink))
    assert delivered.emit == alone.emit
    assert [(found.name, found.mode) for found in delivered.sinks] == [("current", "upsert")]
