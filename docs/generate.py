"""Writes the reference pages that follow from the code: `python docs/generate.py`. A test compares them with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from laminar_dagster.cli.app import app
from laminar_dagster.semantics import types as t
from laminar_dagster.semantics.aggregates import AGGREGATES, Aggregate, Kernel
from laminar_dagster.semantics.types import DataType

REFERENCE = Path(__file__).parent / "reference"
NOTE = "<!-- Written by docs/generate.py; `python docs/generate.py` writes it anew. -->"

NUMBERS = (t.INT, t.BIGINT, t.decimal(10, 2), t.DOUBLE)
SHOWN: dict[str, tuple[DataType | None, ...]] = {
    "count": (None,),
    "sum": NUMBERS,
    "avg": NUMBERS,
    "min": (t.BIGINT, t.STRING),
    "max": (t.BIGINT, t.STRING),
}
RETRACTION = {
    "weight": "yes, by weight",
    "value": "yes, with a count per value",
    "none": "no",
}


# --- aggregates ------------------------------------------------------------------------------------------------


ABOUT_AGGREGATES = """\
An aggregate is three Spark expressions: how rows become a partial, how partials merge, and how the merged partial
becomes a result. An epoch writes partials; a window that closes merges and finishes them. The table is
[`semantics/aggregates.py`](../../laminar_dagster/semantics/aggregates.py).

All of them follow SQL's rules for NULL: `COUNT(x)` counts values that are not NULL, the others skip NULLs and are NULL
over no value. `FILTER (WHERE …)` works on each. A result that does not fit its type is not emitted: its group gets one
entry in the [side output](side-output.md)."""


def aggregates_page() -> str:
    wired = [aggregate for aggregate in AGGREGATES.values() if aggregate.wired]
    later = [aggregate for aggregate in AGGREGATES.values() if not aggregate.wired]
    parts = [
        "# Aggregates",
        NOTE,
        ABOUT_AGGREGATES,
        "## What works",
        *(_aggregate_section(aggregate) for aggregate in wired),
        "## Part of the language, not wired yet",
        "A view that uses one of these is refused with [LMR0907](errors.md#lmr0907).",
        _rows(("aggregate", "meaning"), [(f"`{a.name.upper()}`", a.summary) for a in later]),
    ]
    return "\n\n".join(parts) + "\n"


def _aggregate_section(aggregate: Aggregate) -> str:
    kernels = [aggregate.kernel(type_) for type_ in SHOWN[aggregate.name]]
    header = ("argument", "result", "partial columns", "finish", "does not fit when")
    retraction = RETRACTION[kernels[0].retraction]
    return "\n\n".join(
        [
            f"### {aggregate.name.upper()}",
            f"{aggregate.summary[0].upper()}{aggregate.summary[1:]}. Can take a retraction: {retraction}.",
            _rows(header, [_kernel_row(kernel) for kernel in kernels]),
        ]
    )


def _kernel_row(kernel: Kernel) -> tuple[str, ...]:
    names = {partial.name: partial.name for partial in kernel.partials}
    partials = "<br>".join(
        f"`{p.name}` = `{p.make.format(x='x')}`, merged by `{p.merge.format(p=p.name, **names)}`"
        for p in kernel.partials
    )
    overflow = "–" if kernel.overflow is None else f"`{kernel.overflow.format(**names)}`"
    argument = "any, or `*`" if kernel.argument is None else str(kernel.argument)
    return argument, str(kernel.result), partials, f"`{kernel.finish.format(**names)}`", overflow


def _rows(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


# --- command line ----------------------------------------------------------------------------------------------


ABOUT_THE_COMMAND_LINE = """\
`laminar` is in the environment that the package is installed in; after `make setup` that is `.venv/bin/laminar`.
Errors go to standard error, in the form that [errors.md](errors.md) explains, with exit code 1; a command line that
cannot be read ends with exit code 2.

Commands that only look (`show`, `state`, `explain`) read Delta directly: they need no Java, take no lock and may run
while a view is being run."""


def cli_page() -> str:
    # Typer's own classes, which may or may not be click's: only what both have is used.
    command: Any = typer.main.get_command(app)
    parts = ["# Command line", NOTE, ABOUT_THE_COMMAND_LINE, *_command_sections("laminar", command)]
    return "\n\n".join(parts) + "\n"


def _command_sections(name: str, command: Any) -> Iterator[str]:
    children: dict[str, Any] = getattr(command, "commands", {})
    yield _command_section(name, command)
    for child_name, child in children.items():
        yield from _command_sections(f"{name} {child_name}", child)


def _command_section(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join([name, *(["[OPTIONS]"] if options else []), *map(_argument_name, arguments)])
    if getattr(command, "commands", None):
        usage += " COMMAND …"
    parts = [f"## `{name}`", " ".join((command.help or "").split()), f"```\n{usage}\n```"]
    if arguments:
        parts.append(_rows(("argument", "meaning"), [(f"`{_argument_name(a)}`", a.help or "") for a in arguments]))
    if options:
        parts.append(_rows(("option", "default", "meaning"), [_option_row(option) for option in options]))
    return "\n\n".join(parts)


def _argument_name(argument: Any) -> str:
    name = str(argument.name).upper() + ("…" if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _option_row(option: Any) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    choices = type(option.default) if isinstance(option.default, Enum) else ()
    shown = " One of: " + ", ".join(f"`{_text(c)}`" for c in choices) + "." if choices else ""
    return names, _default(option), f"{option.help or ''}{shown}"


def _default(option: Any) -> str:
    if option.default is None or option.is_flag:
        return ""
    return f"`{_text(option.default)}`"


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))


# --- all of them -----------------------------------------------------------------------------------------------

PAGES: dict[str, Callable[[], str]] = {"aggregates.md": aggregates_page, "cli.md": cli_page}


def main() -> None:
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
        sys.stderr.write(f"wrote {REFERENCE / name}\n")


if __name__ == "__main__":
    main()
