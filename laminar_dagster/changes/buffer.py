"""A place of fixed size between who reads changes and who takes them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


class ChangelogBuffer:
    """Holds Arrow batches of up to `capacity` rows in all; one that does not fit is refused whole."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a buffer for {capacity} rows holds nothing")
        self.capacity = capacity
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0

    def push(self, batch: pa.RecordBatch) -> bool:
        """Take the batch; False: it does not fit, and nothing of it was taken. Then drain first."""
        if batch.num_rows > self.room:
            return False
        self._batches.append(batch)
        self._rows += batch.num_rows
        return True

    def drain(self) -> Iterator[pa.RecordBatch]:
        """What the buffer held, in the order in which it came; from here on the buffer is empty."""
        batches, self._batches, self._rows = self._batches, [], 0
        return iter(batches)

    @property
    def room(self) -> int:
        return self.capacity - self._rows

    @property
    def is_empty(self) -> bool:
        return self._rows == 0

    def __len__(self) -> int:
        return self._rows
