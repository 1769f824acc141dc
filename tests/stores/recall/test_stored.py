"""Recall over the real stores: LanceDB and SQLite give what memories in memory give, and what is gone is gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from schemas.claims import Category
from schemas.insights import Insight, InsightStatus, InsightUpdate
from stores.episodes import WritableEpisodeStore
from stores.recall.filters import RecallFilters
from stores.recall.live import LiveInsights
from stores.recall.memories import Kind, of_episode
from stores.recall.recall import Recall
from stores.recall.sources import memory_source
from stores.recall.stored import EpisodeSource, InsightSource
from stores.recall.tuning import RecallTuning
from stores.sqlite import WritableInsightStore
from tests.support.episodes import ADDRESS, DIMENSION, INFO, START, At, WordEmbedder, episode
from tests.support.sqlite import insight

EMBEDDER = WordEmbedder(DIMENSION)
NOW = START + timedelta(days=1)
OPEN = RecallTuning(grading=False, min_score=-1.0)
EPISODES = [
    episode(0, "swap through router alpha went well", tool="route", chain_id=1),
    episode(1, "swap through router gamma reverted", tool="route", chain_id=1, status="reverted", gas_used=1),
    episode(2, f"deposit at pool {ADDRESS}", tool="vault", chain_id=10),
    episode(3, "research about gamma exposure", tool="research", simulated=True),
]


@dataclass
class Stores:
    episodes: WritableEpisodeStore
    insights: WritableInsightStore

    def put(self, *insights: Insight) -> None:
        with self.insights.transaction() as writing:
            for one in insights:
                writing.put(one, EMBEDDER.embed([one.text])[0])

    def recall(self) -> Recall:
        return Recall(EpisodeSource(self.episodes), InsightSource(self.insights, EMBEDDER), EMBEDDER, OPEN)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    folder: Path = tmp_path_factory.mktemp("stores")
    with WritableEpisodeStore.open(folder / "episodes", INFO) as episodes, WritableInsightStore.open(folder / "i.db", INFO) as kept:
        episodes.record([(At(place), one) for place, one in enumerate(EPISODES)])
        made = Stores(episodes, kept)
        made.put(*(insight(n, text=f"Router gamma fails in pool {n}.", simulated=n == 2) for n in range(4)))
        yield made


def found(recall: Recall, query: str, filters: RecallFilters) -> set[str]:
    return {hit.id for hit in recall.recall(query, filters, 20, now=NOW).hits}


WEST = timezone(timedelta(hours=-9))
ENDS = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=WEST)]


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("now", ENDS)
@pytest.mark.parametrize("as_of", [None, *ENDS])
def test_the_ends_of_the_calendar_are_moments_like_any_other(
    stores: Stores, now: datetime, as_of: datetime | None, mirrored: bool
) -> None:
    recall = Recall(EpisodeSource(stores.episodes, mirrored=mirrored), LiveInsights(stores.insights, EMBEDDER), EMBEDDER, OPEN)
    for filters in (RecallFilters(), RecallFilters(since=ENDS[0], until=ENDS[1])):
        kinds = {hit.kind for hit in recall.recall("router gamma", filters, 20, now=now, as_of=as_of).hits}
        assert (Kind.EPISODE in kinds) == (as_of != ENDS[0])


def test_both_kinds_are_found(stores: Stores) -> None:
    hits = stores.recall().recall("router gamma", now=NOW, limit=20).hits
    assert {hit.kind for hit in hits} == {Kind.EPISODE, Kind.INSIGHT}
    assert hits == stores.recall().recall("router gamma", now=NOW, limit=20).hits


@pytest.mark.parametrize(
    "query", [ADDRESS, "'gamma' -- OR \"", "gamma\x00", "gamma/alpha-x", "滑点 gamma", "gamma " * 20_000, "'", ""]
)
def test_no_query_is_a_syntax_error(stores: Stores, query: str) -> None:
    stores.recall().recall(query, now=NOW)
    if ADDRESS in query:
        assert stores.recall().recall(query, now=NOW).hits[0].id == EPISODES[2].id


@pytest.mark.parametrize(
    "filters",
    [
        RecallFilters(), RecallFilters(tool="route"), RecallFilters(chain="10"), RecallFilters(tool="x' OR 1=1 --"),
        RecallFilters(include_simulated=False), RecallFilters(since=EPISODES[1].ts, until=EPISODES[3].ts),
        RecallFilters(kinds=frozenset({Kind.INSIGHT})), RecallFilters(categories=frozenset({Category.SLIPPAGE})),
    ],
)  # fmt: skip
def test_stores_filter_as_memory_does(stores: Stores, filters: RecallFilters) -> None:
    held = memory_source(DIMENSION, ((of_episode(one), EMBEDDER.embed([one.sentence])[0]) for one in EPISODES))
    live = LiveInsights(stores.insights, EMBEDDER)
    query = "router gamma swap pool research"
    assert found(stores.recall(), query, filters) == found(Recall(held, live, EMBEDDER, OPEN), query, filters)


def test_episodes_as_of(stores: Stores) -> None:
    only = RecallFilters(kinds=frozenset({Kind.EPISODE}))
    hits = stores.recall().recall("router gamma swap", only, 20, now=NOW, as_of=EPISODES[1].ts).hits
    assert {hit.id for hit in hits} == {EPISODES[0].id, EPISODES[1].id}


def test_a_lower_confidence_is_filtered_in_the_store(stores: Stores) -> None:
    wanted = RecallFilters(kinds=frozenset({Kind.INSIGHT}), min_confidence=Decimal("0.1"))
    assert found(stores.recall(), "gamma", wanted) == {"i0002", "i0003"}


def test_live_insights_follow_updates(tmp_path: Path) -> None:
    with WritableInsightStore.open(tmp_path / "i.db", INFO) as store:
        live = LiveInsights(store, EMBEDDER)
        recall = Recall(None, live, EMBEDDER, OPEN)
        first = insight(1, text="Router gamma fails.")
        edited = first.model_copy(update={"text": "Router beta fails.", "revision": 2})
        gone = edited.model_copy(update={"status": InsightStatus.ARCHIVED, "revision": 3})
        updates = [
            InsightUpdate(
                insight=one, revision=one.revision, operation_id=f"o{one.revision}", kind="EDIT", reason="", ts=one.created_ts
            )
            for one in (first, edited, gone)
        ]
        assert live.apply(updates[0])
        assert [hit.text for hit in recall.recall("router", now=NOW).hits] == ["Router gamma fails."]
        assert live.apply(updates[1])
        assert not live.apply(updates[0])
        assert [hit.text for hit in recall.recall("gamma", now=NOW).hits] == ["Router beta fails."]
        assert live.apply(updates[2])
        assert not live.apply(updates[1])
        assert len(live) == 0
        assert recall.recall("router beta", now=NOW).hits == ()


def test_a_vote_embeds_nothing(tmp_path: Path) -> None:
    embedder = WordEmbedder(DIMENSION)
    with WritableInsightStore.open(tmp_path / "i.db", INFO) as store:
        live = LiveInsights(store, embedder)
        one = insight(1)
        for revision in (1, 2, 3):
            voted = one.model_copy(update={"revision": revision})
            live.apply(
                InsightUpdate(insight=voted, revision=revision, operation_id="o", kind="UPVOTE", reason="", ts=one.created_ts)
            )
        assert embedder.calls == [[one.text]]
