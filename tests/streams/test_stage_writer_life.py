"""The life of insights through the writer: outcomes, contradictions, merges, restoration, doubt, and every text in the history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.standing import standings
from schemas.claims import Claim, Condition
from schemas.insights import Insight, InsightStatus
from schemas.usage import MemoryUsed
from stores.recall.history import beliefs_at
from stores.sqlite import InsightFilter, Tally, WritableInsightStore
from streams.stages.writer import InsightWriter
from tests.support.sqlite import KEY, HashEmbedder, add, at, evidence, note, op, operations, signal, signals, uses, writing
from workers.stage import Delivery


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritableInsightStore]:
    with writing(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture
def writer(store: WritableInsightStore) -> InsightWriter:
    return InsightWriter(store, HashEmbedder())


def held(store: WritableInsightStore, insight_id: str) -> Insight:
    found = store.get(insight_id)
    assert found is not None
    return found


# --- outcomes


def used(use_id: str, *memories: str, ended: str = "success", event: str | None = None, recalled: Sequence[str] = ()) -> MemoryUsed:
    return MemoryUsed(use_id=use_id, agent_id="a", ts=at(4), used=memories, recalled=tuple(recalled), ended=ended, event_id=event)


def test_uses_and_how_they_ended_move_the_counters_exactly_once(writer: InsightWriter, store: WritableInsightStore) -> None:
    batch = [
        used("1", "i", "j"),
        used("2", "i", ended="failure"),
        used("3", "i", ended="unknown"),
        used("4", "j", recalled=["i"]),
        used("1", "i", ended="failure"),
    ]
    writer.handle(uses(*batch))
    writer.handle(uses(*batch))
    assert store.tallies(["i", "j", "k"]) == {"i": Tally(1, 1), "j": Tally(2, 0)}


def test_one_execution_counts_once_however_often_it_is_reported(writer: InsightWriter, store: WritableInsightStore) -> None:
    writer.handle(uses(used("1", "i", event="e"), used("2", "i", event="e"), used("3", "i", event="f")))
    assert store.tallies(["i"]) == {"i": Tally(2, 0)}


OUTCOMES = [used(str(n), f"i{n % 3}", ended=("success", "failure")[n % 2], event=f"e{n // 2}") for n in range(8)]
LIFE = [add("i0"), add("i1"), op("UPVOTE", "i0", "u", evidence=evidence()), op("ARCHIVE", "i1", "m", cause="merged", by="i0")]


@settings(max_examples=8)
@given(st.permutations(range(12)))
def test_however_the_topics_are_interleaved_the_fingerprint_is_the_same(tmp_path_factory: Any, order: list[int]) -> None:
    """Uses and alarms may arrive before or after the operations on what they are about: a rebuild reads one topic after another."""
    told = [*operations(*LIFE), *uses(*OUTCOMES)]
    lines = []
    for way in (list(range(12)), order):
        with writing(tmp_path_factory.mktemp("mixed") / "store.db") as store:
            writer = InsightWriter(store, HashEmbedder())
            for delivery in _merged(told, way):
                writer.handle([delivery])
            lines.append(list(store.fingerprint_parts()))
    assert lines[0] == lines[1]


def _merged(told: list[Delivery], way: list[int]) -> list[Delivery]:
    """The records with their topics' own orders kept, interleaved by ``way``."""
    topics = [told[place].position.topic for place in way]
    queues = {topic: iter([one for one in told if one.position.topic == topic]) for topic in set(topics)}
    return [next(queues[topic]) for topic in topics]


def test_problematic_insights_are_found(writer: InsightWriter, store: WritableInsightStore) -> None:
    writer.handle(operations(add("bad"), add("good"), add("worse")))
    writer.handle(uses(used("1", "bad", "good"), used("2", "bad", "worse", ended="failure"), used("3", "good")))
    found = store.list(InsightFilter(problematic=True)).items
    assert [one.id for one in found] == ["bad"], "harmful ≥ helpful > 0: what never helped has no helpful use to weigh"
    assert store.tallies(["bad"])["bad"].problematic
    assert not Tally(0, 3).problematic


# --- merging


def test_a_merge_sums_the_counters_and_keeps_the_greater_importance(writer: InsightWriter, store: WritableInsightStore) -> None:
    merge = op("ARCHIVE", "b", "m", cause="merged", by="a")
    writer.handle(operations(add("a", importance=0.2), add("b", importance=0.6), merge))
    writer.handle(uses(used("1", "a"), used("2", "b"), used("3", "b", ended="failure")))
    stays, goes = held(store, "a"), held(store, "b")
    assert store.tallies(["a"]) == {"a": Tally(2, 1)}
    assert (stays.importance, stays.revision, goes.archived and goes.archived.by) == (0.6, 2, "a")
    assert [one.reason for one in store.history("a")][1] == "took in b: evidence"
    again = op("ARCHIVE", "a", "n", cause="merged", by="c")
    writer.handle(operations(add("c"), again, first=3))
    assert store.tallies(["c"]) == {"c": Tally(2, 1)}, "what was merged before goes along"


MERGES = [add("a"), add("b"), add("c"), *(op("ARCHIVE", one, f"m{one}", cause="merged", by=into) for one, into in ("ab", "bc"))]


THEN = [[], [op("FORGET", "b", "f")], [op("ADJUST", "a", "j", confidence="0.3")], [op("FORGET", "c", "f")]]


@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_what_was_merged_goes_along_however_the_batches_are_cut(
    writer: InsightWriter, store: WritableInsightStore, size: int, then: list[Any]
) -> None:
    """``a`` went into ``b`` and that into ``c``. What becomes of either afterwards takes no use away from what holds both now."""
    told = operations(*MERGES, *then)
    for first in range(0, len(told), size):
        writer.handle(told[first : first + size])
    writer.handle(uses(used("1", "a"), used("2", "b"), used("3", "c")))
    forgotten = then[0].insight_id if then and then[0].kind == "FORGET" else ""
    assert store.tallies(["c"])["c"].helpful == {"": 3, "b": 2, "c": 1}[forgotten]


def test_a_merge_into_nothing_or_into_what_is_out_is_refused(writer: InsightWriter, store: WritableInsightStore) -> None:
    batch = [add("a"), op("ARCHIVE", "a", "m", cause="merged", by="nobody"), add("b"), op("ARCHIVE", "b", "x")]
    outcome = writer.handle(operations(*batch, op("ARCHIVE", "a", "n", cause="merged", by="b")))
    assert [one.reason for one in outcome.refusals] == ["unknown_insight", "cannot_merge"]
    assert held(store, "a").status is InsightStatus.ACTIVE


# --- contradictions


def says(op_: Any = ">=", direction: Any = "higher", value: float = 0.01) -> Claim:
    return Claim(
        key=KEY, metric="cost_bps", conditions=(Condition(feature="size_share", op=op_, value=value),), direction=direction
    )


def believes(claim: Claim, hours: float, effect: float = 0.5) -> Any:
    return add(claim.insight_id, claim=claim, evidence=evidence(effect, hours), ts=at(hours))


@pytest.mark.parametrize("together", [True, False])
def test_of_two_contrary_claims_the_later_holds_and_both_are_linked(
    writer: InsightWriter, store: WritableInsightStore, together: bool
) -> None:
    old, new = says(), says("<")
    batch = operations(believes(old, 4), believes(new, 8))
    for part in [batch] if together else [[one] for one in batch]:
        writer.handle(part)
    gone, here = held(store, old.insight_id), held(store, new.insight_id)
    assert (gone.status, gone.archived and (gone.archived.cause, gone.archived.by)) == ("archived", ("superseded", here.id))
    assert (here.status, gone.confidence) == ("active", Decimal("0.60"))
    assert [(one.source, one.relation, one.target) for one in store.links([gone.id])] == [(here.id, "CONTRASTS", gone.id)]
    assert store.history(gone.id)[-1].reason.startswith("contradicted: the later evidence holds")


def test_a_claim_that_gave_way_comes_back_when_its_evidence_outweighs_the_others(
    writer: InsightWriter, store: WritableInsightStore
) -> None:
    old, new = says(), says("<")
    writer.handle(operations(believes(old, 4), believes(new, 8)))
    writer.handle(operations(op("UPVOTE", old.insight_id, "u", 12, evidence=evidence(0.6, 12)), first=2))
    assert (held(store, old.insight_id).status, held(store, new.insight_id).status) == ("active", "archived")
    assert [hit.insight.id for hit in store.knn(HashEmbedder().vector(held(store, old.insight_id).text), 5)] == [old.insight_id]


def test_claims_that_say_the_same_or_are_about_something_else_leave_each_other_alone(
    writer: InsightWriter, store: WritableInsightStore
) -> None:
    writer.handle(operations(believes(says(), 4), believes(says("<", value=0.5), 8)))
    assert [one.status for one in store.list(InsightFilter(status=None)).items] == ["active"] * 2
    assert store.links([says().insight_id]) == ()


def test_notes_that_contradict_each_other_are_linked(writer: InsightWriter, store: WritableInsightStore) -> None:
    changed = note("n2", "Gas is 40 gwei.", author="other", similar=[("n1", 0.96)])
    writer.handle(operations(note("n1", "Gas is 30 gwei."), changed))
    assert [(one.source, one.relation, one.target) for one in store.links(["n1"])] == [("n2", "CONTRASTS", "n1")]


# --- doubt


def test_a_drift_alarm_puts_a_claim_under_re_examination_until_the_next_vote(
    writer: InsightWriter, store: WritableInsightStore
) -> None:
    mine, other = says(), Claim(key=KEY, metric="gas_gwei", conditions=says().conditions, direction="higher")
    writer.handle(operations(believes(mine, 4), believes(other, 4)))

    def since() -> dict[str, datetime | None]:
        stand = standings(store, store.list().items)
        return {name: stand[name].reexamined_since for name in (mine.insight_id, other.insight_id)}

    writer.handle(signals(signal(2), signal(7, id="sim", simulated=True)))
    assert since() == {mine.insight_id: None, other.insight_id: None}, "one before the last vote, one simulated"
    writer.handle(signals(signal(9), signal(11), first=2))
    assert since() == {mine.insight_id: at(9), other.insight_id: None}, "gas is not concerned"
    writer.handle(operations(op("UPVOTE", mine.insight_id, "u", 10, evidence=evidence(0.5, 10)), first=2))
    assert since()[mine.insight_id] == at(11)
    writer.handle(operations(op("EDIT", mine.insight_id, "e", 12, text="Other words."), first=3))
    assert since()[mine.insight_id] is None
    writer.handle(signals(signal(20, key="swap:1:other"), first=4))
    assert since()[mine.insight_id] is None, "another market's alarm"


# --- history


def test_the_history_has_every_text_and_looking_back_shows_it(writer: InsightWriter, store: WritableInsightStore) -> None:
    edits = [op("EDIT", "i", f"e{hour}", hour, text=f"As of hour {hour}.") for hour in (5, 9)]
    writer.handle(operations(add("i", text="At first."), *edits, op("ARCHIVE", "i", "a", 12), op("RESTORE", "i", "r", 14)))
    assert [(one.kind, one.text) for one in store.history("i")] == [
        ("ADD", "At first."), ("EDIT", "As of hour 5."), ("EDIT", "As of hour 9."), ("ARCHIVE", None), ("RESTORE", None),
    ]  # fmt: skip
    known = {hour: [one.text for one in beliefs_at(store, at(hour)).insights] for hour in (1, 6, 10, 13, 15)}
    assert known == {1: ["At first."], 6: ["As of hour 5."], 10: ["As of hour 9."], 13: [], 15: ["As of hour 9."]}


def test_forgetting_takes_the_texts_out_of_the_history_too(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with writing(path) as store:
        writer = InsightWriter(store, HashEmbedder())
        edits = [op("EDIT", "i", "e", 5, text="Xylophone two."), op("EDIT", "i", "f", 6, text="Harmless.")]
        writer.handle(
            operations(add("i", text="Xylophone one."), *edits, add("k"), op("ARCHIVE", "k", "m", cause="merged", by="i"))
        )
        assert store.traces("i", "Xylophone")["history"] == 4
        assert store.traces("i")["merged"] == 1
        writer.handle(operations(op("FORGET", "i", "g", 7), first=5))
        writer.outbox.mark_sent(writer.outbox.pending(0, 100)[-1][0])
        assert not any(store.traces("i", "Xylophone").values())
        assert [one.changes for one in store.history("i")] == [None] * 5
        assert beliefs_at(store, at(5.5)).insights == ()
    for file in tmp_path.iterdir():
        assert b"ylophone" not in file.read_bytes().lower(), file.name
