"""Two Airflow DAGs over a laminar project: one that ticks its views, one that backfills a stretch of event time.

Copy it into your DAGs folder and set PROJECT. It is written for Airflow 3. Airflow and laminar need not share an
environment: where `laminar` is not on the worker's PATH, write its path in front.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

PROJECT = "/srv/shop"
BACKFILL = "laminar backfill sales_per_minute --from {{ params.since }} --to {{ params.to }}"

with DAG(
    dag_id="shop_tick",
    description="Takes what is new, closes the windows that are due, and stops.",
    schedule="*/5 * * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    # A tick takes all that waits: ticks that were missed need no run of their own.
    catchup=False,
    # A second run of a view stops at once and changes nothing (LMR0402); this spares Airflow the failure.
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=1),
    # What is committed stays so, and what was begun is finished by the next run: to try again is safe.
    default_args={"retries": 1, "retry_delay": timedelta(minutes=1)},
    tags=["laminar"],
):
    minutes = BashOperator(task_id="sales_per_minute", bash_command="laminar run sales_per_minute --json", cwd=PROJECT)
    hours = BashOperator(task_id="sales_per_hour", bash_command="laminar run sales_per_hour --json", cwd=PROJECT)
    minutes >> hours

with DAG(
    dag_id="shop_backfill",
    description="Computes the windows of a stretch of event time anew, and publishes the corrections.",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    max_active_runs=1,
    params={"since": "2026-01-05", "to": "2026-01-06"},
    tags=["laminar"],
):
    preview = BashOperator(task_id="what_would_change", bash_command=f"{BACKFILL} --dry-run", cwd=PROJECT)
    correct = BashOperator(task_id="sales_per_minute", bash_command=BACKFILL, cwd=PROJECT)
    # Views that read it take the corrections with their next tick.
    hours = BashOperator(task_id="sales_per_hour", bash_command="laminar run sales_per_hour", cwd=PROJECT)
    preview >> correct >> hours
