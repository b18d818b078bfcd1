from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar_dagster.changes import ChangelogBuffer


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


def test_a_batch_that_does_not_fit_is_refused_whole() -> None:
    buffer = ChangelogBuffer(3)
    assert buffer.push(batch(1, 2))
    assert not buffer.push(batch(3, 4))
    assert len(buffer) == 2
    assert buffer.push(batch(5))
    assert [b.column(0).to_pylist() for b in buffer.drain()] == [[1, 2], [5]]
    assert buffer.is_empty


def test_a_drained_buffer_is_empty_before_its_batches_are_taken() -> None:
    buffer = ChangelogBuffer(1)
    buffer.push(batch(1))
    drained = buffer.drain()
    assert buffer.push(batch(2))
    assert [b.column(0).to_pylist() for b in drained] == [[1]]


def test_a_buffer_holds_something() -> None:
    with pytest.raises(ValueError, match="holds nothing"):
        ChangelogBuffer(0)


@given(st.integers(1, 20), st.lists(st.one_of(st.none(), st.integers(0, 8)), max_size=30))
def test_it_never_holds_more_than_its_capacity_and_gives_back_what_it_took(capacity: int, steps: list) -> None:
    buffer, taken, given_back, number = ChangelogBuffer(capacity), [], [], 0
    for size in steps:
        if size is None:
            given_back += [n for b in buffer.drain() for n in b.column(0).to_pylist()]
            assert buffer.is_empty
            continue
        numbers = list(range(number, number + size))
        number += size
        room = buffer.room
        accepted = buffer.push(batch(*numbers))
        assert accepted == (size <= room)
        taken += numbers if accepted else []
        assert len(buffer) <= capacity
    given_back += [n for b in buffer.drain() for n in b.column(0).to_pylist()]
    assert given_back == taken
