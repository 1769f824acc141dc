"""Recall over memories held in memory: its answers, filters, boosts, reasons, and that no question can break it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.claims import Category
from stores.recall.errors import BadRecall
from stores.recall.filters import RecallFilters
from stores.recall.fusion import RECIPES
from stores.recall.grading import Grade
from stores.recall.memories import Kind, Memory, of_episode, of_insight
from stores.recall.mirror import Vector
from stores.recall.recall import Recall
from stores.recall.sources import MemorySource, memory_source
from stores.recall.tuning import RecallTuning
from tests.support.episodes import ADDRESS, START, WordEmbedder, episode
from tests.support.sqlite import insight

DIMENSION = 64


class Alike(WordEmbedder):
    """As a real model's, its vectors all lean one way: no two texts are opposites."""

    def embed(self, texts: Sequence[str]) -> Vector:
        leaning = super().embed(texts) + np.float32(1.0 / np.sqrt(self.dimension))
        return np.asarray(leaning / np.linalg.norm(leaning, axis=1, keepdims=True), dtype=np.float32)


EMBEDDER = Alike(DIMENSION)
NOW = START + timedelta(days=1)
OPEN = RecallTuning(grading=False, boost_recent=False, min_score=-1.0)
REFLECTIONS = (
    "swap through router alpha realised a total cost of 12.5 bps",
    "swap through router gamma reverted, transfer failed",
    f"deposit into the vault at pool {ADDRESS}",
    "流动性不足时滑点很高",
    "gas was expensive in the afternoon, 0.30 % over the mid",
)


def source(*memories: Memory) -> MemorySource:
    vectors = EMBEDDER.embed([memory.text for memory in memories])
    return memory_source(DIMENSION, zip(memories, vectors, strict=True))


def episodes() -> MemorySource:
    return source(*(of_episode(episode(n, text)) for n, text in enumerate(REFLECTIONS)))


def insights() -> MemorySource:
    return source(*(of_insight(insight(n, text=f"Insight {n}: router gamma fails more often in pool {n}.")) for n in range(6)))


def answered(query: str, tuning: RecallTuning = OPEN, **more: Any) -> list[str]:
    return [hit.text for hit in Recall(episodes(), None, EMBEDDER, tuning).recall(query, now=NOW, **more).hits]


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("has router gamma reverted?", 1), (f"what about {ADDRESS}", 2), (ADDRESS[:12] + "…", 2), ("滑点", 3), ("0.30", 4),
        ("don't -- 'gamma' \"reverted\" OR (NEAR", 1),
    ],
)  # fmt: skip
def test_the_best_comes_first(query: str, place: int) -> None:
    assert answered(query)[0] == REFLECTIONS[place]


@pytest.mark.parametrize("query", ["", " ", "'", '"""', "\x00", "?!…", "🙂"])
def test_a_question_without_words_finds_nothing(query: str) -> None:
    result = Recall(episodes(), insights(), EMBEDDER).recall(query, now=NOW)
    assert (result.hits, result.grade) == ((), Grade.INCORRECT)


def test_a_hundred_kilobytes_a_nul_and_half_a_character_are_questions() -> None:
    for query in ("gamma " * 20_000, "gamma\x00reverted", "gamma \ud800", "Alice')) OR true-- gamma"):
        assert answered(query)


SHARED = Recall(episodes(), insights(), EMBEDDER)


@given(st.text(max_size=120), st.sampled_from(list(RECIPES)), st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_text_breaks_it(query: str, recipe: str, graph: bool) -> None:
    result = SHARED.recall(query, now=NOW, tuning=RecallTuning(recipe=recipe, graph=graph))
    assert len(result.hits) <= 5
    assert (result.grade is Grade.INCORRECT) <= (result.hits == ())
    for hit in result.hits:
        assert 0.0 <= hit.score <= 1.15 + 1e-9
        assert hit.score == pytest.approx(hit.why.relevance + sum(hit.why.boosts.values()))


def test_filters_are_values_and_apply_before_the_cut() -> None:
    memories = [of_episode(episode(n, "swap gamma", tool="route", chain_id=1 + n % 2, simulated=n % 3 == 0)) for n in range(120)]
    recall = Recall(source(*memories), None, EMBEDDER, OPEN)

    def ids(**conditions: Any) -> set[str]:
        return {hit.id for hit in recall.recall("gamma", RecallFilters(**conditions), 20, now=NOW).hits}

    assert len(ids(chain="2")) == 20
    last = memories[-1]
    assert ids(since=last.ts) == {last.id}
    assert ids(until=memories[1].ts) == {memories[0].id}
    assert ids(tool="route' OR '1'='1") == set()
    assert not ids(include_simulated=False) & {memory.id for memory in memories if memory.simulated}
    assert ids(categories=frozenset({Category.SLIPPAGE})) == set()


def test_confidence_and_category_are_of_insights() -> None:
    recall = Recall(episodes(), insights(), EMBEDDER, OPEN)
    found = recall.recall("router gamma", RecallFilters(min_confidence=Decimal("0.1")), 20, now=NOW).hits
    assert {hit.kind for hit in found} == {Kind.EPISODE, Kind.INSIGHT}
    assert all(hit.memory.confidence is None or hit.memory.confidence >= Decimal("0.1") for hit in found)
    kind = RecallFilters(categories=frozenset({Category.SLIPPAGE}), kinds=frozenset({Kind.INSIGHT}))
    assert {hit.memory.category for hit in recall.recall("router gamma", kind, 20, now=NOW).hits} == {Category.SLIPPAGE}


def test_recency_is_by_event_time_and_bounded() -> None:
    old, new = of_episode(episode(0, "swap gamma")), of_episode(episode(60 * 24 * 30, "swap gamma"))
    recall = Recall(source(old, new), None, EMBEDDER, OPEN.with_changes(boost_recent=True, graph=False))
    first, second = recall.recall("swap gamma", now=new.ts).hits
    assert (first.id, second.id) == (new.id, old.id)
    assert first.why.boosts == {"recency": 0.15}
    assert second.why.boosts["recency"] == pytest.approx(0.075)
    earlier = recall.recall("swap gamma", now=new.ts, as_of=old.ts).hits
    assert [hit.id for hit in earlier] == [old.id]
    assert earlier[0].why.boosts == {"recency": 0.15}


def test_the_present_regime_is_preferred_and_a_filter_on_it_is_strict() -> None:
    calm, wild = of_episode(episode(0, "swap gamma", regime="calm")), of_episode(episode(1, "swap gamma", regime="wild"))
    recall = Recall(source(calm, wild), None, EMBEDDER, OPEN)
    for regime, memory in (("calm", calm), ("wild", wild)):
        hits = recall.recall("swap gamma", now=NOW, regime=regime).hits
        assert [hits[0].id, len(hits)] == [memory.id, 2]
        assert hits[0].why.boosts == {"regime": OPEN.regime_weight}
        assert [hit.id for hit in recall.recall("swap gamma", RecallFilters(regime=regime), now=NOW).hits] == [memory.id]


def test_the_cosine_gate() -> None:
    gated = OPEN.with_changes(min_score=0.4)
    hits = Recall(episodes(), None, EMBEDDER, gated).recall("router gamma reverted transfer failed", now=NOW).hits
    assert hits
    for hit in hits:
        cosine = hit.why.sources["dense"]
        assert cosine is not None
        assert cosine >= 0.4
        assert hit.why.gate == f"cosine {cosine:.3f} >= 0.4"


def test_noise_is_withheld_and_an_answer_is_not() -> None:
    recall = Recall(episodes(), None, EMBEDDER)
    noise = recall.recall("When was the Parthenon in Nashville built?", now=NOW)
    assert (noise.grade, noise.hits) == (Grade.INCORRECT, ())
    assert noise.withheld > 0
    told = recall.recall(f"deposit into the vault at pool {ADDRESS}", now=NOW)
    assert told.grade is Grade.CORRECT
    assert told.hits[0].text == REFLECTIONS[2]
    assert told.probability is not None
    assert told.probability > 0.6


def test_the_walk_reaches_what_an_insight_rests_on() -> None:
    cited, other = of_episode(episode(1, "probe number one")), of_episode(episode(2, "probe number two"))
    belief = of_insight(insight(3, text="Router gamma fails.", label="A/B"))
    resting = replace(belief, cites=(cited.id,))
    recall = Recall(source(other, cited), source(resting), EMBEDDER, OPEN)
    hits = recall.recall("router gamma fails", now=NOW).hits
    walked = {hit.id: hit.why.walk for hit in hits}
    assert (walked[cited.id] or 0.0) > (walked[other.id] or 0.0)


@pytest.mark.parametrize("bad", [{"limit": 0}, {"limit": -1}, {"now": datetime(2026, 1, 1)}, {"as_of": datetime(2026, 1, 1)}])  # noqa: DTZ001
def test_what_has_no_meaning_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(BadRecall):
        Recall(episodes(), None, EMBEDDER).recall("gamma", **{"now": NOW, **bad})


@pytest.mark.parametrize("bad", [{"kinds": frozenset()}, {"min_confidence": Decimal("NaN")}, {"since": datetime(2026, 1, 1)}])  # noqa: DTZ001
def test_filters_without_meaning_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(BadRecall):
        RecallFilters(**bad)


def test_limits_are_capped_not_passed_on() -> None:
    many = source(*(of_episode(episode(n, "swap gamma")) for n in range(60)))
    assert len(Recall(many, None, EMBEDDER, OPEN).recall("gamma", limit=4097, now=NOW).hits) == 20
