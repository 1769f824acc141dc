"""Against ExpeL's reference: its golden round, what our ledger shares with it, and each way in which it differs on purpose."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.insights import Insight, InsightStatus
from tests.support.expel import NEW, Rules, one_round
from tests.support.sqlite import add, evidence, op
from workers.ledger import ADD_CONFIDENCE, DOWNVOTE_STEP, UPVOTE_STEP, Rejected, apply

BEFORE: Rules = [("Check gas first.", 2), ("Old rule.", 1), ("Prefer L2.", 3)]
OURS = {"AGREE": "UPVOTE", "REMOVE": "DOWNVOTE", "EDIT": "EDIT"}


def live(*kinds: str) -> Insight:
    """An insight after ADD and these operations of ExpeL."""
    state = apply(None, add("i", text="A rule."))
    for number, kind in enumerate(kinds):
        more: dict[str, Any] = {"text": f"Edit {number}."} if kind == "EDIT" else {"evidence": evidence()}
        assert isinstance(state, Insight)
        state = apply(state, op(OURS[kind], "i", f"o{number}", **more))
    assert isinstance(state, Insight)
    return state


def count(*kinds: str) -> tuple[str, int] | None:
    rules: Rules = [("A rule.", NEW)]
    for number, kind in enumerate(kinds):
        if rules:
            rules = one_round(rules, [(kind, 1, f"Edit {number}.")])
    return rules[0] if rules else None


def test_the_golden_round() -> None:
    proposed = [
        ("ADD", None, "New rule one."),
        ("AGREE", 1, ""),
        ("REMOVE", 2, ""),
        ("EDIT", 3, "Prefer L2 for small swaps."),
    ]
    assert one_round(BEFORE, proposed) == [("Prefer L2 for small swaps.", 4), ("Check gas first.", 3), ("New rule one.", 2)]
    assert one_round([("Kept.", 4), ("Gone.", 3)], [("REMOVE", 1, ""), ("REMOVE", 2, "")], full=True) == [("Kept.", 1)]


KINDS = st.lists(st.sampled_from(sorted(OURS)), max_size=12)


@given(KINDS)
def test_shared_a_vote_moves_in_the_same_direction_and_an_edit_replaces_the_words(kinds: list[str]) -> None:
    ours, theirs = live(*kinds), count(*kinds)
    if theirs is not None:
        assert ours.text == theirs[0]
    for step in range(len(kinds)):
        before, after = live(*kinds[:step]).confidence, live(*kinds[: step + 1]).confidence
        if kinds[step] == "AGREE":
            assert after == min(Decimal(1), before + UPVOTE_STEP)
        elif kinds[step] == "REMOVE":
            assert after == max(Decimal(0), before + DOWNVOTE_STEP)


@given(KINDS)
def test_differs_confidence_is_bounded_and_nothing_is_ever_dropped(kinds: list[str]) -> None:
    ours = live(*kinds)
    assert 0 <= ours.confidence <= 1
    assert ours.status is InsightStatus.ACTIVE
    assert (ours.upvotes, ours.downvotes, ours.edits) == tuple(kinds.count(kind) for kind in ("AGREE", "REMOVE", "EDIT"))
    if count(*kinds) is None:
        assert ours.revision == 1 + len(kinds), "a rule that ExpeL has dropped is still there, with its history"


def test_differs_an_edit_is_no_vote() -> None:
    """In ExpeL an EDIT agrees as well; here new words start no more believed than the old ones were."""
    assert (count("EDIT"), live("EDIT").confidence) == (("Edit 0.", NEW + 1), ADD_CONFIDENCE)


def test_differs_against_weighs_more_than_for() -> None:
    assert count("AGREE", "REMOVE") == ("A rule.", NEW)
    assert live("AGREE", "REMOVE").confidence == ADD_CONFIDENCE + UPVOTE_STEP + DOWNVOTE_STEP < ADD_CONFIDENCE


def test_differs_operations_apply_in_the_order_of_the_log() -> None:
    """ExpeL sorts a round's operations by kind, so an ADD cannot be agreed with in its own round; here the log is the order."""
    assert one_round([], [("ADD", None, "New."), ("ADD", None, "Other.")]) == [("New.", 2), ("Other.", 2)]
    assert live("AGREE").confidence == ADD_CONFIDENCE + UPVOTE_STEP
    refused = apply(None, op("UPVOTE", "i", "o"))
    assert isinstance(refused, Rejected)
    assert refused.reason == "unknown_insight"


def test_differs_operations_name_ids_so_words_cannot_be_mistaken_for_them() -> None:
    """The reference's parser drops a rule with ADD, AGREE or EDIT in it, as ADDRESS has."""
    for text in ("Check the ADDRESS first.", "EDIT nothing, AGREE with all, ADD more."):
        made = apply(None, add("i", text=text))
        assert isinstance(made, Insight)
        assert made.text == text
