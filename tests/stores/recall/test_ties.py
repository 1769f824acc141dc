"""Links between insights in recall: what is tied to the best is found too, and says by which link."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.operations import LinkInsights
from stores.recall.filters import RecallFilters
from stores.recall.live import LiveInsights
from stores.recall.recall import Recall
from stores.recall.stored import InsightSource
from stores.recall.tuning import RecallTuning
from stores.sqlite import WritableInsightStore
from streams.stages.writer import InsightWriter
from tests.support.gateway import WordEmbedder
from tests.support.sqlite import add, at, op, operations

NOW = at(100)
OPEN = RecallTuning(grading=False, boost_recent=False, depth=20)
FAR = 60


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritableInsightStore]:
    """Sixty insights about gas, which fill the candidates, one about a router, and one that only a link leads to."""
    embedder = WordEmbedder()
    with WritableInsightStore.open(tmp_path / "brain.db", (embedder.model_id, embedder.dimension)) as opened:
        told = [add(f"gas{n:02}", text=f"gas was high at block {n}", key=f"swap:1:P{n}") for n in range(FAR)]
        told += [
            add("router", text="gas on router gamma fails swaps", key="swap:1:Q"),
            add("second", text="thin liquidity overnight", key="k:1:R"),
        ]
        InsightWriter(opened, embedder).handle(operations(*told, tie("router", "second", 0.9)))
        yield opened


def tie(source: str, target: str, strength: float) -> LinkInsights:
    return LinkInsights(
        op_id=f"{source}-{target}-{strength}", insight_id=source, target_id=target, relation="EXTENDS", strength=strength, ts=at(1),
        author="organiser", reason="",
    )  # fmt: skip


@pytest.fixture(params=["live", "stored"])
def recall(request: pytest.FixtureRequest, store: WritableInsightStore) -> Recall:
    embedder = WordEmbedder()
    source = LiveInsights(store, embedder) if request.param == "live" else InsightSource(store, embedder)
    return Recall(None, source, embedder, OPEN)


QUESTION = "router gamma fails"


def test_what_a_link_leads_to_is_found_and_says_so(recall: Recall) -> None:
    plain = recall.recall(QUESTION, now=NOW, limit=20, tuning=OPEN.with_changes(graph=False)).hits
    assert "second" not in {hit.id for hit in plain}
    hits = {hit.id: hit for hit in recall.recall(QUESTION, now=NOW, limit=20).hits}
    assert hits["second"].why.via == "EXTENDS router"
    assert hits["second"].why.sources["dense"] is not None
    assert hits["router"].why.via is None
    order = [hit.id for hit in recall.recall(QUESTION, now=NOW, limit=20).hits]
    assert order.index("second") < 5


def test_a_filter_holds_for_what_comes_by_links_as_well(recall: Recall) -> None:
    hits = recall.recall(QUESTION, RecallFilters(tool="swap"), now=NOW, limit=20).hits
    assert "second" not in {hit.id for hit in hits}
    high = OPEN.with_changes(min_score=0.99)
    assert all(hit.id != "second" for hit in recall.recall(QUESTION, now=NOW, limit=20, tuning=high).hits)


def test_weak_links_and_what_is_archived_lead_nowhere(recall: Recall, store: WritableInsightStore) -> None:
    writer = InsightWriter(store, WordEmbedder())
    writer.handle(operations(tie("router", "second", 0.4), first=FAR + 3))
    assert "second" not in {hit.id for hit in recall.recall(QUESTION, now=NOW, limit=20).hits}
    writer.handle(operations(tie("router", "second", 0.8), op("ARCHIVE", "second", "gone"), first=FAR + 4))
    assert "second" not in {hit.id for hit in recall.recall(QUESTION, now=NOW, limit=20).hits}


def test_no_link_leads_back_in_time(recall: Recall) -> None:
    hits = recall.recall(QUESTION, now=NOW, as_of=at(50), limit=20).hits
    assert all(hit.why.via is None for hit in hits)
