"""A project on disk: where the `.sql` files are, where the data goes, and the plans that follow from them.

`laminar.toml` is optional; without it the SQL is in `assets/sql` or `sql`, and the data goes to `data`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from laminar_dagster.engine.project_root import CONFIG, place_of, sql_files, sql_folder
from laminar_dagster.engine.session import UNREACHABLE, SparkSettings
from laminar_dagster.engine.sources.schemas import schema_of
from laminar_dagster.errors import LaminarError, did_you_mean
from laminar_dagster.plan.build import Planned, plan_each
from laminar_dagster.plan.plan import Plan
from laminar_dagster.semantics.time import parse_interval
from laminar_dagster.sql.configuration import DEFAULTABLE, DEFAULTS, TABLES, Configuration, read_configuration
from laminar_dagster.sql.local_paths import require_local
from laminar_dagster.sql.statements import Script, parse_script
from laminar_dagster.sql.toml_places import places
from state_store import MaintenancePolicy

TIMES = ("retain_state", "retain_results")
NUMBERS = ("retain_epochs",)
PATHS = ("sql", "data")
KEYS = (*PATHS, "spark", "spark_unreachable", *NUMBERS, *TIMES)
_IN_QUOTES = 'Beside side_output.late = "…" write "side_output.late.include_original" = false, the name in quotes.'
NAMES_KAFKA = re.compile(r"""connector\s*=\s*['"]kafka['"]|['"]kafka:""", re.IGNORECASE)


@dataclass(frozen=True)
class Project:
    """`text` is SQL that stands in for the files of the folder `sql`."""

    root: Path
    sql: Path
    data: Path
    spark: str | None = None
    spark_unreachable: str | None = None
    maintenance: MaintenancePolicy = field(default_factory=MaintenancePolicy)
    configuration: Configuration = field(default_factory=Configuration)
    text: str | None = None

    @staticmethod
    def find(start: Path | None = None, data: Path | None = None) -> Project:
        """The project that a directory, a folder of `.sql` files or one such file belongs to (project_root.py)."""
        if data is not None:
            require_local("the data directory", data)
        place = place_of(start)
        root = place.root
        settings, configuration = _settings(root / CONFIG)
        return Project(
            root,
            place.sql or (root / settings["sql"] if "sql" in settings else sql_folder(root)),
            data.resolve() if data else root / settings.get("data", "data"),
            settings.get("spark"),
            settings.get("spark_unreachable"),
            _maintenance(settings),
            configuration,
        )

    def plans(self) -> tuple[Plan, ...]:
        """Every view of the project, planned, in dependency order; the first error where one is refused."""
        found = self.planned()
        for errors in found.refused.values():
            raise errors[0]
        return found.plans

    def planned(self) -> Planned:
        """The views that can run, whatever is wrong with the others. All files see each other's sources."""
        script = Script((), ()) if self.text is None else parse_script(self.text)
        unread: dict[str, list[LaminarError]] = {}
        for file in self._files() if self.text is None else ():
            name = _shown(file, self.root)
            try:
                script += parse_script(_text_of(file, name), name)
            except LaminarError as error:
                unread[name] = [error]
        found = plan_each(
            script, schema_of=lambda source: schema_of(source, self.root), configuration=self.configuration
        )
        return replace(found, refused={**unread, **found.refused})

    def plan(self, view: str, planned: Planned | None = None) -> Plan:
        """The plan of one view, whatever is wrong with the others; `planned`: where all are planned already."""
        found = planned or self.planned()
        plans = {plan.query.view: plan for plan in found.plans}
        for error in found.refused.get(view, ()) if view not in plans else ():
            raise error
        if view not in plans:
            unread = next(iter(found.refused.values()), None)
            raise LaminarError(
                "LMR0701",
                f'there is no view "{view}" in this project',
                detail=f"looked in {self.sql}" + (f"\nwhere {unread[0].problem}" if unread else ""),
                hint=did_you_mean(view, [*plans, *found.refused]),
            )
        return plans[view]

    def spark_settings(self, spark: str | None = None) -> SparkSettings:
        """Which Spark: the one asked for, else the environment's, else laminar.toml's, else in process."""
        chosen = replace(SparkSettings.from_environment(), bundles=self.bundles())
        if self.spark_unreachable and not os.environ.get("LAMINAR_SPARK_UNREACHABLE"):
            chosen = replace(chosen, unreachable=self.spark_unreachable)
        wanted = spark or (None if os.environ.get("LAMINAR_SPARK") else self.spark)
        return replace(chosen, spark=wanted) if wanted else chosen

    def bundles(self) -> tuple[str, ...]:
        """The jars that Spark is started with: Kafka's only where the SQL or laminar.toml names it."""
        files = (file.read_text(encoding="utf-8", errors="replace") for file in sql_files(self.sql))
        texts = (*(files if self.text is None else (self.text,)), self.configuration.places.text)
        return ("delta", "kafka") if any(NAMES_KAFKA.search(text) for text in texts) else ("delta",)

    def store(self, view: str) -> Path:
        return self.data / view

    def _files(self) -> list[Path]:
        files = sql_files(self.sql)
        if not files:
            raise LaminarError(
                "LMR0702",
                f"there is no .sql file in {self.sql}",
                detail=f"the project is {self.root}, {_why(self.root)}",
                hint="Write a view there (docs/tutorial/first-view.md), say where the SQL is in laminar.toml, or where "
                "the project is by --project.",
            )
        return files


def _text_of(file: Path, name: str) -> str:
    """A byte order mark, as some editors write one, is no part of the text."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as problem:
        raise LaminarError(
            "LMR0715",
            f"{name} is not UTF-8",
            detail=f"byte {problem.start} is 0x{problem.object[problem.start]:02x}",
            hint="Save the file as UTF-8.",
        ) from None


def _why(root: Path) -> str:
    return f"which has a {CONFIG}" if (root / CONFIG).is_file() else f"as there is no {CONFIG} above"


def _shown(file: Path, root: Path) -> str:
    return str(file.relative_to(root)) if file.is_relative_to(root) else str(file)


def _settings(path: Path) -> tuple[dict[str, Any], Configuration]:
    """What stands at the top of laminar.toml, and its tables."""
    if not path.exists():
        return {}, Configuration()
    text = path.read_text(encoding="utf-8")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        hint = _IN_QUOTES if "include_original" in text else None
        raise LaminarError("LMR0703", f"{path.name} is not valid TOML", detail=str(problem), hint=hint) from problem
    for key, value in content.items():
        if key not in TABLES:
            _check(key, value, path.name)
    found = places(text, path.name)
    for key in PATHS:
        require_local(f'setting "{key}"', content.get(key, ""), found.of((key,))[1])
    return content, read_configuration(content, text, path.name)


def _check(key: str, value: Any, file: str) -> None:
    if key not in KEYS:
        raise LaminarError(
            "LMR0704",
            f'unknown {"table" if isinstance(value, dict) else "setting"} "{key}" in {file}',
            hint=_meant(key),
        )
    if key in NUMBERS and not (type(value) is int and value >= 1):
        raise _unfit(key, "a number, 1 or more")
    if key not in NUMBERS and not isinstance(value, str):
        raise _unfit(key, "a string")
    if key == "spark_unreachable" and value not in UNREACHABLE:
        raise _unfit(key, f"one of {', '.join(UNREACHABLE)}", hint=did_you_mean(value, UNREACHABLE))


def _meant(key: str) -> str | None:
    """An option that stands at the top belongs into a table."""
    if key in (option.name for option in DEFAULTABLE):
        return f"It is an option of sources or views: write it below [{DEFAULTS}], [sources.NAME] or [views.NAME]."
    return did_you_mean(key, (*KEYS, *TABLES))


def _maintenance(settings: Mapping[str, Any]) -> MaintenancePolicy:
    chosen: dict[str, Any] = {key: settings[key] for key in NUMBERS if key in settings}
    chosen |= {key: _length(key, settings[key]) for key in TIMES if key in settings}
    return replace(MaintenancePolicy(), **chosen)


def _length(key: str, text: str) -> timedelta:
    try:
        length = parse_interval(text)
    except ValueError:
        raise _unfit(key, 'a length of time, like "1 hour" or "7 days"') from None
    if length.months or length.micros < 0:
        raise _unfit(key, 'a length of time in units no longer than weeks, like "7 days"')
    return timedelta(microseconds=length.micros)


def _unfit(key: str, wanted: str, hint: str | None = None) -> LaminarError:
    return LaminarError("LMR0705", f'setting "{key}" in {CONFIG} must be {wanted}', hint=hint)
