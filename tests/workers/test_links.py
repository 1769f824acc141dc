"""Links: labels by claims and shared episodes, whichever end is looked at first, and never a contrast by cosine alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.claims import Claim, Condition
from schemas.insights import Insight, Note
from schemas.operations import OPERATION
from tests.support.sqlite import evidence, insight
from workers.keywords import keywords
from workers.links import Found, basis, context_note, link_operation, organise_operation, relate, unlink_operation

POOL, OTHER = "swap:1:A/B", "swap:1:C/D"
Cell = tuple[str, str, Any]


def claim(*cells: Cell, key: str = POOL, direction: str = "higher", metric: str = "cost_bps", level: str = "pair") -> Claim:
    conditions = tuple(Condition(feature=feature, op=sign, value=value) for feature, sign, value in cells)
    return Claim(level=level, key=key, metric=metric, conditions=conditions, direction=direction)


def says(number: int, of: Claim | None, *episodes: str, **fields: Any) -> Insight:
    made = evidence().model_copy(update={"episode_ids": episodes or (f"e{number}",)})
    key = of.key if of else POOL
    return insight(number, **{"key": key, "claim": of, "evidence": made if of else None, "importance": 0.7, **fields})


BIG = ("size_share", ">=", 0.01)
HUGE = ("size_share", ">=", 0.05)
SMALL = ("size_share", "<", 0.01)
ALPHA = ("router", "==", "alpha")


@pytest.mark.parametrize(
    ("mine", "theirs", "relation", "source"),
    [
        (claim(BIG), claim(BIG, key=OTHER, direction="lower"), "CONTRASTS", 1),
        (claim(BIG), claim(SMALL), "CONTRASTS", 1),
        (claim(BIG), claim(SMALL, direction="lower", key=OTHER), "SUPPORTS", 2),
        (claim(BIG), claim(BIG, key=OTHER), "SUPPORTS", 2),
        (claim(BIG), claim(BIG, key="swap", level="tool"), "EXTENDS", 1),
        (claim(BIG, key="*", level="global"), claim(BIG, key="swap", level="tool"), "EXTENDS", 2),
        (claim(HUGE), claim(BIG), "EXTENDS", 1),
        (claim(BIG), claim(BIG, ALPHA), "EXTENDS", 2),
        (claim(BIG), claim(BIG, ALPHA, direction="lower"), "CONTRASTS", 1),
        (claim(("gas_gwei", ">=", 30.0)), claim(BIG, metric="gas_gwei"), "PREREQUISITE", 2),
        (claim(BIG), claim(BIG, metric="failed"), "RELATED", 1),
    ],
)
def test_claims_give_the_label(mine: Claim, theirs: Claim, relation: str, source: int) -> None:
    one, other = says(1, mine), says(2, theirs)
    found = relate(one, other, 0.9)
    assert found is not None
    assert (found.relation, found.source) == (relation, {1: one.id, 2: other.id}[source])
    assert relate(other, one, 0.9) == found


@pytest.mark.parametrize(
    ("pair", "tool", "whole"),
    [("swap:1:A/B", "swap:*-simulated:*", "*-simulated"), ("swap:1-simulated:A/B", "swap:*:*", "*")],
)
def test_what_was_simulated_is_no_part_of_what_is_real(pair: str, tool: str, whole: str) -> None:
    """Their episodes are never the same, so neither is narrower, an exception, or tells more of a part of the other."""
    narrow = (claim(BIG, key=pair), claim(HUGE, key=pair, direction="lower"), claim(BIG, key=pair, metric="failed"))
    wide = (claim(BIG, key=tool, level="tool"), claim(BIG, key=whole, level="global"))
    for mine in narrow:
        for theirs in wide:
            found = relate(says(1, mine), says(2, theirs), 0.9)
            assert found is not None
            assert found.relation in ("SUPPORTS", "RELATED")
            assert found.why != "the same conditions move another metric"


def test_far_thresholds_or_other_groups_of_unlike_conditions_do_not_contrast() -> None:
    for theirs in (claim(("size_share", ">=", 0.5), direction="lower", key=OTHER), claim(ALPHA, direction="lower")):
        found = relate(says(1, claim(BIG)), says(2, theirs), 0.97)
        assert found is not None
        assert found.relation == "RELATED"


def test_the_same_episodes_support_only_the_same_direction() -> None:
    one = says(1, claim(BIG), "e1", "e2", "e3", "e4")
    same, opposite = says(2, claim(ALPHA), "e1", "e2"), says(3, claim(ALPHA, direction="lower"), "e1", "e2")
    found = relate(one, same, 0.1)
    assert found is not None
    assert (found.relation, found.source, found.strength) == ("SUPPORTS", same.id, 1.0)
    told = relate(one, opposite, 0.1)
    assert told is not None
    assert told.relation == "RELATED"


def test_sentences_without_claims_are_related_unless_they_are_opposite() -> None:
    note = {"note": Note(), "author": "agent"}
    rule, turned = (
        says(1, None, text="Swap on Curve when gas is high.", **note),
        says(2, None, text="Do not swap on Curve when gas is high.", **note),
    )
    beside = says(3, None, text="Router alpha is slow at night.", **note)
    opposite = relate(rule, turned, 0.969)
    assert opposite is not None
    assert opposite.relation == "CONTRASTS"
    related = relate(rule, beside, 0.96)
    assert related is not None
    assert (related.relation, related.strength) == ("RELATED", 0.96)
    assert relate(rule, beside, 0.44) is None


cells = st.tuples(
    st.sampled_from(("size_share", "volatility", "hour")), st.sampled_from((">=", "<")), st.sampled_from((0.01, 0.0101, 0.5))
)
some_claims = st.builds(
    lambda conditions, key, level, metric, direction: claim(
        *conditions, key={"pair": key, "tool": "swap", "global": "*"}[level], level=level, metric=metric, direction=direction
    ),
    st.lists(cells, min_size=1, max_size=2, unique_by=lambda cell: cell[0]), st.sampled_from((POOL, OTHER)),
    st.sampled_from(("pair", "tool", "global")), st.sampled_from(("cost_bps", "failed")), st.sampled_from(("higher", "lower")),
)  # fmt: skip
episodes = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True)


@given(some_claims, some_claims, episodes, episodes, st.floats(-1, 1))
def test_it_does_not_matter_which_end_is_first(
    mine: Claim, theirs: Claim, left: list[str], right: list[str], cosine: float
) -> None:
    one, other = says(1, mine, *left), says(2, theirs, *right)
    found = relate(one, other, cosine)
    assert found == relate(other, one, cosine)
    if found is not None:
        assert {found.source, found.target} == {one.id, other.id}
        assert 0 < found.strength <= 1
        assert OPERATION.validate_json(link_operation(found, one, other).to_wire()) == link_operation(found, other, one)


def test_an_operation_has_the_same_id_until_one_of_the_two_says_something_else() -> None:
    one, other = says(1, claim(HUGE)), says(2, claim(BIG))
    found = relate(one, other, 0.9)
    assert found is not None
    voted = other.model_copy(update={"upvotes": 4, "revision": 5})
    assert link_operation(found, one, voted).op_id == link_operation(found, one, other).op_id
    edited = other.model_copy(update={"text": "Something else."})
    assert link_operation(found, one, edited).op_id != link_operation(found, one, other).op_id
    assert basis(voted) == basis(other) != basis(edited)
    assert unlink_operation(one.id, other.id, one, other).removed


def test_a_context_note_comes_from_two_links_and_some_importance() -> None:
    one, second, third = says(1, claim(HUGE)), says(2, claim(BIG), text="Large ones cost more. " * 20), says(3, claim(SMALL))
    links = [(Found(one.id, second.id, "EXTENDS", 0.9, ""), second), (Found(one.id, third.id, "CONTRASTS", 1.0, ""), third)]
    note, cites = context_note(one, links)
    assert note == f"It contrasts with “{third.text}”; extends “{('Large ones cost more. ' * 20)[:159]}…”."
    assert cites == (third.id, second.id)
    towards, _ = context_note(
        second.model_copy(update={"text": "x"}), [(links[0][0], one), (Found(third.id, second.id, "SUPPORTS", 0.5, ""), third)]
    )
    assert towards is not None
    assert "is extended by" in towards
    assert "is supported by" in towards
    assert context_note(one, links[:1]) == (None, ())
    assert context_note(one.model_copy(update={"importance": 0.59}), links) == (None, ())


def test_a_long_context_note_fits_its_record() -> None:
    one = says(1, claim(HUGE))
    links = [(Found(one.id, f"i{n}", "RELATED", 0.5, ""), says(n, None, text="word " * 400)) for n in range(2, 10)]
    told = organise_operation(one, links)
    assert told.context_note is not None
    assert len(told.context_note) <= 1200
    assert told.context_note.endswith("and 4 more.")
    assert len(told.keywords) <= 6


def test_keywords_are_what_it_is_about() -> None:
    claimed = says(1, claim(BIG, ALPHA), label="A/B", text="cost is higher when the size is at least 0.01")
    assert keywords(claimed) == ("cost_bps", "size_share", "router", "alpha", "a/b", "cost")
    noted = says(2, None, text="Router gamma reverts on thin pools at night, and 12 of 30 swaps failed. Gamma!")
    assert keywords(noted) == ("router", "reverts", "swaps", "failed", "gamma", "thin")
    assert keywords(says(3, None, text="30 > 12!")) == ()


@given(st.text(min_size=1, max_size=300).filter(lambda text: text.strip()))
def test_any_text_has_at_most_six_keywords(text: str) -> None:
    found = keywords(says(1, None, text=text))
    assert len(found) <= 6
    assert all(0 < len(word) <= 64 for word in found)
