"""The ranker over the stores: learns from recorded uses alone, says what it does, and forgets when told."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random

import pytest

from gateway.brain import ranker_settings, recall_tuning
from gateway.ranking import LearnedRanking, RankerState
from schemas.operations import TeachRanker
from schemas.settings import Settings
from schemas.usage import MemoryUsed
from stores.recall.live import LiveInsights
from stores.recall.recall import Recall
from stores.recall.tuning import RecallTuning
from stores.sqlite import WritableInsightStore
from streams.stages.writer import InsightWriter
from tests.support.gateway import WordEmbedder
from tests.support.sqlite import add, at, op, operations, uses
from workers.ranker import RankerSettings

NOW = at(200)
OPEN = RecallTuning(grading=False, boost_recent=False, graph=False)
COUNT = 12


def used(n: int, rng: Random, scores: bool = True) -> MemoryUsed:
    """Five insights were handed out, and the two of the greatest importance used: of i0 … i11 those of the higher numbers."""
    shown = rng.sample(range(COUNT), 5)
    best = sorted(shown)[-2:]
    return MemoryUsed(
        use_id=f"use-{n:04}", agent_id="agent", ts=at(10 + n / 60), recalled=tuple(f"i{one}" for one in shown),
        scores=tuple(1.0 - 0.02 * place for place in range(5)) if scores else (), used=tuple(f"i{one}" for one in best),
    )  # fmt: skip


def mark(n: int, action: str, ts: datetime) -> TeachRanker:
    return TeachRanker(op_id=f"mark-{n}", ts=ts, author="operator", reason="", action=action)


def filled(path: Path, count: int, *, size: int = 1000, more: tuple[object, ...] = (), scores: bool = True) -> WritableInsightStore:
    """A store with twelve insights of rising importance and so many uses."""
    embedder = WordEmbedder()
    store = WritableInsightStore.open(path, (embedder.model_id, embedder.dimension))
    writer = InsightWriter(store, embedder)
    made = [add(f"i{n}", text=f"gas rule number {n}", importance=n / COUNT) for n in range(COUNT)]
    rng = Random(4)
    told = [*operations(*made, *more), *uses(*(used(n, rng, scores) for n in range(count)))]
    for start in range(0, len(told), size):
        writer.handle(told[start : start + size])
    return store


def state(store: WritableInsightStore) -> RankerState:
    return LearnedRanking(store, None).state()


def test_it_learns_every_fifty_uses_and_takes_part_where_that_helps(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db", 49) as store:
        assert (state(store).learned.weights, state(store).waiting) == (None, 49)
    with filled(tmp_path / "b.db", 70) as store:
        now = state(store)
        assert now.learned.active, now.learned.why
        assert (now.uses, now.counted, now.waiting, now.learned.uses) == (70, 70, 20, 50)
        assert now.learned.weights is not None
        assert now.learned.weights["importance"] > 0


@pytest.mark.parametrize("size", [7, 1000])
def test_the_same_record_gives_the_same_weights_however_it_came(tmp_path: Path, size: int) -> None:
    with filled(tmp_path / "a.db", 120) as one, filled(tmp_path / "b.db", 120, size=size) as other:
        assert state(one) == state(other)


def test_a_training_counts_all_until_then_and_a_reset_none(tmp_path: Path) -> None:
    middle = at(10 + 39.5 / 60)
    with filled(tmp_path / "a.db", 49, more=(mark(1, "train", middle),)) as store:
        assert (state(store).learned.uses, state(store).waiting) == (40, 9)
    with filled(tmp_path / "b.db", 120, more=(mark(1, "reset", middle),)) as store:
        assert (state(store).counted, state(store).learned.uses) == (80, 50)
    with filled(tmp_path / "c.db", 120, more=(mark(1, "reset", at(100)),)) as store:
        assert (state(store).counted, state(store).learned.active) == (0, False)


def test_scores_that_were_not_reported_fall_with_the_place(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db", 100, scores=False) as store:
        assert state(store).learned.active


def test_what_is_forgotten_teaches_nothing(tmp_path: Path) -> None:
    gone = tuple(op("FORGET", f"i{n}", f"forget-{n}", 150) for n in range(COUNT))
    with filled(tmp_path / "a.db", 100, more=gone) as store:
        assert state(store).learned.samples == 0
        assert state(store).learned.weights is None


def test_recall_says_what_it_made_of_a_hit(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    with filled(tmp_path / "a.db", 100) as store:
        live = LiveInsights(store, embedder)
        plain = Recall(None, live, embedder, OPEN)
        ranked = Recall(None, live, embedder, OPEN, preference=LearnedRanking(store, None))
        before = plain.recall("gas rule number", now=NOW, limit=COUNT).hits
        after = ranked.recall("gas rule number", now=NOW, limit=COUNT).hits
        assert all(hit.why.learned is None for hit in before)
        assert {hit.id for hit in before} == {hit.id for hit in after}
        for hit in after:
            told = hit.why.learned
            assert told is not None
            assert hit.score == pytest.approx(hit.why.score * (0.65 + 0.35 * told.chance))
            assert set(told.features) == {"importance", "recency", "frequency", "confidence", "bias"}
        by_id = {hit.id: hit for hit in after}
        assert by_id["i11"].why.learned.chance > by_id["i0"].why.learned.chance
        assert ranked.recall("gas rule number", now=NOW, limit=COUNT, as_of=at(9)).hits[0].why.learned is None


def test_where_it_is_off_nothing_changes(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    with filled(tmp_path / "a.db", 20) as store:
        live = LiveInsights(store, embedder)
        hits = Recall(None, live, embedder, OPEN, preference=LearnedRanking(store, None)).recall("gas rule", now=NOW).hits
        assert hits == Recall(None, live, embedder, OPEN).recall("gas rule", now=NOW).hits


def test_it_notices_new_uses_without_being_told(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db", 0) as store:
        ranking = LearnedRanking(store, None)
        assert ranking.state().uses == 0
        rng = Random(4)
        InsightWriter(store, WordEmbedder()).handle(uses(*(used(n, rng) for n in range(50))))
        assert ranking.state().learned.uses == 50


def test_settings_reach_recall_and_the_ranker() -> None:
    settings = Settings(recall_min_score=0.25, recall_default_limit=7, ranker_blend=0.5, ranker_train_every=20)
    assert recall_tuning(settings) == RecallTuning(min_score=0.25, default_limit=7)
    assert ranker_settings(settings) == RankerSettings(blend=0.5, train_every=20)
    assert recall_tuning(Settings()) == RecallTuning()
    assert ranker_settings(Settings()) == RankerSettings()
