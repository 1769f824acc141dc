"""The episode sink: every record answered, the store filled once, from the log alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.episodes import Episode
from schemas.topics import EPISODES_RECORDED
from stores.episodes import WritableEpisodeStore
from streams.log import LogMismatch, OwnsOffsets
from streams.stages.episodes import EpisodeSink
from tests.support.episodes import INFO, episode
from workers.stage import Delivery, Position, Stage


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritableEpisodeStore]:
    with WritableEpisodeStore.open(tmp_path / "episodes", INFO) as opened:
        yield opened


def deliveries(*episodes: Episode, first: int = 0, partition: int = 0) -> list[Delivery]:
    return [
        Delivery(Position(EPISODES_RECORDED.name, partition, first + n), one.key.encode(), one, 0) for n, one in enumerate(episodes)
    ]


def test_it_is_a_sink_that_owns_its_offsets(store: WritableEpisodeStore) -> None:
    sink = EpisodeSink(store)
    assert isinstance(sink, Stage)
    assert isinstance(sink, OwnsOffsets)
    assert (sink.name, sink.inputs, sink.outputs) == ("episodes", (EPISODES_RECORDED,), ())


def test_each_record_is_answered_for(store: WritableEpisodeStore) -> None:
    batch = deliveries(
        episode(1, status="pending"), episode(2), episode(2), episode(1), episode(3, model="other/16"), episode(4, vector=b"short")
    )
    sink = EpisodeSink(store)
    outcome = sink.handle(batch)
    assert (outcome.processed, outcome.duplicates, outcome.late) == (3, 1, 0)
    assert [(refusal.position.offset, refusal.reason) for refusal in outcome.refusals] == [(4, "other_vector"), (5, "other_vector")]
    assert outcome.counts == {"inserted": 2, "updated": 1}
    assert outcome.emissions == ()
    assert store.count() == 2


def test_a_second_delivery_is_answered_as_the_first(store: WritableEpisodeStore) -> None:
    batch = deliveries(episode(1, status="pending"), episode(2), episode(2), episode(1))
    sink = EpisodeSink(store)
    first, second = sink.handle(batch), sink.handle(batch)
    assert (second.processed, second.duplicates) == (first.processed, first.duplicates)
    assert second.counts == {"replayed": 3}
    assert store.count() == 2


def test_it_says_from_where_the_store_has_to_be_fed(store: WritableEpisodeStore) -> None:
    sink = EpisodeSink(store)
    sink.bind("log-1")
    assert sink.next_offsets() == {}
    sink.handle([*deliveries(episode(1), episode(2)), *deliveries(episode(3), first=7, partition=3)])
    assert sink.next_offsets() == {(EPISODES_RECORDED.name, 0): 2, (EPISODES_RECORDED.name, 3): 8}


def test_another_log_is_refused(store: WritableEpisodeStore) -> None:
    EpisodeSink(store).bind("log-1")
    with pytest.raises(LogMismatch, match="another log") as caught:
        EpisodeSink(store).bind("log-2")
    assert "move the folder away" in (caught.value.hint or "")


def test_an_empty_batch_is_nothing(store: WritableEpisodeStore) -> None:
    outcome = EpisodeSink(store).handle([])
    assert (outcome.processed, outcome.duplicates, list(outcome.refusals)) == (0, 0, [])
