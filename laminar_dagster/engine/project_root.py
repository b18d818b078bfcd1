"""Where a project is, from wherever it is looked for: one project has one root, or it would have a second store.

The command line, Dagster, Python and the warm Spark server all ask here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from laminar_dagster.errors import LaminarError
from laminar_dagster.sql.local_paths import require_local

CONFIG = "laminar.toml"
SQL_FOLDERS = ("assets/sql", "sql")
DEFAULT_SQL = SQL_FOLDERS[-1]


@dataclass(frozen=True)
class Place:
    """A project's root. `sql`: the folder of `.sql` files, or the one file, that somebody pointed at, if any did."""

    root: Path
    sql: Path | None = None


def place_of(start: Path | None = None) -> Place:
    """The project that a directory or file belongs to; by default, the working directory's.

    Its root is the nearest directory upwards with a laminar.toml; else the one that the SQL folder is in.
    """
    here, file = _looked_at(start)
    declared = next((folder for folder in (here, *here.parents) if (folder / CONFIG).is_file()), None)
    if declared is not None:
        pointed_at = start is not None and here != declared and holds_sql(here)
        return Place(declared, file or (here if pointed_at else None))
    if _has_sql_folder(here):
        return Place(here, file)
    if file is not None or holds_sql(here):
        return Place(_root_over(here), file or here)
    return Place(next((folder for folder in here.parents if _has_sql_folder(folder)), here))


def sql_folder(root: Path) -> Path:
    """Where the SQL is if nobody says: `assets/sql`, else `sql`, else the root itself, whichever has `.sql` files."""
    folders = [root / name for name in SQL_FOLDERS]
    filled = [folder for folder in (*folders, root) if holds_sql(folder)]
    there = [folder for folder in folders if folder.is_dir()]
    return next(iter([*filled, *there]), root / DEFAULT_SQL)


def sql_files(sql: Path) -> list[Path]:
    """The files of a SQL folder, or the one that stands in its place."""
    return [sql] if sql.is_file() else sorted(sql.glob("*.sql"))


def holds_sql(folder: Path) -> bool:
    return any(folder.glob("*.sql"))


def _looked_at(start: Path | None) -> tuple[Path, Path | None]:
    """A directory, and the SQL file in it that was asked for."""
    if start is not None:
        require_local("the project", start)
    here = (start or Path.cwd()).resolve()
    if here.is_dir():
        return here, None
    if here.is_file() and (here.suffix == ".sql" or here.name == CONFIG):
        return here.parent, here if here.suffix == ".sql" else None
    raise LaminarError(
        "LMR0708",
        f"there is no directory {here}",
        hint=f"Give the project's directory, a folder of .sql files, a .sql file or {CONFIG}.",
    )


def _has_sql_folder(folder: Path) -> bool:
    return any(holds_sql(folder / name) for name in SQL_FOLDERS)


def _root_over(folder: Path) -> Path:
    """A folder with the name of a SQL folder is not a root: what it lies in is."""
    for name in SQL_FOLDERS:
        parts = Path(name).parts
        if folder.parts[-len(parts) :] == parts:
            return folder.parents[len(parts) - 1]
    return folder
