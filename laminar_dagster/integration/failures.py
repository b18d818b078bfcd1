"""Turns this project's errors into Dagster's, with their whole text: the run page is where people read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from laminar_dagster.errors import LaminarError
from state_store import StoreError


@contextmanager
def shown_in_dagster() -> Iterator[None]:
    """A known error ends the run and is not retried: the same input would fail the same way.

    What nobody foresaw goes on as it is: Dagster shows its traceback, and the steps of other views run.
    """
    try:
        yield
    except (LaminarError, StoreError) as error:
        raise failure_of(error) from error


def failure_of(error: LaminarError | StoreError) -> dg.Failure:
    return dg.Failure(description=error.render(), metadata={"code": error.code}, allow_retries=False)
