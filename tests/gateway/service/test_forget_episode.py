"""Forgetting an episode through the service: an admin's record in the log, and absence that can be looked at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.errors import Gone, NotFound
from gateway.fingerprint import fingerprint
from gateway.keys import NotAllowed
from stores.episodes import EpisodeStore, WritableEpisodeStore
from streams.rebuild import fold
from streams.stages.episodes import EpisodeSink
from tests.support.gateway import ADMIN, AGENT, READER, WAIT, Brain, WordEmbedder, running_brain

WORDS = "zanzibar treasury"


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[Brain]:
    with running_brain(tmp_path) as made:
        yield made


def recorded(brain: Brain, n: int, note: str) -> str:
    event = {"tool": "research", "status": "failed", "error": note, "ts_executed": "2026-06-01T00:00:00Z", "pair": f"desk-{n}"}
    done = brain.service.record_execution(AGENT, f"run-{n}", event, WAIT)
    assert done.state == "applied"
    assert done.insight_id
    return done.insight_id


def test_it_is_gone_from_everywhere_and_stays_gone(brain: Brain, tmp_path: Path) -> None:
    one, other = recorded(brain, 1, WORDS), recorded(brain, 2, "nothing special")
    asked = brain.service.recall(READER, f"research {WORDS} desk-1", now=brain.clock())
    before = brain.service.episode_traces(ADMIN, one, WORDS)
    assert before["row"] == 1
    assert before["files"] > 0
    assert not asked.result.hits or before["memory"] > 0
    done = brain.service.forget_episode(ADMIN, "forget-1", one, "asked to", WAIT)
    assert (done.state, done.duplicate) == ("applied", False)
    brain.settle()
    after = brain.service.recall(READER, f"research {WORDS} desk-1", now=brain.clock())
    assert one not in {hit.id for hit in after.result.hits}
    assert not any(brain.service.episode_traces(ADMIN, one, WORDS).values())
    with pytest.raises(Gone):
        brain.service.episode(READER, one)
    assert brain.service.episode(READER, other).id == other
    assert brain.service.forget_episode(ADMIN, "forget-2", one, "again", WAIT).duplicate
    _rebuilt(brain, tmp_path)


def _rebuilt(brain: Brain, folder: Path) -> None:
    """A store that is filled from the log alone forgets it as well."""
    embedder = WordEmbedder()
    with (
        WritableEpisodeStore.open(folder / "again", (embedder.model_id, embedder.dimension)) as again,
        EpisodeStore.open(folder / "episodes") as episodes,
    ):
        fold(brain.log, [EpisodeSink(again)])
        assert fingerprint(again, brain.insights).episodes == fingerprint(episodes, brain.insights).episodes
        assert not any(again.traces("", WORDS).values())


def test_it_takes_an_admin_and_an_episode(brain: Brain) -> None:
    one = recorded(brain, 1, WORDS)
    with pytest.raises(NotAllowed):
        brain.service.forget_episode(AGENT, "f", one, "no")
    with pytest.raises(NotFound):
        brain.service.forget_episode(ADMIN, "f", "nobody", "no")
