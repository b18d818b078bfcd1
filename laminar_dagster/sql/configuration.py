"""Options from outside of the SQL: the tables [defaults], [sources.NAME] and [views.NAME] of laminar.toml.

They are the options of WITH (…) under the same names, and are read by the same tables. What a view says goes first, in
its SQL, then in [views.NAME]; then its source, in its SQL, then in [sources.NAME]; then [defaults]. [transforms.sql] is
another spelling of [defaults] (see transforms.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from laminar_dagster.errors import LaminarError, Span, did_you_mean
from laminar_dagster.sql import options as o
from laminar_dagster.sql.clauses import OptionValue
from laminar_dagster.sql.statements import Script, SourceStatement, ViewStatement
from laminar_dagster.sql.toml_places import Path, Places, places
from laminar_dagster.sql.transforms import NAMES, TABLE, TRANSFORMS, translated

DEFAULTS = "defaults"
SOURCES = "sources"
VIEWS = "views"
TABLES = (DEFAULTS, SOURCES, VIEWS, TRANSFORMS)
EVENT_TIME, UNIT = "event_time", "event_time_unit"
# What WATERMARK FOR says of its time, so that no table does.
OF_ONE_TIME = (EVENT_TIME, "watermark_lag")
TIMES = frozenset(option.name for option in o.TIME_OPTIONS)
DEFAULTABLE = tuple(option for option in (*o.TIME_OPTIONS, *o.VIEW_OPTIONS) if option.default)

Options = Mapping[str, OptionValue]


@dataclass(frozen=True)
class Configuration:
    """The options of each table; sources and views by their names in lower case."""

    defaults: Options = field(default_factory=dict)
    sources: Mapping[str, Options] = field(default_factory=dict)
    views: Mapping[str, Options] = field(default_factory=dict)
    places: Places = field(default_factory=lambda: places("", ""))

    def applied_to(self, script: Script) -> Script:
        """The script with what its statements leave to the configuration."""
        self._require_names(SOURCES, [s.name for s in script.sources], [v.name for v in script.views])
        self._require_names(VIEWS, [v.name for v in script.views], [s.name for s in script.sources])
        sources = tuple(self._source(statement) for statement in script.sources)
        return replace(script, sources=sources, views=tuple(self._view(statement) for statement in script.views))

    def times_of(self, view: str) -> Options:
        """What [views.NAME] says about the time of whatever the view reads."""
        return {name: option for name, option in self.views.get(view.lower(), {}).items() if name in TIMES}

    def _source(self, statement: SourceStatement) -> SourceStatement:
        """A default event time is not among these: it holds only for sources that have such a column."""
        defaults = {name: option for name, option in self.defaults.items() if name in TIMES - {EVENT_TIME}}
        own = dict(self.sources.get(statement.name.lower(), {}))
        if _names_another_time(statement, own):
            own.pop(UNIT, None)
        given = {**defaults, **own}
        if statement.watermark is not None:
            given = {name: option for name, option in given.items() if name not in OF_ONE_TIME}
        return replace(statement, options={**given, **statement.options})

    def _view(self, statement: ViewStatement) -> ViewStatement:
        given = {**self.defaults, **self.views.get(statement.name.lower(), {})}
        said = set(TIMES)
        if statement.clauses.lateness is not None:
            said.add("allowed_lateness")
        if statement.clauses.late_data is not None:
            said.add("side_output.late")
        left = {name: option for name, option in given.items() if name not in said}
        return replace(statement, clauses=replace(statement.clauses, options={**left, **statement.clauses.options}))

    def _require_names(self, table: str, known: Iterable[str], others: Iterable[str]) -> None:
        mine: Mapping[str, Any] = self.sources if table == SOURCES else self.views
        names, what = {name.lower() for name in known}, table.removesuffix("s")
        for name in mine:
            if name in names:
                continue
            other = VIEWS if table == SOURCES else SOURCES
            elsewhere = name in {each.lower() for each in others}
            raise LaminarError(
                "LMR0311", f'[{table}.{name}] in {self.places.file}: there is no {what} "{name}"',
                where=self.places.of((table, name))[0],
                hint=f"Write [{other}.{name}]." if elsewhere else did_you_mean(name, known, "Leave the table out."),
            )  # fmt: skip


def _names_another_time(statement: SourceStatement, table: Options) -> bool:
    """Whether the SQL names another time than the table, whose unit is then not that of the SQL's."""
    if EVENT_TIME not in table:
        return False
    if statement.watermark is not None:
        time = statement.watermark.time
        return not isinstance(time, exp.Column) or time.name.lower() != table[EVENT_TIME].value.lower()
    own = statement.options.get(EVENT_TIME, table[EVENT_TIME])
    return own.value.lower() != table[EVENT_TIME].value.lower()


def is_default(option: OptionValue) -> bool:
    return option.table is not None and option.table.startswith((f"[{DEFAULTS}]", f"[{TRANSFORMS}."))


def to_add(beside: OptionValue, table: str, name: str, value: str) -> str:
    """How to say one more option of a table inside of a view's options, in the words of where another one is said.

    TOML does not let a table be opened twice, so the line stands below the header that is there already.
    """
    if beside.table is None:
        return f"Add {table}.{name} = '{value}' to WITH (…)."
    label, _, file = beside.table.partition(" in ")
    header, inside = f"{label.strip('[]')}.{table}", ""
    written = beside.name_where.text[beside.name_where.start : beside.name_where.end].replace('"', "").replace("'", "")
    before, is_dotted, _ = written.lower().partition(f"{table}.")
    if is_dotted:
        inside = f"{before}{table}."
        header = header.removesuffix(f".{inside.removesuffix('.')}")
    return f'Paste below [{header}] in {file}: {inside}{name} = "{value}"'


def read_configuration(content: Mapping[str, Any], text: str, file: str) -> Configuration:
    """The tables of a parsed laminar.toml; LaminarError for a name or a value that no option has."""
    found = places(text, file)
    defaults = _options(found, (DEFAULTS,), content.get(DEFAULTS, {}))
    defaults = {**defaults, **_of_transforms(found, content.get(TRANSFORMS, {}), defaults)}
    sources, views = (_by_name(found, table, content.get(table, {})) for table in (SOURCES, VIEWS))
    o.read(defaults, DEFAULTABLE, "a project's [defaults]")
    for given in views.values():
        o.read(given, (*o.TIME_OPTIONS, *o.VIEW_OPTIONS), "a view")
    lowered = replace(found, found={tuple(p.lower() for p in path): at for path, at in found.found.items()})
    return Configuration(defaults, sources, views, lowered)


def _of_transforms(found: Places, body: Any, defaults: Options) -> Options:
    """What [transforms.sql] says for all views, as options."""
    inside = body.get(TABLE[1], {}) if isinstance(body, dict) else None
    if not isinstance(inside, dict):
        raise _no_table(found, TABLE)
    for other in body:
        if other != TABLE[1]:
            path = (TRANSFORMS, other)
            raise LaminarError(
                "LMR0301", f'unknown table "{".".join(path)}" in {found.file}', where=found.of(path)[0],
                hint=f"There is [{'.'.join(TABLE)}] alone.",
            )  # fmt: skip
    written: dict[str, tuple[Path, Any]] = {}
    for name, full, value in _flat(TABLE, inside):
        _require_new(name not in written, found, full, f'option "{name}" of [{".".join(TABLE)}]')
        written[name] = (full, value)
    options, unknown = translated((name, value) for name, (_, value) in written.items())
    if unknown is not None:
        raise _unknown_name(unknown, found.of(written[unknown][0])[0])
    label = f"[{'.'.join(TABLE)}] in {found.file}"
    for name, (said, _) in options.items():
        _require_new(name not in defaults, found, written[said][0], f'"{said}" of {label}, "{name}" of [{DEFAULTS}],')
    return {name: _value(found, written[said][0], value, label) for name, (said, value) in options.items()}


def _unknown_name(unknown: str, where: Span) -> LaminarError:
    """With the nearest name, as it is written below the header that the unknown one stands below."""
    own = where.text[where.start : where.end].lower()
    above = unknown.removesuffix(own) if unknown.endswith(own) else ""
    known = [name.removeprefix(above) for name in NAMES if name.startswith(above)]
    return LaminarError(
        "LMR0301", f'unknown option "{unknown}" for [{".".join(TABLE)}]', where=where,
        hint=did_you_mean(unknown.removeprefix(above * 2).removeprefix(above), known),
    )  # fmt: skip


def _by_name(found: Places, table: str, body: Any) -> dict[str, Options]:
    if not isinstance(body, dict):
        raise _no_table(found, (table,))
    options: dict[str, Options] = {}
    for name, inside in body.items():
        path = (table, name)
        _require_new(name.lower() not in options, found, path, f"[{'.'.join(path)}]")
        options[name.lower()] = _options(found, path, inside)
    return options


def _options(found: Places, path: Path, body: Any) -> Options:
    if not isinstance(body, dict):
        raise _no_table(found, path)
    label = f"[{'.'.join(path)}] in {found.file}"
    options: dict[str, OptionValue] = {}
    for name, full, value in _flat(path, body):
        _require_new(name not in options, found, full, f'option "{name}" of {label}')
        options[name] = _value(found, full, value, label)
    return options


def _require_new(is_new: bool, found: Places, path: Path, what: str) -> None:
    """Letter case does not tell names apart."""
    if not is_new:
        raise LaminarError("LMR0302", f"{what} is given twice", where=found.of(path)[0], hint="Keep one of the two.")


def _flat(path: Path, body: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Path, Any]]:
    """Keys of tables inside of a table have a dot, as in WITH: `side_output.late`."""
    for key, value in body.items():
        name, full = f"{prefix}{key}", (*path, key)
        if isinstance(value, dict):
            yield from _flat(full, value, f"{name}.")
        else:
            yield name.lower(), full, value


def _value(found: Places, path: Path, value: Any, label: str) -> OptionValue:
    name_where, where = found.of(path)
    if not isinstance(value, (str, int)):
        raise LaminarError(
            "LMR0312", f'option "{path[-1]}" of {label} must be text, a whole number, true or false', where=where,
            hint='A length of time is written "10 seconds"; a list is one text with commas.',
        )  # fmt: skip
    text = value if isinstance(value, str) else str(value).lower()
    return OptionValue(text, name_where, where, label)


def _no_table(found: Places, path: Path) -> LaminarError:
    shown = ".".join(path)
    example = f"{shown}.NAME" if path in ((SOURCES,), (VIEWS,)) else shown
    return LaminarError(
        "LMR0312", f'"{shown}" in {found.file} must be a table', where=found.of(path)[0],
        hint=f"Write [{example}], and its options below.",
    )  # fmt: skip
