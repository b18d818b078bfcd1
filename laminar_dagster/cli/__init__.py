"""The `laminar` command. Commands that only look need no JVM and answer in about a second."""

from __future__ import annotations

from laminar_dagster.cli.app import main

__all__ = ["main"]
