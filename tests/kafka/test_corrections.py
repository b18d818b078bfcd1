"""A view over a topic is corrected from its messages, as long as these have not expired."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laminar_dagster.engine.correcting import backfill
from laminar_dagster.errors import LaminarError
from laminar_dagster.semantics.time import SECOND, from_datetime
from tests.engine.sources.views import FAR, NOON
from tests.kafka.broker import Broker
from tests.kafka.topics import rows, topic_view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_messages_of_many_epochs_are_read_once_more_until_they_expire(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("corrected", 2)
    view = topic_view(tmp_path, kafka_broker, topic)
    noon = from_datetime(NOON)

    def again() -> None:
        given = [(noon, noon + 10 * SECOND)]
        backfill(view.plan, spark, project=view.root, data=view.root / "data", ranges=given)

    for messages in (
        [*rows(0, ("a", 1, 1)), *rows(1, ("b", 1, 1))],
        [*rows(0, ("a", 2, 2)), *rows(1, ("b", 2, 2))],
        [*rows(0, ("z", 0, FAR)), *rows(1, ("z", 0, FAR))],
        [*rows(0, ("a", 4, 3)), *rows(1, ("b", 4, 3))],
    ):
        kafka_broker.produce(topic, *messages)
        view.run(spark)
    assert view.closed() == {(0, "a"): (2, 3), (0, "b"): (2, 3)}
    again()
    assert view.closed() == {(0, "a"): (3, 7), (0, "b"): (3, 7)}
    kafka_broker.expire(topic, 1, 1)
    with pytest.raises(LaminarError, match="LMR0723") as refused:
        again()
    assert f"{topic}, partition 1: offsets 0 to 0" in str(refused.value)
    assert view.closed() == {(0, "a"): (3, 7), (0, "b"): (3, 7)}


def test_messages_of_a_topic_that_was_created_again_correct_nothing(
    kafka_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_broker.create("corrected-again")
    view = topic_view(tmp_path, kafka_broker, topic)
    kafka_broker.produce(topic, *rows(0, ("a", 1, 1), ("z", 0, FAR)))
    view.run(spark)
    kafka_broker.delete(topic)
    kafka_broker.create(topic)
    kafka_broker.produce(topic, *rows(0, ("a", 100, 1), ("a", 200, 2), ("z", 0, FAR)))
    noon = from_datetime(NOON)
    before = view.store.commit()
    with pytest.raises(LaminarError, match="LMR0633"):
        backfill(view.plan, spark, project=view.root, data=view.root / "data", ranges=[(noon, noon + 10 * SECOND)])
    assert view.store.commit() == before
