"""Regimes in recall: what is from which, a strict filter before the cut, and a preference that comes and goes with the market."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from schemas.insights import Insight
from schemas.signals import RegimeSignal
from stores.episodes import EpisodeFilter, WritableEpisodeStore
from stores.episodes.filters import Span
from stores.episodes.mirror import EpisodeMirror
from stores.recall.filters import RecallFilters
from stores.recall.live import LiveInsights
from stores.recall.memories import Kind, of_episode, of_insight
from stores.recall.recall import Recall
from stores.recall.regimes import MAX_SPANS, Regimes, fits, likeness, present_of, spans_of, tagged
from stores.recall.stored import EpisodeSource, InsightSource
from stores.recall.tuning import RecallTuning
from stores.sqlite import WritableInsightStore
from stores.sqlite.regimes import Stretch, Timelines
from tests.support.episodes import DIMENSION, INFO, START, At, WordEmbedder, episode
from tests.support.regimes import regime_signal
from tests.support.sqlite import claim, evidence, insight

EMBEDDER = WordEmbedder(DIMENSION)
EPISODES = [episode(n, "swap through router gamma", tool="route", chain_id=1, simulated=n >= 30) for n in range(32)]
KEY = EPISODES[0].key
MARKET = RecallTuning(grading=False, min_score=-1.0, boost_recent=False, graph=False)


def minute(number: float) -> datetime:
    return START + timedelta(minutes=number)


def change(number: int, regime: str, at: float, *, key: str = KEY, simulated: bool = False) -> RegimeSignal:
    """A change at a minute, sure two minutes later."""
    return regime_signal(
        number, regime, None, key=key, simulated=simulated, since=minute(at), ts=minute(at + 2), stream=f"regime:{key}:x"
    )


PAPER = EPISODES[31].key
CHANGES = [change(0, "calm", 0), change(1, "turbulent", 10), change(2, "calm", 20), change(3, "calm", 0, key=PAPER, simulated=True)]


def learned(name: int, first: float, last: float, **fields: object) -> Insight:
    """An insight about the market with evidence from a stretch of time."""
    rests = evidence().model_copy(update={"first_ts": minute(first), "last_ts": minute(last)})
    plain = {
        "text": f"Router gamma is dear in pool {name}.",
        "key": KEY,
        "evidence": rests,
        "claim": claim(),
        "validated_ts": minute(last),
    }
    return insight(name, **(plain | fields))


CALM, WILD, BOTH = learned(1, 1, 8), learned(2, 11, 19), learned(3, 5, 15)
ABOVE, STATED = learned(4, 1, 8, key="route:*:*"), learned(5, 1, 8, evidence=None, claim=None)


def stretches_of(changes: Sequence[RegimeSignal]) -> tuple[Stretch, ...]:
    """What a store makes of signals."""
    with TemporaryDirectory() as folder, WritableInsightStore.open(Path(folder) / "x.db", INFO) as store:
        with store.transaction() as writing:
            writing.add_signals([(one, ("signals", 0, place)) for place, one in enumerate(changes)])
        return store.stretches()


@dataclass
class Stores:
    episodes: WritableEpisodeStore
    insights: WritableInsightStore

    def tell(self, *signals: RegimeSignal) -> None:
        with self.insights.transaction() as writing:
            writing.add_signals([(one, ("signals", 0, int(one.id[1:]))) for one in signals])
            writing.advance({("brain.signals.raised.v1", 0): max(int(one.id[1:]) for one in signals) + 1})

    def recall(self, *, live: bool = False) -> Recall:
        source = LiveInsights(self.insights, EMBEDDER) if live else InsightSource(self.insights, EMBEDDER)
        return Recall(EpisodeSource(self.episodes), source, EMBEDDER, MARKET, regimes=Regimes(self.insights))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    folder: Path = tmp_path_factory.mktemp("stores")
    with WritableEpisodeStore.open(folder / "episodes", INFO) as episodes, WritableInsightStore.open(folder / "i.db", INFO) as kept:
        episodes.record([(At(place), one) for place, one in enumerate(EPISODES)])
        made = Stores(episodes, kept)
        with kept.transaction() as writing:
            for one in (CALM, WILD, BOTH, ABOVE, STATED):
                writing.put(one, EMBEDDER.embed([one.text])[0])
        made.tell(*CHANGES)
        yield made


def minutes(hits: object, kind: Kind = Kind.EPISODE) -> list[int]:
    return sorted(int((hit.ts - START) / timedelta(minutes=1)) for hit in hits if hit.kind is kind)  # type: ignore[attr-defined]


@pytest.mark.parametrize("live", [False, True])
def test_a_filter_is_strict_and_is_there_before_the_cut(stores: Stores, live: bool) -> None:
    recall = stores.recall(live=live)
    wild = recall.recall("router gamma", RecallFilters(regime="turbulent"), 20, now=minute(60)).hits
    assert minutes(wild) == list(range(10, 20))
    assert {hit.id for hit in wild if hit.kind is Kind.INSIGHT} == {WILD.id, BOTH.id, ABOVE.id, STATED.id}
    few = recall.recall("router gamma", RecallFilters(regime="turbulent", kinds=frozenset({Kind.EPISODE})), 3, now=minute(60)).hits
    assert len(few) == 3
    assert {hit.memory.regime for hit in few} == {"turbulent"}
    only = RecallFilters(regime="calm", include_simulated=False, kinds=frozenset({Kind.EPISODE}))
    assert minutes(recall.recall("router gamma", only, 20, now=minute(60)).hits) == [*range(10), *range(20, 30)]
    only = RecallFilters(regime="calm", kinds=frozenset({Kind.INSIGHT}))
    assert {hit.id for hit in recall.recall("router gamma", only, 20, now=minute(60)).hits} == {
        CALM.id,
        BOTH.id,
        ABOVE.id,
        STATED.id,
    }
    assert recall.recall("router gamma", RecallFilters(regime="none", kinds=frozenset({Kind.EPISODE})), now=minute(60)).hits == ()


def boosts(recall: Recall, now: datetime, **more: object) -> dict[str, float]:
    hits = recall.recall("router gamma pool", RecallFilters(kinds=frozenset({Kind.INSIGHT})), 20, now=now, **more).hits  # type: ignore[arg-type]
    return {hit.id: round(hit.why.boosts.get("regime", 0.0) / MARKET.regime_weight, 2) for hit in hits}


@pytest.mark.parametrize("live", [False, True])
def test_what_was_learned_in_a_regime_returns_when_it_does(stores: Stores, live: bool) -> None:
    recall = stores.recall(live=live)
    assert boosts(recall, minute(15)) == {CALM.id: 0.0, WILD.id: 1.0, BOTH.id: 0.5, ABOVE.id: 0.0, STATED.id: 0.0}
    assert boosts(recall, minute(25)) == {CALM.id: 1.0, WILD.id: 0.0, BOTH.id: 0.5, ABOVE.id: 0.0, STATED.id: 0.0}
    first = recall.recall("router gamma pool", RecallFilters(kinds=frozenset({Kind.INSIGHT})), 20, now=minute(15)).hits[0]
    assert first.id == WILD.id
    assert first.why.regime == "turbulent now, and it is from turbulent"
    assert first.memory.regime == "turbulent"
    # A caller who knows better says so.
    assert boosts(recall, minute(25), regime="turbulent")[WILD.id] == 1.0


def test_a_decision_knows_no_more_than_was_known_then(stores: Stores) -> None:
    recall = stores.recall()
    assert boosts(recall, minute(11))[CALM.id] == 1.0  # turbulence had begun, and nobody was sure yet
    assert boosts(recall, minute(12))[CALM.id] == 0.0
    hits = recall.recall("router gamma", RecallFilters(regime="turbulent"), 20, now=minute(60), as_of=minute(11)).hits
    assert minutes(hits) == []
    hits = recall.recall("router gamma", RecallFilters(regime="turbulent"), 20, now=minute(60), as_of=minute(12)).hits
    assert minutes(hits) == [10, 11, 12]


def test_new_signals_are_seen_by_a_recall_that_is_open(stores: Stores) -> None:
    recall = stores.recall()
    assert boosts(recall, minute(45))[CALM.id] == 1.0
    stores.tell(change(9, "turbulent", 40))
    assert boosts(recall, minute(45))[CALM.id] == 0.0
    assert boosts(recall, minute(45))[WILD.id] == 1.0


def test_the_mirror_in_memory_filters_as_the_table_does(stores: Stores) -> None:
    spans = (Span(KEY, False, minute(3), minute(7)), Span(PAPER, True, minute(0), None), Span("swap:1:x", False, minute(0), None))
    wanted = EpisodeFilter(regime="calm", spans=spans)
    (vector,) = EMBEDDER.embed(["router gamma"])
    plain = {hit.id for hit in stores.episodes.search_vector(vector, wanted, limit=50)}
    assert plain == {EPISODES[n].id for n in (3, 4, 5, 6, 30, 31)}
    mirror = EpisodeMirror(DIMENSION)
    assert {one.hit.id for one in stores.episodes.candidates("", vector, wanted, limit=50, mirror=mirror)} == plain


def test_hundreds_of_spans_are_no_matter(stores: Stores) -> None:
    changes = [change(100 + n, ("turbulent", "calm")[n % 2], n / 20) for n in range(2 * MAX_SPANS + 100)]
    lines = Timelines(stretches_of(changes))
    spans = spans_of(lines, "turbulent", {"key": KEY}, simulated=None)
    assert len(spans) == MAX_SPANS
    assert spans[0].since == max(one.since for one in changes if one.regime == "turbulent")
    found = stores.episodes.latest(EpisodeFilter(regime="turbulent", spans=spans), limit=50)
    assert all(hit.key == KEY for hit in found)
    assert len(found) > 0


def test_tags_one_by_one() -> None:
    lines = Timelines(stretches_of(CHANGES))
    plain = of_episode(EPISODES[12])
    assert (tagged(plain, lines).regime, tagged(plain, lines).regimes) == ("turbulent", {"turbulent": 1.0})
    assert tagged(plain, lines, minute(11)).regime == "calm"
    assert tagged(of_episode(EPISODES[31]), lines).regime == "calm"
    recorded = replace(plain, regime="mine")
    assert tagged(recorded, lines).regime == "mine"
    assert [fits(tagged(recorded, lines), name) for name in ("mine", "turbulent", "calm")] == [True, True, False]
    both = tagged(of_insight(BOTH), lines)
    assert both.regime is None or both.regimes[both.regime] > 0.5
    assert likeness(both, "calm") + likeness(both, "turbulent") == pytest.approx(1.0)
    bound = replace(of_insight(CALM), regime="turbulent")
    assert (tagged(bound, lines).regime, likeness(tagged(bound, lines), "turbulent")) == ("turbulent", 1.0)
    assert tagged(of_insight(ABOVE), lines) == of_insight(ABOVE)
    assert present_of(of_insight(ABOVE), lines, minute(30)) is None
    assert present_of(plain, lines, minute(30)) == "calm"
