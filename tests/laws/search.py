"""`make laws`: search for counterexamples to all laws, within a budget of time.

BUDGET=20m make laws, and for one law: make laws ARGS='-k first_rows'.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys

UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds_of(budget: str) -> float:
    """`90s`, `30m`, `1.5h`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", budget.strip())
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{budget!r} is no time; give it as 90s, 30m or 1h")
    return float(found[1]) * UNITS[found[2]]


def main() -> int:
    parser = argparse.ArgumentParser(description="Search for counterexamples to the laws of the tests.")
    parser.add_argument("--budget", type=seconds_of, default="1h", help="how long: 90s, 30m, 1h")
    parser.add_argument("--workers", default="2", help="how many processes, each with a JVM")
    chosen, more = parser.parse_known_args()
    command = [sys.executable, "-m", "pytest", "-m", "hypothesis", "-v", "--timeout=0", "--tb=short"]
    # Laws are handed out one by one: each of them takes its share of the time, whatever it does.
    spread = ["-n", chosen.workers, "--dist", "worksteal"] if chosen.workers != "0" else []
    environment = {**os.environ, "LAMINAR_LAWS_SECONDS": str(chosen.budget)}
    return subprocess.run([*command, *spread, *more], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
