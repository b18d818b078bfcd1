"""Which browser the tests drive: the system's own. playwright brings the wires, and downloads nothing."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def arguments() -> list[str]:
    """As root, which containers often are, Chromium needs to be told that it is alone."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []
