"""`python -m laminar_dagster.cli` is `laminar`."""

from laminar_dagster.cli.app import main

main()
