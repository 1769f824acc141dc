"""The insight writer as a stage: what it applies, announces, refuses, counts, embeds; and that cuts and repeats do not matter."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.insights import InsightUpdate
from schemas.signals import DriftSignal
from schemas.topics import INSIGHTS_UPDATED, MEMORY_USED, OPERATIONS, PORTFOLIO_STANDING, RECORDS_REJECTED, SIGNALS_RAISED
from stores.sqlite import InsightFilter, StoreError, WritableInsightStore
from streams.embedded.driver import EmbeddedDriver
from streams.embedded.log import EmbeddedLog
from streams.embedded.worker import StageSlot
from streams.log import LogMismatch, OwnsOffsets
from streams.publisher import Publisher
from streams.rebuild import fold
from streams.relay import Outbox, Relay
from streams.stages.writer import STEPS, InsightWriter
from tests.support.sqlite import (
    HashEmbedder,
    add,
    at,
    cut,
    everything,
    evidence,
    in_log,
    op,
    operations,
    signal,
    signals,
    summed,
    workload,
    writing,
)
from workers.stage import Stage


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritableInsightStore]:
    with writing(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture
def writer(store: WritableInsightStore, embedder: HashEmbedder) -> InsightWriter:
    return InsightWriter(store, embedder)


LIFE = (
    add("a", text="First words.", evidence=evidence(0.5)),
    op("UPVOTE", "a", "up", 8, evidence=evidence(0.6, 8)),
    op("DOWNVOTE", "a", "down", 12),
    op("EDIT", "a", "edit", 16, text="Second words."),
    op("ARCHIVE", "a", "archive", 20),
)


def test_it_is_a_sink_that_owns_its_offsets_and_has_an_outbox(writer: InsightWriter) -> None:
    assert isinstance(writer, Stage)
    assert isinstance(writer, OwnsOffsets)
    assert isinstance(writer.outbox, Outbox)
    assert (writer.name, writer.inputs, writer.outputs) == (
        "writer",
        (OPERATIONS, SIGNALS_RAISED, MEMORY_USED, PORTFOLIO_STANDING),
        (INSIGHTS_UPDATED,),
    )


def test_every_kind_is_applied_recorded_and_announced(writer: InsightWriter, store: WritableInsightStore) -> None:
    outcome = writer.handle(operations(*LIFE))
    kinds = ["ADD", "UPVOTE", "DOWNVOTE", "EDIT", "ARCHIVE"]
    assert (outcome.processed, outcome.duplicates, outcome.refusals) == (5, 0, [])
    assert outcome.counts == dict.fromkeys(kinds, 1)
    insight = store.get("a")
    assert insight is not None
    assert (insight.text, insight.status, insight.confidence, insight.revision) == ("Second words.", "archived", Decimal("0.55"), 5)
    history = store.history("a")
    assert [(one.kind, one.revision, one.op_id) for one in history] == list(
        zip(kinds, range(1, 6), ["add-a", "up", "down", "edit", "archive"], strict=True)
    )
    steps = [None, *map(Decimal, ("0.6", "0.7", "0.55", "0.55", "0.55"))]
    assert [(one.confidence_before, one.confidence_after) for one in history] == list(pairwise(steps))
    assert [one.evidence for one in history] == [evidence(0.5), evidence(0.6, 8), None, None, None]
    sent = writer.outbox.pending(0, 100)
    assert [(emission.topic, emission.key) for _, emission in sent] == [(INSIGHTS_UPDATED, "a")] * 5
    updates = [emission.message for _, emission in sent]
    assert all(isinstance(update, InsightUpdate) for update in updates)
    assert [(one.kind, one.revision, one.insight.revision) for one in updates] == [(k, r, r) for r, k in enumerate(kinds, 1)]  # type: ignore[attr-defined]
    assert updates[-1].insight == insight  # type: ignore[attr-defined]
    assert [emission.ts_ms for _, emission in sent] == [int(at(hours).timestamp() * 1000) for hours in (0, 8, 12, 16, 20)]
    assert len({emission.message_id for _, emission in sent}) == 5


def test_refusals_have_their_place_and_reason_and_change_nothing(writer: InsightWriter, store: WritableInsightStore) -> None:
    batch = operations(op("UPVOTE", "nobody", "x"), add("a"), add("a", "second"), op("UPVOTE", "a", "up"))
    outcome = writer.handle(batch)
    assert [(one.position.offset, one.reason) for one in outcome.refusals] == [(0, "unknown_insight"), (2, "already_exists")]
    assert outcome.processed == 2
    assert store.stats().operations == {"ADD": 1, "UPVOTE": 1}
    assert store.next_offsets() == {(OPERATIONS.name, 0): 4}


def test_a_refused_operation_may_apply_when_it_is_sent_again(writer: InsightWriter, store: WritableInsightStore) -> None:
    early = op("UPVOTE", "a", "up")
    batch = operations(early, add("a"), early, early)
    outcome = writer.handle(batch)
    assert ([one.position.offset for one in outcome.refusals], outcome.processed, outcome.duplicates) == ([0], 2, 1)
    assert writer.handle(batch) == outcome
    assert [one.kind for one in store.history("a")] == ["ADD", "UPVOTE"]


def test_duplicates_are_counted_and_announced_once(writer: InsightWriter) -> None:
    first = add("a")
    assert writer.handle(operations(first, first)).duplicates == 1
    assert writer.handle(operations(first, op("UPVOTE", "a", "up"), first=2)).duplicates == 1
    assert [emission.message.kind for _, emission in writer.outbox.pending(0, 9)] == ["ADD", "UPVOTE"]  # type: ignore[attr-defined]


def test_signals_are_kept_once_whatever_their_partition(writer: InsightWriter, store: WritableInsightStore) -> None:
    first = writer.handle([*signals(signal(1), signal(2)), *signals(signal(3), signal(1), partition=2)])
    assert (first.processed, first.duplicates, first.counts) == (3, 1, {"signal.drift": 3})
    assert writer.handle(signals(signal(1), signal(2))) == writer.handle(signals(signal(1), signal(2)))
    assert {one.id for one in store.signals().items} == {"s0001", "s0002", "s0003"}
    assert store.next_offsets() == {(SIGNALS_RAISED.name, 0): 2, (SIGNALS_RAISED.name, 2): 2}


def test_only_new_words_of_active_insights_are_embedded_each_once(writer: InsightWriter, embedder: HashEmbedder) -> None:
    writer.handle(
        operations(
            add("a", text="Twice."),
            add("b", text="Twice."),
            add("c", text="Soon replaced."),
            op("EDIT", "c", "e1", text="Replaced."),
            add("d", text="Soon archived."),
            op("ARCHIVE", "d", "x1"),
        )
    )
    assert embedder.calls == [("Twice.", "Replaced.")]
    writer.handle(
        operations(op("UPVOTE", "a", "u"), op("EDIT", "a", "e2", text="Twice."), op("EDIT", "d", "e3", text="New."), first=6)
    )
    assert len(embedder.calls) == 1


def test_an_edit_moves_an_insight_in_every_index(
    writer: InsightWriter, store: WritableInsightStore, embedder: HashEmbedder
) -> None:
    writer.handle(operations(add("a", text="Old sentence."), add("b", text="Another one.")))
    writer.handle(operations(op("EDIT", "a", "e", text="Fresh wording."), first=2))
    assert store.search_text("sentence") == ()
    assert [hit.insight.id for hit in store.search_text("fresh")] == ["a"]
    assert store.knn(embedder.vector("Fresh wording."), 1)[0].score == pytest.approx(1, abs=1e-6)
    assert max(hit.score for hit in store.knn(embedder.vector("Old sentence."), 5)) < 0.99


def test_an_empty_batch_does_nothing(writer: InsightWriter, embedder: HashEmbedder) -> None:
    assert writer.handle([]).processed == 0
    assert writer.next_offsets() == {}
    assert embedder.calls == []


def test_the_steps_come_in_order(store: WritableInsightStore) -> None:
    heard: list[str] = []
    InsightWriter(store, HashEmbedder(), step=heard.append).handle(operations(add("a")))
    assert tuple(heard) == STEPS


def test_a_failing_embedder_leaves_the_store_as_it_was(store: WritableInsightStore) -> None:
    class Broken(HashEmbedder):
        def embed(self, texts: object) -> object:  # type: ignore[override]
            raise RuntimeError("no model")

    before = everything(store)
    with pytest.raises(RuntimeError, match="no model"):
        InsightWriter(store, Broken()).handle(operations(add("a")))  # type: ignore[arg-type]
    assert everything(store) == before


def test_another_model_or_log_is_refused(store: WritableInsightStore) -> None:
    with pytest.raises(StoreError, match="needs vectors of hash-vectors"):
        InsightWriter(store, HashEmbedder("other"))
    InsightWriter(store, HashEmbedder()).bind("log-a")
    with pytest.raises(LogMismatch, match="log-a") as caught:
        InsightWriter(store, HashEmbedder()).bind("log-b")
    assert caught.value.hint


def test_the_outbox_is_emptied_by_marks(writer: InsightWriter) -> None:
    writer.handle(operations(*LIFE))
    outbox = writer.outbox
    assert [seq for seq, _ in outbox.pending(2, 2)] == [3, 4]
    outbox.mark_sent(4)
    assert [seq for seq, _ in outbox.pending(0, 100)] == [5]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 25), data=st.data())
def test_neither_cuts_nor_repeats_matter(seed: int, size: int, data: st.DataObject) -> None:
    """One record at a time, against batches of which any may come again, whole or from any earlier record on."""
    records = in_log(workload(seed, 50))
    with TemporaryDirectory() as folder:
        with writing(Path(folder) / "one.db") as store:
            single = InsightWriter(store, HashEmbedder())
            one_by_one = [single.handle([record]) for record in records]
            expected = everything(store)
        with writing(Path(folder) / "cut.db") as store:
            writer = InsightWriter(store, HashEmbedder())
            done = 0
            for batch in cut(records, size):
                outcome = writer.handle(batch)
                done += len(batch)
                assert summed([outcome]) == summed(one_by_one[done - len(batch) : done])
                assert outcome.processed + outcome.duplicates + len(outcome.refusals) == len(batch)
                again = data.draw(st.integers(0, done))
                assert summed([writer.handle(records[again:done])]) == summed(one_by_one[again:done])
            assert everything(store) == expected


def test_through_the_embedded_log_and_rebuilt_from_it(tmp_path: Path) -> None:
    """Published operations become insights, their updates reach the log in order, and the log alone gives the same store."""
    sent = [one for one in workload(3, 80) if not isinstance(one, DriftSignal)]
    with EmbeddedLog(tmp_path / "log.db") as log:
        Publisher(log).publish_many(sent)
        with writing(tmp_path / "store.db") as store:
            writer = InsightWriter(store, HashEmbedder())
            slot = StageSlot(writer, threaded=True, relay=Relay(writer.outbox))
            with EmbeddedDriver(log, [slot], batch_records=7) as driver:
                driver.run_until_idle()
            expected = list(store.fingerprint_parts())
            history = {one.id: store.history(one.id) for one in store.list(InsightFilter(status=None)).items}
            assert store.pending() == []
        tally = log.tallies()["writer"]
        assert tally.received == len(sent) == tally.processed + tally.duplicates + tally.rejected
        assert log.end_offsets(RECORDS_REJECTED.name) == {0: tally.rejected}
        records = [one for partition in range(4) for one in log.read(INSIGHTS_UPDATED.name, partition, 0, 1000)]
        updates = [InsightUpdate.model_validate_json(one.value or b"") for one in records]
        for insight_id, entries in history.items():
            mine = [one.operation_id for one in updates if one.insight.id == insight_id]
            assert mine == [entry.op_id for entry in entries]
        with writing(tmp_path / "rebuilt.db") as store:
            assert fold(log, [InsightWriter(store, HashEmbedder())]) == len(sent)
            assert list(store.fingerprint_parts()) == expected
            assert {insight_id: store.history(insight_id) for insight_id in history} == history
