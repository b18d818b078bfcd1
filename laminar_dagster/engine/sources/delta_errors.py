"""What can be wrong with a Delta table as a source: each says what is committed and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from laminar_dagster.errors import LaminarError, did_you_mean
from laminar_dagster.semantics.query import Field, Source
from laminar_dagster.semantics.types import DataType

NOTHING_READ = "Nothing was read; all earlier epochs stand."
REBUILD = "Rebuild the view in a new data directory (laminar run VIEW --data DIR)"


def not_found(source: Source, path: Path) -> LaminarError:
    return LaminarError(
        "LMR0602",
        f'source "{source.name}" has no Delta table at {path}',
        hint="Create the table, or correct `path` in CREATE SOURCE (it is relative to the project).",
        committed=NOTHING_READ,
    )


def column_missing(source: Source, path: Path, name: str, columns: Sequence[str]) -> LaminarError:
    meant = did_you_mean(name, columns, "")
    return _changed(source, f'{path}: column "{name}" is not in the table', meant)


def column_retyped(source: Source, path: Path, field: Field, found: DataType) -> LaminarError:
    detail = f'{path}: column "{field.name}" is {found} in the table and {field.type} in CREATE SOURCE'
    return _changed(source, detail, None)


def _changed(source: Source, detail: str, meant: str | None) -> LaminarError:
    return LaminarError(
        "LMR0603",
        f'the schema of source "{source.name}" does not fit its declaration',
        detail=detail,
        hint=f"Correct CREATE SOURCE, or put the column back as it was. {meant or ''}".strip(),
        committed=NOTHING_READ,
    )


def rewritten(source: Source, path: Path, version: int) -> LaminarError:
    return LaminarError(
        "LMR0604",
        f'version {version} of source "{source.name}" removes or rewrites rows that were already read',
        detail=f"{path} is read as append only; version {version} is a DELETE, UPDATE, MERGE, overwrite or RESTORE.",
        hint="To pass over such versions with all that they add, say on_rewrite = 'ignore' in CREATE SOURCE. To take "
        f"the table as it is now: {REBUILD[0].lower() + REBUILD[1:]}.",
        committed=f"Everything before version {version} is committed; nothing of version {version} is.",
    )


def log_cleaned(source: Source, path: Path, version: int) -> LaminarError:
    return LaminarError(
        "LMR0605",
        f'version {version} of source "{source.name}" is no longer in the table\'s log',
        detail=f"{path}: the log was cleaned beyond the last version that this view read ({version - 1}).",
        hint=f"What changed in between cannot be known any more. {REBUILD}, and keep the log "
        "(delta.logRetentionDuration) longer than the longest pause between runs.",
        committed=f"Everything up to version {version - 1} is committed.",
    )


def vacuumed(source: Source, version: int, files: Sequence[str]) -> LaminarError:
    return LaminarError(
        "LMR0605",
        f'files that version {version} of source "{source.name}" added are gone',
        detail=f"missing: {', '.join(files[:3])}{' …' if len(files) > 3 else ''} "
        "(VACUUM deletes files that an OPTIMIZE or a rewrite has replaced)",
        hint=f"Put the files back and run again. If they are lost: {REBUILD[0].lower() + REBUILD[1:]}, and let VACUUM "
        "keep files longer than the longest pause between runs.",
        committed=f"Everything up to version {version - 1} is committed.",
    )


def another_table(source: Source, path: Path, version: int, current: int) -> LaminarError:
    detail = f"the one there now has its own history, up to version {current}."
    return _recreated(source, f"{path}: the view has read up to version {version} of another table; {detail}", version)


def cut_back(source: Source, path: Path, version: int, current: int) -> LaminarError:
    detail = f"{path}: the view has read up to version {version}, and the table has come back as of version {current}"
    return _recreated(source, f"{detail} (restored from an old copy).", version)


def another_commit(source: Source, path: Path, version: int) -> LaminarError:
    detail = f"{path}: version {version} is not the commit that the view has read under that number"
    return _recreated(source, f"{detail}. The table was restored from an old copy and written to again.", version)


def _recreated(source: Source, detail: str, version: int) -> LaminarError:
    return LaminarError(
        "LMR0608",
        f'source "{source.name}" is not the table that this view has read so far',
        detail=detail,
        hint=f"Put the former table back, or: {REBUILD[0].lower() + REBUILD[1:]} to start over with the new one.",
        committed=f"Everything up to version {version} of the former table is committed; nothing of the new one is.",
    )


def column_changed(source: Source, path: Path, column: str, version: str) -> LaminarError:
    return LaminarError(
        "LMR0613",
        f'column "{column.replace("`", "")}" of source "{source.name}" is another one than at version {version}',
        detail=f"{path}: the column was dropped and added anew, or others were renamed. Its rows of version {version} "
        "have their values under a former name in files; read as the table is now, they would have NULL or others.",
        hint="To compute windows anew, choose a stretch of time whose rows came after the change. To take the table as "
        f"it is now: {REBUILD[0].lower() + REBUILD[1:]}.",
        committed="Nothing of it was read; all earlier epochs stand.",
    )


def no_change_feed(source: Source, path: Path) -> LaminarError:
    return LaminarError(
        "LMR0612",
        f"source \"{source.name}\" says changes = 'cdf', and its table has no change data feed",
        detail=f"{path}: the table property delta.enableChangeDataFeed is not true",
        hint=f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true), or leave `changes` "
        "out if rows are only ever added.",
        committed=NOTHING_READ,
    )
