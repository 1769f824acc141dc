"""Dedup: nothing with another value is ever merged, paraphrases are, and the verdict says what decided."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.near_duplicates import NEVER, Pair, made, written
from schemas.insights import Insight
from tests.support.sqlite import add, claim, directive, evidence, note, op
from workers import ledger
from workers.dedup import NEAREST, Candidate, judge, survivor
from workers.ledger import apply
from workers.notes import remember
from workers.values import differences, values

PAIRS = [*made(), *written(), *written("near_duplicates_unseen")]
DIFFERENT = [pair for pair in PAIRS if not pair.same]
SAME = [pair for pair in PAIRS if pair.same]


def kept(text: str, name: str = "old", **fields: Any) -> Insight:
    return remember(note(name, text, **fields), ()).changes[0][1]


def mined(name: str, text: str, **fields: Any) -> Insight:
    made_ = apply(None, add(name, text=text, evidence=evidence(), **fields))
    assert isinstance(made_, Insight)
    return made_


def merges(new: str, old: str, cosine: float) -> bool:
    return judge(new, "*", [Candidate(kept(old), cosine)]).duplicate is not None


def test_the_labelled_set_is_large_enough_and_has_every_kind() -> None:
    assert len(PAIRS) >= 400
    assert {pair.kind for pair in DIFFERENT} >= {*NEVER, "token", "comparison", "time"}
    assert all(sum(pair.kind == kind for pair in DIFFERENT) >= 30 for kind in NEVER)


@pytest.mark.parametrize("kind", NEVER)
def test_nothing_is_merged_across_what_must_not_be_whatever_the_cosine(kind: str) -> None:
    """Even where a cosine would be 1: an embedding that saw nothing would change nothing."""
    wrong = [
        pair for pair in DIFFERENT if pair.kind == kind and (merges(pair.one, pair.other, 1.0) or merges(pair.other, pair.one, 1.0))
    ]
    assert wrong == []


def test_most_paraphrases_have_equal_values() -> None:
    apart: list[Pair] = [pair for pair in SAME if differences(values(pair.one), values(pair.other))]
    assert len(apart) / len(SAME) < 0.06


SENTENCES = st.sampled_from(sorted({pair.one for pair in PAIRS}))


@given(SENTENCES, st.integers(1, 99), st.data())
def test_another_number_anywhere_is_another_sentence(text: str, more: int, data: st.DataObject) -> None:
    places = [place for place, letter in enumerate(text) if letter.isdigit() and letter != "0"]
    if not places:
        return
    place = data.draw(st.sampled_from(places))
    other = text[:place] + str((int(text[place]) - 1 + more % 8 + 1) % 9 + 1) + text[place + 1 :]
    if other != text:
        assert not merges(other, text, 1.0), (text, other)


@given(SENTENCES)
def test_a_sentence_is_its_own_duplicate_whatever_its_case_and_spacing(text: str) -> None:
    assert merges("  ".join(text.split()), text, 1.0)


def test_a_verdict_names_what_decided() -> None:
    old = [Candidate(kept("Gas limit is 40 gwei.", "b"), 0.99), Candidate(kept("The gas limit: 30 gwei", "a"), 0.97)]
    verdict = judge("Gas limit is 30 gwei.", "*", old)
    assert verdict.duplicate is not None
    assert (verdict.duplicate.id, verdict.similarity, verdict.why) == (
        "a",
        0.97,
        "a at 0.970: says the same, and every value is equal",
    )
    assert next((one.insight_id, one.same, one.why) for one in verdict.comparisons) == ("b", False, "differs in measures")
    assert judge("Gas limit is 30 gwei.", "*", []).why == "nothing about the same subject stands at 0.85 or nearer"


def test_only_the_five_nearest_active_ones_about_the_same_key_count() -> None:
    text = "Gas limit is 30 gwei."
    others = [Candidate(kept(f"Gas limit is {n} gwei.", f"n{n}"), 0.99) for n in range(40, 40 + NEAREST)]
    same = kept(text)
    assert judge(text, "*", [*others, Candidate(same, 0.98)]).duplicate is None
    assert judge(text, "*", [*others[1:], Candidate(same, 0.98)]).duplicate == same
    assert judge(text, "swap:1:x", [Candidate(same, 1.0)]).duplicate is None
    archived = apply(same, op("ARCHIVE", "old", "a"))
    assert isinstance(archived, Insight)
    assert judge(text, "*", [Candidate(archived, 1.0)]).duplicate is None


def test_under_the_threshold_only_the_same_words_are_the_same() -> None:
    text = "Swaps fail on the alpha router at night."
    assert merges("At night swaps fail on the alpha router.", text, 0.86)
    assert not merges("Routing through alpha at night makes swaps fail.", text, 0.94)
    assert not merges("At night swaps fail on the alpha router.", text, 0.84)


def test_two_claims_are_the_same_only_by_their_algebra() -> None:
    here = claim()
    turned = here.model_copy(update={"direction": "lower", "conditions": (here.conditions[0].model_copy(update={"op": "<"}),)})
    other = claim(metric="gas_gwei")
    text = "Large trades cost more."
    there = mined(here.insight_id, text, claim=here, key="k")
    assert judge(text, "k", [Candidate(there, 1.0)], turned).duplicate == there
    verdict = judge(text, "k", [Candidate(there, 1.0)], other)
    assert (verdict.duplicate, verdict.comparisons[0].why) == (None, "another claim")


def test_the_one_with_evidence_stays_then_the_older() -> None:
    learned, noted, later = mined("i", "Same."), kept("Same.", "n"), kept("Same.", "m", hours=9)
    assert survivor(noted, learned) == (learned, noted)
    assert survivor(later, noted) == (noted, later)


def test_what_is_merged_gives_its_importance_and_confirmations() -> None:
    """ACE's merge sums the counts (the tallies are summed in the store)."""
    stays = kept("Same.", importance=0.2)
    stays = remember(note("x", "Same.", author="b"), [Candidate(stays, 1.0)]).changes[0][1]
    goes = kept("The same.", "n", importance=0.7)
    goes = remember(note("y", "The same.", author="c"), [Candidate(goes, 1.0)]).changes[0][1]
    taken = ledger.absorbed(stays, goes, goes.validated_ts)
    assert isinstance(taken, Insight)
    assert (taken.importance, taken.note and taken.note.reinforced, taken.revision) == (0.7, 2, stays.revision + 1)
    ordered = apply(None, directive("d"))
    assert isinstance(ordered, Insight)
    refused = ledger.absorbed(ordered, goes, goes.validated_ts)
    assert isinstance(refused, ledger.Rejected)
    assert refused.reason == "cannot_merge"
