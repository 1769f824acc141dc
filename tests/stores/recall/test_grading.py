"""The judge: monotone where it must be, and its constants are what the bench fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.recall.grading import CORRECT_FROM, INCORRECT_BELOW, WEIGHTS, Grade, Judged, Signals, grade, probability, signals

SHARE = st.floats(0, 1)
ANY = st.builds(Signals, nearest=st.floats(-1, 1), coverage=SHARE, names=SHARE, phrases=SHARE, missed=SHARE, gap=SHARE)


@given(ANY, st.sampled_from(["nearest", "coverage", "names", "phrases", "gap"]), st.floats(0, 0.5))
def test_more_of_a_good_sign_is_never_worse(found: Signals, name: str, more: float) -> None:
    better = replace(found, **{name: min(1.0, getattr(found, name) + more)})
    assert probability(better) >= probability(found)
    assert probability(replace(found, missed=1.0)) <= probability(found)


def test_what_has_nothing_to_do_with_the_question_is_incorrect_and_the_thing_itself_is_correct() -> None:
    address = "0x" + "ab12" * 10
    question = f"Which router failed in pool {address}?"
    unrelated = [Judged(f"the weather of day {day}", 0.05, None) for day in range(20)]
    assert grade(probability(signals(question, unrelated))) is Grade.INCORRECT
    answered = [Judged(f"swap in pool {address} failed, router gamma", 0.6, 9.0), *unrelated]
    assert grade(probability(signals(question, answered))) is Grade.CORRECT
    assert signals(question, answered).missed == 0.0
    assert signals(question, unrelated).missed == 1.0


def test_thresholds_leave_a_middle() -> None:
    assert len(WEIGHTS) == 6
    assert 0.0 < INCORRECT_BELOW < CORRECT_FROM < 1.0
    assert grade(INCORRECT_BELOW) is Grade.AMBIGUOUS
    assert grade(CORRECT_FROM) is Grade.CORRECT


def test_a_shortened_address_is_not_missed() -> None:
    assert signals("gas at 0xab12…", [Judged("pool 0x" + "ab12" * 10, 0.3, 1.0)]).missed == 0.0


@given(st.text(max_size=80), st.lists(st.tuples(st.text(max_size=40), st.floats(-1, 1), st.floats(0, 30)), min_size=1, max_size=8))
def test_every_question_has_a_probability(question: str, results: list[tuple[str, float, float]]) -> None:
    found = signals(question, [Judged(*result) for result in results])
    assert 0.0 < probability(found) < 1.0
    assert found.nearest == pytest.approx(max(cosine for _, cosine, _ in results))
