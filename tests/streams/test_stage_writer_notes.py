"""What people and agents state, through the writer: directives, notes, adjustments, forgetting; and uses of the memory."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from schemas.insights import InsightStatus
from schemas.topics import MEMORY_USED, OPERATIONS
from stores.sqlite import InsightFilter, WritableInsightStore
from streams.stages.writer import InsightWriter
from tests.support.sqlite import HashEmbedder, add, directive, evidence, note, op, operations, use, uses, writing


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritableInsightStore]:
    with writing(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture
def writer(store: WritableInsightStore) -> InsightWriter:
    return InsightWriter(store, HashEmbedder())


def updates(writer: InsightWriter) -> list[tuple[str, str, int]]:
    """Announcements: insight, kind, revision."""
    return [
        (emission.key, emission.message.kind, emission.message.revision)  # type: ignore[attr-defined]
        for _, emission in writer.outbox.pending(0, 100)
    ]


def test_the_same_words_twice_reinforce_whatever_was_measured_and_in_one_batch_or_two(
    writer: InsightWriter, store: WritableInsightStore
) -> None:
    """Two clients that write the same at once cannot see each other; both are kept in the history of one note."""
    writer.handle(operations(note("n1"), note("n2", "gas is HIGH on  Mondays.", author="other")))
    writer.handle(operations(note("n3"), first=2))
    held = store.get("n1")
    assert held is not None
    assert (held.confidence, held.note and held.note.reinforced, store.get("n2"), store.get("n3")) == (1, 2, None, None)
    assert [(one.op_id, one.reason) for one in store.history("n1")] == [
        ("remember-n1", "new: seen"),
        ("remember-n2", "reinforced: seen"),
        ("remember-n3", "reinforced: seen"),
    ]
    verdict = store.note_verdict("remember-n3")
    assert verdict is not None
    assert (verdict.event, verdict.insight_id, verdict.other_id, verdict.similarity) == ("reinforced", "n1", "n1", 1.0)
    assert len(updates(writer)) == 3 == len({emission.message_id for _, emission in writer.outbox.pending(0, 9)})


def test_a_contradiction_changes_two_insights_at_once(writer: InsightWriter, store: WritableInsightStore) -> None:
    opposite = note("n2", "Gas is not high on Mondays.", author="other", similar=[("n1", 0.96)])
    writer.handle(operations(note("n1"), opposite))
    old, new = store.get("n1"), store.get("n2")
    assert old is not None
    assert new is not None
    assert (old.status, old.confidence, new.status, new.confidence) == ("archived", Decimal("0.9"), "active", 1)
    assert {one.insight_id for one in store.changed_by("remember-n2")} == {"n1", "n2"}
    assert updates(writer) == [("n1", "REMEMBER", 1), ("n1", "REMEMBER", 2), ("n2", "REMEMBER", 1)]
    assert [hit.insight.id for hit in store.search_text("Mondays")] == ["n2"]


def test_what_a_learned_insight_says_already_changes_nothing(writer: InsightWriter, store: WritableInsightStore) -> None:
    writer.handle(operations(add("i", text="Gas is high on Mondays.", key="*"), note("n", similar=[("i", 0.99)])))
    assert store.note_verdict("remember-n") is not None
    assert (len(store.history("i")), store.get("n")) == (1, None)
    assert store.fate("remember-n", (OPERATIONS.name, 0, 1)).state == "applied"


def test_refusals_of_notes(writer: InsightWriter, store: WritableInsightStore) -> None:
    batch = operations(
        note("n"), note("n", "Other words.", op_id="x"), note("m", corrects="i"), note("o", "Yes.", corrects="nobody")
    )
    reasons = [refusal.reason for refusal in writer.handle(batch).refusals]
    assert reasons == ["already_exists", "cannot_correct", "cannot_correct"]
    assert store.fate("x", (OPERATIONS.name, 0, 1)).reason == "already_exists"


def test_directives_are_found_like_any_insight_and_stay_as_they_are(writer: InsightWriter, store: WritableInsightStore) -> None:
    outcome = writer.handle(operations(directive("d", "Never touch the blue pool."), op("DOWNVOTE", "d", "v")))
    assert [refusal.reason for refusal in outcome.refusals] == ["directive_fixed"]
    assert [hit.insight.id for hit in store.search_text("blue pool")] == ["d"]


def test_fates(writer: InsightWriter, store: WritableInsightStore) -> None:
    place = (OPERATIONS.name, 0, 0)
    assert store.fate("add-a", place).state == "pending"
    writer.handle(operations(add("a"), op("UPVOTE", "nobody", "u")))
    assert store.fate("add-a", place).state == "applied"
    assert store.fate("add-a", (OPERATIONS.name, 0, 99)).place == place
    refused = store.fate("u", (OPERATIONS.name, 0, 1))
    assert (refused.state, refused.reason) == ("refused", "unknown_insight")
    assert store.fate("never", place).reason == "unreadable"
    assert store.fate("later", (OPERATIONS.name, 0, 2)).state == "pending"


def test_forgetting_proves_absence(tmp_path: Path) -> None:
    """From rows, text, vectors, history and the bytes of the file; from searches; and in a batch with what came before."""
    path = tmp_path / "store.db"
    embedder = HashEmbedder()
    secret = "Xylophone wallets pay twice"
    with writing(path) as store:
        writer = InsightWriter(store, embedder)
        telling = add("a", text=secret, label="xylophone", evidence=evidence(), reason="xylophone said so")
        writer.handle(operations(telling, op("UPVOTE", "a", "u", evidence=evidence(0.7)), note("n", secret), add("b")))
        assert all(store.traces("a", "Xylophone")[place] for place in ("rows", "documents", "text", "vectors", "history"))
        writer.handle(operations(op("FORGET", "a", "f"), op("FORGET", "n", "g"), op("UPVOTE", "a", "v"), first=4))
        writer.outbox.mark_sent(writer.outbox.pending(0, 100)[-1][0])
        for gone in ("a", "n"):
            assert not any(store.traces(gone, "Xylophone").values())
            left = store.get(gone)
            assert left is not None
            assert (left.status, left.text) == (InsightStatus.FORGOTTEN, "(forgotten)")
        assert store.search_text("xylophone wallets") == ()
        assert [hit.insight.id for hit in store.knn(embedder.vector(secret), 10)] == ["b"]
        assert [one.id for one in store.list(InsightFilter(status=None)).items] == ["b"]
        assert [(one.kind, one.reason, one.evidence) for one in store.history("a")] == [
            ("ADD", "", None),
            ("UPVOTE", "", None),
            ("FORGET", "evidence", None),
        ]
        stats = store.stats()
        assert (stats.active, stats.forgotten, stats.vectors, stats.refused) == (1, 2, 1, 1)
    for file in tmp_path.iterdir():
        assert b"ylophone" not in file.read_bytes().lower(), file.name


def test_uses_are_kept_once_and_counted(writer: InsightWriter, store: WritableInsightStore) -> None:
    first = writer.handle([*uses(use("1", "a", recalled=["a", "b"]), use("1", "a")), *uses(use("2", "a", hours=8), partition=2)])
    assert (first.processed, first.duplicates, first.counts) == (2, 1, {"use": 2})
    assert writer.handle(uses(use("1", "a", recalled=["a", "b"]))).processed == 1, "answered as it was the first time"
    counts = store.use_counts(["a", "b", "c"])
    assert {name: (one.recalled, one.used) for name, one in counts.items()} == {"a": (2, 2), "b": (1, 0)}
    assert store.use_counts(["a"], since=use("2", hours=8).ts)["a"].recalled == 1
    assert store.fate_of_use("1", (MEMORY_USED.name, 0, 0)).state == "applied"
    page = store.uses("agent", limit=1)
    assert [one.use_id for one in page.items] == ["2"]
    assert [one.use_id for one in store.uses("agent", limit=1, cursor=page.cursor).items] == ["1"]
    assert store.uses("nobody").items == ()
