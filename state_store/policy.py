"""When files are merged, and how long what is no longer current is kept: numbers, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class MaintenancePolicy:
    """What happens after an epoch, and how much of it at the most.

    Merging: a bucket of the state with more than `files_per_bucket` files; of the other tables, `merge_files` files of
    one size and partition, below `full_bytes` each and up to `merge_bytes` together. One merge per table and epoch.

    Vacuum: every `vacuum_every` epochs, at most `deletions` files. Kept is what the last `retain_epochs` epochs need,
    and whatever was current within `retain_state`; of the output and the side output within `retain_results`, because
    others may follow them version by version.
    """

    files_per_bucket: int = 48
    merge_files: int = 16
    full_bytes: int = 16 << 20
    merge_bytes: int = 32 << 20
    vacuum_every: int = 20
    deletions: int = 2_000
    retain_epochs: int = 50
    retain_state: timedelta = timedelta(hours=1)
    retain_results: timedelta = timedelta(days=7)
