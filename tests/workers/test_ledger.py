"""The ledger: the specification's arithmetic, its limits, and that neither order between insights nor rounding matters."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pydantic import ValidationError

from schemas.insights import Insight, InsightStatus
from tests.support.sqlite import add, at, claim, directive, evidence, op
from workers.ledger import FORGOTTEN_TEXT, Rejected, Single, apply

KINDS = ("UPVOTE", "DOWNVOTE", "EDIT", "ARCHIVE", "ADJUST")


def operation(kind: str, insight_id: str, op_id: str = "op", **fields: Any) -> Single:
    if kind == "ADD":
        return add(insight_id, op_id, **fields)
    if kind == "EDIT":
        fields.setdefault("text", "New words.")
    if kind == "ADJUST":
        fields.setdefault("delta", "-0.2")
    return op(kind, insight_id, op_id, **fields)


def fold(*steps: Single) -> Insight:
    state: Insight | None = None
    for step in steps:
        after = apply(state, step)
        assert isinstance(after, Insight)
        state = after
    assert state is not None
    return state


def test_add_takes_everything_from_the_operation() -> None:
    about = claim()
    made = fold(add(about.insight_id, claim=about, evidence=evidence(), importance=0.25, simulated=True, text="Large trades cost."))
    assert (made.text, made.confidence, made.revision) == ("Large trades cost.", Decimal("0.6"), 1)
    assert (made.claim, made.evidence, made.importance, made.simulated) == (about, evidence(), 0.25, True)
    assert (made.created_ts, made.validated_ts, made.author) == (at(0), at(0), "distil")
    assert made.status is InsightStatus.ACTIVE


@pytest.mark.parametrize(
    ("kinds", "confidence"),
    [
        ("", "0.60"),
        ("U", "0.70"),
        ("D", "0.45"),
        ("UUUU", "1.00"),
        ("UUUUU", "1"),
        ("UUUUUD", "0.85"),
        ("DDDD", "0"),
        ("DDDDDD", "0"),
        ("DDDDDDU", "0.10"),
        ("UDUDUDUD", "0.40"),
        ("E", "0.60"),
        ("A", "0.60"),
        ("AU", "0.70"),
        ("AD", "0.45"),
    ],
)
def test_confidence_is_exact_and_clamped(kinds: str, confidence: str) -> None:
    names = {kind[0]: kind for kind in KINDS if kind != "ADJUST"}
    made = fold(add("i"), *(operation(names[letter], "i") for letter in kinds))
    assert made.confidence == Decimal(confidence)
    assert made.revision == 1 + len(kinds)


def test_losing_all_confidence_keeps_the_insight_active() -> None:
    made = fold(add("i"), *(op("DOWNVOTE", "i", str(number)) for number in range(5)))
    assert (made.status, made.downvotes, made.confidence) == (InsightStatus.ACTIVE, 5, Decimal(0))


def test_a_vote_brings_its_own_evidence_and_leaves_the_words_theirs() -> None:
    added = add("i", evidence=evidence(0.5))
    voted = fold(added, op("UPVOTE", "i", "u", evidence=evidence(0.25)))
    assert (voted.evidence, voted.latest) == (evidence(0.5), evidence(0.25))
    unfounded = fold(added, op("DOWNVOTE", "i", "d"))
    assert (unfounded.evidence, unfounded.latest) == (evidence(0.5), None)


def test_edit_changes_words_claim_and_evidence_and_not_confidence() -> None:
    before, after = claim(threshold=0.01), claim(threshold=0.05)
    made = fold(
        add(before.insight_id, claim=before, evidence=evidence(0.5)),
        op("EDIT", before.insight_id, "e", text="Shifted.", claim=after, evidence=evidence(0.4)),
        op("EDIT", before.insight_id, "f", text="Reworded."),
    )
    assert (made.text, made.claim, made.evidence) == ("Reworded.", after, evidence(0.4))
    assert (made.confidence, made.edits, made.upvotes, made.downvotes) == (Decimal("0.6"), 2, 0, 0)


def test_archived_insights_take_operations_and_stay_archived() -> None:
    made = fold(
        add("i"), op("ARCHIVE", "i", "a"), op("UPVOTE", "i", "u"), op("EDIT", "i", "e", text="New."), op("ARCHIVE", "i", "b")
    )
    assert (made.status, made.text, made.confidence, made.revision) == (InsightStatus.ARCHIVED, "New.", Decimal("0.7"), 5)


def test_validation_time_never_goes_back() -> None:
    made = fold(add("i"), op("UPVOTE", "i", "u", hours=12), op("UPVOTE", "i", "late", hours=8))
    assert made.validated_ts == at(12)
    assert fold(add("i"), op("ARCHIVE", "i", "a", hours=12)).validated_ts == at(0)


@pytest.mark.parametrize("status", ["active", "archived"])
def test_add_of_what_exists_is_refused(status: str) -> None:
    there = fold(add("i"), *([op("ARCHIVE", "i", "a")] if status == "archived" else []))
    refused = apply(there, add("i", "again"))
    assert isinstance(refused, Rejected)
    assert refused.reason == "already_exists"
    assert status in refused.detail


@pytest.mark.parametrize("kind", KINDS)
def test_an_operation_on_nothing_is_refused(kind: str) -> None:
    refused = apply(None, operation(kind, "nobody"))
    assert isinstance(refused, Rejected)
    assert (refused.reason, "nobody" in refused.detail) == ("unknown_insight", True)


@pytest.mark.parametrize("kind", ["ADD", "EDIT"])
def test_a_claim_of_another_insight_is_refused(kind: str) -> None:
    mine, other = claim(), claim(metric="gas_native")
    state = None if kind == "ADD" else fold(add(mine.insight_id, claim=mine))
    refused = apply(state, operation(kind, mine.insight_id, claim=other))
    assert isinstance(refused, Rejected)
    assert refused.reason == "claim_mismatch"


@pytest.mark.parametrize(
    ("adjustment", "confidence"),
    [({"confidence": "0.75"}, "0.75"), ({"delta": "-0.2"}, "0.4"), ({"delta": "1"}, "1"), ({"delta": "-1"}, "0")],
)
def test_an_adjustment_sets_or_moves_confidence_and_nothing_else(adjustment: dict[str, str], confidence: str) -> None:
    before = fold(add("i"))
    after = fold(add("i"), op("ADJUST", "i", "a", 12, **adjustment))
    assert after == before.model_copy(update={"revision": 2, "confidence": Decimal(confidence)})


@pytest.mark.parametrize("wrong", [{}, {"confidence": "0.5", "delta": "0.1"}, {"confidence": "1.1"}, {"delta": "NaN"}])
def test_an_adjustment_is_one_thing_within_bounds(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        op("ADJUST", "i", "a", **wrong)


def test_a_directive_is_the_operators_word() -> None:
    made = fold(directive("d", expires_at=at(40), priority="high"))
    assert (made.category, made.confidence, made.created_ts) == ("operator_directive", Decimal(1), at(4))
    assert made.directive is not None
    assert (made.directive.priority, made.directive.in_force(at(39)), made.directive.in_force(at(40))) == ("high", True, False)
    for kind in ("UPVOTE", "DOWNVOTE", "EDIT", "ADJUST"):
        refused = apply(made, operation(kind, "d"))
        assert isinstance(refused, Rejected)
        assert refused.reason == "directive_fixed"
    assert fold(directive("d"), op("ARCHIVE", "d", "a")).status is InsightStatus.ARCHIVED
    with pytest.raises(ValidationError, match="expires after"):
        directive("d", expires_at=at(4))


def test_what_is_forgotten_says_nothing_and_does_not_come_back() -> None:
    about = claim()
    gone = fold(
        add(about.insight_id, claim=about, evidence=evidence(), text="Private words.", label="private", secret="kept field"),
        op("UPVOTE", about.insight_id, "u"),
        op("FORGET", about.insight_id, "f"),
    )
    assert (gone.status, gone.text, gone.revision, gone.confidence) == (InsightStatus.FORGOTTEN, FORGOTTEN_TEXT, 3, Decimal(0))
    assert b"rivate" not in gone.to_wire()
    assert b"kept field" not in gone.to_wire()
    for kind in ("ADD", *KINDS, "FORGET"):
        refused = apply(gone, operation(kind, about.insight_id))
        assert isinstance(refused, Rejected)
        assert refused.reason == "forgotten"


def test_expel_golden() -> None:
    """The reference's own example (counts 2, 1, 3; then ADD, AGREE, REMOVE, EDIT), its count read from our counters."""
    states: dict[str, Insight] = {}

    def do(step: Single) -> None:
        after = apply(states.get(step.insight_id), step)
        assert isinstance(after, Insight)
        states[step.insight_id] = after

    for step in (
        add("1", text="Check gas first."),
        add("2", text="Old rule."),
        op("DOWNVOTE", "2", "start"),
        add("3", text="Prefer L2."),
        op("UPVOTE", "3", "start"),
        op("DOWNVOTE", "2", "remove"),
        op("UPVOTE", "1", "agree"),
        op("EDIT", "3", "edit", text="Prefer L2 for small swaps."),
        add("4", text="New rule one."),
    ):
        do(step)
    counts = [(state.text, 2 + state.upvotes + state.edits - state.downvotes) for state in states.values()]
    kept = sorted((pair for pair in counts if pair[1] > 0), key=lambda pair: -pair[1])
    assert kept == [("Prefer L2 for small swaps.", 4), ("Check gas first.", 3), ("New rule one.", 2)]


class LedgerMachine(RuleBasedStateMachine):
    """Any operations on a few insights, against a reckoning in whole hundredths."""

    def __init__(self) -> None:
        super().__init__()
        self.states: dict[str, Insight] = {}
        self.hundredths: dict[str, int] = {}
        self.applied: dict[str, int] = {}

    @rule(name=st.sampled_from("abc"), kind=st.sampled_from(("ADD", *KINDS)), hours=st.floats(0, 1000))
    def step(self, name: str, kind: str, hours: float) -> None:
        fields = {"ts": at(hours)} if kind == "ADD" else {"hours": hours}
        after = apply(self.states.get(name), operation(kind, name, **fields))
        if (kind == "ADD") == (name in self.states):
            assert isinstance(after, Rejected)
            return
        assert isinstance(after, Insight)
        moved = {"ADD": 60, "UPVOTE": 10, "DOWNVOTE": -15, "ADJUST": -20}.get(kind, 0)
        self.hundredths[name] = min(100, max(0, self.hundredths.get(name, 0) + moved))
        self.applied[name] = self.applied.get(name, 0) + 1
        self.states[name] = after

    @invariant()
    def agrees(self) -> None:
        for name, state in self.states.items():
            assert state.confidence * 100 == self.hundredths[name]
            assert 0 <= state.confidence <= 1
            assert state.revision == self.applied[name]
            assert state.created_ts <= state.validated_ts
            assert Insight.model_validate_json(state.to_wire()) == state


TestLedgerMachine = LedgerMachine.TestCase


@given(data=st.data(), kinds=st.lists(st.sampled_from(KINDS), max_size=12))
def test_the_order_of_distinct_insights_does_not_matter(data: st.DataObject, kinds: list[str]) -> None:
    owners = [data.draw(st.sampled_from("abc")) for _ in kinds]
    steps = [add(name) for name in "abc"] + [
        operation(kind, owner, f"op{place}", hours=place) for place, (kind, owner) in enumerate(zip(kinds, owners, strict=True))
    ]
    turns = data.draw(st.permutations([step.insight_id for step in steps]))
    queues = {name: [step for step in steps if step.insight_id == name] for name in "abc"}
    shuffled = [queues[name].pop(0) for name in turns]
    assert _all(steps) == _all(shuffled)


def _all(steps: list[Single]) -> dict[str, Insight]:
    states: dict[str, Insight] = {}
    for step in steps:
        after = apply(states.get(step.insight_id), step)
        assert isinstance(after, Insight)
        states[step.insight_id] = after
    return states
