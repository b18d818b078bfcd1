"""Ports of this machine that nobody listens on."""

from __future__ import annotations

import contextlib
import socket

from laminar_dagster.errors import LaminarError


def free_port(wanted: int | None, default: int, *, next_command: str, host: str = "127.0.0.1") -> int:
    """The port that is wanted, or an error if it is taken; without one the default, or any where that is taken."""
    for port in (default, 0) if wanted is None else (wanted,):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            free: int = probe.getsockname()[1]
            return free
    raise LaminarError(
        "LMR0509",
        f"port {wanted} on {host} is taken by another program",
        hint="Choose another port, or none: without one, a free port is found.",
        next_command=next_command,
    )
