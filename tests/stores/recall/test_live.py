"""Insights in memory are what the store has, whatever was done to it, without being told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stores.recall.filters import RecallFilters
from stores.recall.live import LiveInsights
from stores.recall.sources import Question
from stores.sqlite import InsightStore
from streams.stages.writer import InsightWriter
from tests.support.sqlite import HashEmbedder, add, in_log, op, operations, workload, writing


def asked(words: str, embedder: HashEmbedder) -> Question:
    return Question(words, embedder.vector(words), RecallFilters(), 100)


def held(live: LiveInsights, words: str = "insight of gas and pools") -> dict[str, tuple[str, float | None]]:
    found = live.find(asked(words, HashEmbedder())).candidates
    return {one.memory.id: (one.memory.text, one.cosine) for one in found}


@pytest.mark.parametrize("seed", [7, 8, 9])
def test_it_follows_every_kind_of_operation(tmp_path: Path, seed: int) -> None:
    """A reader that looked after each record, one that looked at the end, and one that was opened then have the same."""
    path = tmp_path / "brain.db"
    with writing(path) as store, InsightStore.open(path) as reader:
        writer = InsightWriter(store, HashEmbedder())
        often, late = LiveInsights(reader, HashEmbedder()), LiveInsights(reader, HashEmbedder())
        for delivery in in_log(workload(seed)):
            writer.handle([delivery])
            often.refresh()
        late.refresh()
        fresh = LiveInsights(reader, HashEmbedder())
        assert held(often) == held(late) == held(fresh)
        active = {one.id: one.text for one in reader.list(limit=1000).items}
        assert {key: text for key, (text, _) in held(fresh).items()} == active


def test_a_change_is_there_at_the_next_question_and_what_is_archived_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "brain.db"
    with writing(path) as store, InsightStore.open(path) as reader:
        writer, live = InsightWriter(store, HashEmbedder()), LiveInsights(reader, HashEmbedder())
        assert held(live) == {}
        writer.handle(operations(add("i1", text="Gas is high."), add("i2", text="Gas is low.")))
        assert set(held(live)) == {"i1", "i2"}
        assert live.nearest(HashEmbedder().vector("Gas is low."), 1)[0][0] == "i2"
        writer.handle(operations(op("ARCHIVE", "i1", "o1"), op("FORGET", "i2", "o2"), first=2))
        assert held(live, "gas is low") == {}
        assert "i1" not in live
        assert len(live) == 0


def test_nothing_is_read_where_nothing_changed(tmp_path: Path) -> None:
    path = tmp_path / "brain.db"
    with writing(path) as store, InsightStore.open(path) as reader:
        InsightWriter(store, HashEmbedder()).handle(operations(add("i1")))
        live = LiveInsights(reader, HashEmbedder())
        assert live.refresh() == 1
        assert live.refresh() == 0


def test_vectors_come_from_the_store_and_nothing_is_embedded(tmp_path: Path) -> None:
    path = tmp_path / "brain.db"
    with writing(path) as store, InsightStore.open(path) as reader:
        InsightWriter(store, HashEmbedder()).handle(operations(add("i1", text="Gas is high.")))
        embedder = HashEmbedder()
        live = LiveInsights(reader, embedder)
        assert embedder.calls == []
        ((name, cosine),) = live.nearest(HashEmbedder().vector("Gas is high."), 1)
        assert name == "i1"
        assert np.isclose(cosine, 1.0)
