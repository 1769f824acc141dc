"""Contradictions: found by the algebra of claims and the form of sentences, never by cosine; settled by evidence, then recency."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from schemas.claims import Claim, Condition, Evidence
from schemas.insights import Insight, InsightStatus
from tests.support.sqlite import KEY, add, evidence, note
from workers.contradiction import STEADY, Relation, claims, resolve, sentences, steady
from workers.ledger import apply
from workers.notes import Candidate, Event, Remembered, decide, remember
from workers.values import values


def says(op: Any = ">=", value: Any = 0.01, direction: Any = "higher", feature: str = "size_share", **more: Any) -> Claim:
    condition = Condition(feature=feature, op=op, value=value)
    return Claim(**{"key": KEY, "metric": "cost_bps", "conditions": (condition,), "direction": direction, **more})


def believed(claim: Claim, seen: Evidence) -> Insight:
    made = apply(None, add(claim.insight_id, claim=claim, evidence=seen))
    assert isinstance(made, Insight)
    return made


@pytest.mark.parametrize(
    ("one", "other", "relation"),
    [
        (says(), says("<", direction="lower"), Relation.SAME),
        (says(), says("<"), Relation.OPPOSITE),
        (says(), says("<", 0.011), Relation.OPPOSITE),
        (says(), says("<", 0.02), Relation.OTHER),
        (says(), says("<", 0.011, "lower"), Relation.OTHER),
        (says(), says(direction="lower"), Relation.OPPOSITE),
        (says("==", True, feature="private"), says("==", False, "lower", feature="private"), Relation.SAME),
        (says("==", True, feature="private"), says("==", False, feature="private"), Relation.OPPOSITE),
        (says("==", "alpha", feature="router"), says("==", "beta", "lower", feature="router"), Relation.OTHER),
        (says(), says("<", metric="gas_gwei"), Relation.OTHER),
        (says(), says("<", level="tool", key="swap"), Relation.OTHER),
        (says(), says("<", feature="hour"), Relation.OTHER),
    ],
)
def test_the_algebra_of_claims(one: Claim, other: Claim, relation: Relation) -> None:
    assert claims(one, other) is claims(other, one) is relation


def test_a_conjunction_has_no_complement() -> None:
    two = says(conditions=(Condition(feature="a", op=">=", value=1.0), Condition(feature="b", op=">=", value=1.0)))
    turned = says(
        direction="lower", conditions=(Condition(feature="a", op="<", value=1.0), Condition(feature="b", op="<", value=1.0))
    )
    assert claims(two, turned) is Relation.OTHER


def test_the_later_evidence_holds_unless_it_is_much_less_and_shows_nothing() -> None:
    old = believed(says(), evidence(0.5, hours=4))
    new = believed(says("<"), evidence(0.5, hours=8))
    assert (resolve(old, new).holds, resolve(new, old).holds) == (new, new)
    weak = evidence(0.1, hours=8).model_copy(update={"n_inside": 10, "n_outside": 10})
    thin = believed(says("<"), weak)
    assert resolve(old, thin).holds == old
    assert "20 later episodes" in resolve(old, thin).why


def test_a_claim_whose_latest_evidence_speaks_against_it_gives_way_to_an_older_one() -> None:
    old = believed(says(), evidence(0.5, hours=4))
    new = believed(says("<"), evidence(0.5, hours=8)).model_copy(update={"latest": evidence(-0.5, hours=9)})
    assert resolve(old, new).holds == old


def told(text: str, other: str, same_author: bool = True) -> Relation:
    return sentences(values(text), values(other), same_author=same_author)


@pytest.mark.parametrize(
    ("text", "other", "relation"),
    [
        ("Gas limit is 40 gwei.", "Gas limit is 30 gwei.", Relation.NEW_VALUE),
        ("Gas limit is not 30 gwei.", "Gas limit is 30 gwei.", Relation.OPPOSITE),
        ("We sold all ARB.", "We own ARB.", Relation.GONE),
        ("Sold 500 ARB.", "We own 500 ARB.", Relation.GONE),
        ("We hold ARB again, bought today.", "We sold ARB.", Relation.GONE),
        ("Sold 100 ARB.", "We own 500 ARB.", Relation.OTHER),
        ("Sold 100 ARB.", "We own ARB.", Relation.OTHER),
        ("We did not sell ARB.", "We own ARB.", Relation.OTHER),
        ("We sold LDO.", "We own ARB.", Relation.OTHER),
        ("Sold the ARB of the hot wallet.", "We own ARB in the cold wallet.", Relation.OTHER),
        ("ARB is volatile on Mondays.", "We own ARB.", Relation.OTHER),
        ("ARB has an unlock in March.", "Swaps of ARB slip by 30 bps.", Relation.OTHER),
    ],
)
def test_sold_against_owned_and_a_mention_that_retires_nothing(text: str, other: str, relation: Relation) -> None:
    assert told(text, other) is relation


def test_what_one_agent_sold_another_may_still_own() -> None:
    assert told("We sold all ARB.", "We own ARB.", same_author=False) is Relation.OTHER


def kept(text: str, name: str = "old", **fields: Any) -> Insight:
    return remember(note(name, text, **fields), ()).changes[0][1]


def events(done: Remembered) -> list[tuple[str, str]]:
    return [(after.id, str(after.status)) for _, after in done.changes]


def test_selling_retires_owning_though_the_cosine_is_low_and_mentioning_does_not_though_it_is_high() -> None:
    owned = kept("We own 500 ARB.")
    sold = remember(note("n", "Sold 500 ARB."), [Candidate(owned, 0.55)])
    assert (sold.verdict.event, events(sold)) == (Event.REPLACED, [("old", "archived"), ("n", "active")])
    assert remember(note("n", "Sold 500 ARB."), [Candidate(owned, 0.44)]).verdict.event is Event.NEW
    assert remember(note("n", "ARB has an unlock in March."), [Candidate(owned, 0.94)]).verdict.event is Event.NEW


def test_a_correction_does_not_leave_the_old_one_active() -> None:
    old = kept("The pool fee is 5 bps.")
    done = remember(note("n", "Look again, it charges 30 bps.", corrects="old"), [], old)
    assert events(done) == [("old", "archived"), ("n", "active")]
    after = done.changes[0][1]
    assert (after.archived and (after.archived.cause, after.archived.by), after.note and after.note.superseded_by) == (
        ("superseded", "n"),
        "n",
    )


def confirmed(text: str, times: int) -> Insight:
    state = kept(text, author="a")
    for number in range(times):
        state = remember(note(f"c{number}", text, author=f"other{number}"), [Candidate(state, 1.0)]).changes[0][1]
    return state


def test_a_steady_note_is_contested_by_one_contrary_word_and_gives_way_to_as_many() -> None:
    """Evidence before recency: one voice against three confirmations changes a confidence, not what is believed."""
    old = confirmed("Gas limit is 30 gwei.", STEADY)
    assert steady(old)
    first = remember(note("n", "Gas limit is 40 gwei.", author="z", hours=5), [Candidate(old, 0.97)])
    assert first.verdict.event is Event.CONTESTED
    doubted, new = (after for _, after in first.changes)
    assert (doubted.status, str(old.confidence - doubted.confidence), new.note and new.note.contests) == ("active", "0.10", "old")
    for number in range(STEADY):
        again = note(f"m{number}", "Gas limit is 40 gwei.", author=f"y{number}", hours=6)
        done = remember(again, [Candidate(new, 1.0), Candidate(doubted, 0.97)], None, doubted)
        assert done.verdict.event is Event.REINFORCED
        new = done.changes[0][1]
    assert [(after.id, after.status) for _, after in done.changes] == [("n", InsightStatus.ACTIVE), ("old", InsightStatus.ARCHIVED)]
    assert done.changes[1][1].archived is not None
    assert done.changes[1][1].archived.by == "n"


def test_confirmation_in_other_words_ends_a_contest_too() -> None:
    old = confirmed("Swaps succeed on the alpha router at night.", STEADY)
    contrary = note("n", "Swaps fail on the alpha router at night.", author="z", hours=5)
    doubted, new = (after for _, after in remember(contrary, [Candidate(old, 0.97)]).changes)
    for number in range(STEADY):
        said = note(f"m{number}", "Routing through alpha at night makes swaps fail.", author=f"y{number}", hours=6)
        done = remember(said, [Candidate(new, 0.9)], None, doubted)
        assert done.verdict.event is Event.SUPPORTED
        new = done.changes[0][1]
    assert events(done) == [("n", "active"), ("m2", "active"), ("old", "archived")]


def test_an_authors_own_words_again_do_not_make_a_note_steady() -> None:
    state = kept("Gas limit is 30 gwei.", author="a")
    for number in range(2 * STEADY):
        state = remember(note(f"c{number}", state.text, author="a"), [Candidate(state, 1.0)]).changes[0][1]
    state = remember(note("d", state.text, author="b"), [Candidate(state, 1.0)]).changes[0][1]
    assert state.note is not None
    assert (state.note.reinforced, state.note.confirmed_by) == (2 * STEADY + 1, ("b",))
    assert decide(note("n", "Gas limit is 40 gwei.", author="z"), [Candidate(state, 0.97)]).event is Event.SUPERSEDED


def test_what_confirmed_a_value_does_not_confirm_the_one_it_is_changed_to() -> None:
    old = confirmed("Gas limit is 30 gwei.", STEADY)
    changed = remember(note("u", "Gas limit is 50 gwei.", author="a"), [Candidate(old, 0.97)]).changes[0][1]
    assert (steady(old), changed.text, steady(changed)) == (True, "Gas limit is 50 gwei.", False)


def test_an_unsteady_note_gives_way_to_the_later_word() -> None:
    old = confirmed("Gas limit is 30 gwei.", STEADY - 1)
    done = remember(note("n", "Gas limit is 40 gwei.", author="z"), [Candidate(old, 0.97)])
    assert (done.verdict.event, events(done)) == (Event.SUPERSEDED, [("old", "archived"), ("n", "active")])


def test_a_near_note_with_equal_values_in_other_words_is_supported_and_both_are_kept() -> None:
    """No gap: what is not merged counts, and is kept."""
    old = kept("Swaps fail on the alpha router at night.").model_copy(update={"confidence": Decimal("0.9")})
    new = note("n", "Routing through alpha at night makes swaps fail.", author="b")
    done = remember(new, [Candidate(old, 0.9)])
    assert (done.verdict.event, events(done)) == (Event.SUPPORTED, [("old", "active"), ("n", "active")])
    assert done.changes[0][1].confidence == Decimal("0.95")
    echoed = new.model_copy(update={"recalled": ("old",)})
    assert decide(echoed, [Candidate(old, 0.9)]).event is Event.NEW
