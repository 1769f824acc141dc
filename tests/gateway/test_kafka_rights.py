"""The rights that docs/kafka.md lists are those that the code makes use of: neither a topic too few nor one too many."""

from __future__ import annotations

import pytest

from gateway.kafka import INPUTS, SHARED, WORKERS
from schemas.topics import (
    CHECKPOINTS,
    EPISODES_RECORDED,
    INSIGHTS_UPDATED,
    MEMORY_USED,
    MODEL_SAID,
    OPERATIONS,
    PORTFOLIO_VALUED,
    RECORDS_REJECTED,
    TOOLS_EXECUTED,
    Topic,
)  # fmt: skip
from streams.stages.embed import ReflectEmbed
from streams.stages.episodes import EpisodeSink
from streams.stages.writer import InsightWriter
from tests.support.kafka_rights import documented
from workers.breakers.stage import BreakersStage
from workers.distil.stage import DistilStage
from workers.levels.stage import LevelsStage
from workers.signals import SignalsStage

OUTPUTS: dict[str, tuple[Topic, ...]] = {
    "embed": ReflectEmbed.outputs,
    "episodes": EpisodeSink.outputs,
    "signals": SignalsStage.outputs,
    "distil": DistilStage.outputs,
    "levels": LevelsStage.outputs,
    "breakers": BreakersStage.outputs,
    "writer": (*InsightWriter.outputs, OPERATIONS),  # what is done beside it
}
FOLDS = set(SHARED) - {"embed"}
SENT_BY_PRODUCERS = {TOOLS_EXECUTED, OPERATIONS, MEMORY_USED, PORTFOLIO_VALUED, MODEL_SAID}


def names(*topics: Topic) -> set[str]:
    return {topic.name for topic in topics}


@pytest.mark.parametrize("worker", WORKERS)
def test_workers(worker: str) -> None:
    state = (CHECKPOINTS,) if worker in FOLDS else ()
    rights = documented()[worker]
    assert set(rights["R"]) == names(*INPUTS[worker], *state)
    assert set(rights["W"]) == names(*OUTPUTS[worker], *state, RECORDS_REJECTED)


def test_others() -> None:
    rights = documented()
    assert set(rights["producer"]["W"]) == names(*SENT_BY_PRODUCERS)
    assert set(rights["subscriber"]["R"]) == names(INSIGHTS_UPDATED)
    assert set(rights["gateway"]["W"]) == names(*SENT_BY_PRODUCERS, EPISODES_RECORDED)
    assert set(rights["gateway"]["R"]) == names(INSIGHTS_UPDATED, RECORDS_REJECTED, MODEL_SAID)
