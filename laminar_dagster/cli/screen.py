"""Where commands that only look print to: a limit is for the screen, and a reader may leave before all is said."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import typer
from rich.console import Console

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Screen(Console):
    """rich would end the program with code 1 when nobody reads any more."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def until_nobody_reads(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The command, ended without an error when what it is piped into wants no more, as `| head` does."""

    @wraps(command)
    def run(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        try:
            try:
                return command(*arguments, **options)
            finally:
                sys.stdout.flush()
        except BrokenPipeError as left:
            _print_no_more()
            ended = left.__context__
            raise ended if isinstance(ended, typer.Exit) else typer.Exit(0) from None

    return run


def _print_no_more() -> None:
    """What is still buffered would fail once more when Python ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def limit_for(limit: int | None, *, on_screen: bool, default: int) -> int | None:
    """The limit that was asked for; else the default for a table that people read, and none for data."""
    return default if limit is None and on_screen else limit


def tell_cut(what: str, shown: int, total: int | None, things: str) -> None:
    """Say, where it does not get among the data, that a limit left something out. `total`: where it is known."""
    of = "" if total is None else f" of {total}"
    typer.echo(f"{what}: cut after {shown}{of} {things}; --limit shows more", err=True)
