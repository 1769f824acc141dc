"""Failures teach without a success to compare with: about a key, a tool, everything; and the lessons can be wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from schemas.claims import Category
from schemas.operations import AddInsight
from tests.support.toy_windows import Pair, deliveries, failing, records
from workers.distil.words import supported
from workers.errors import KINDS
from workers.levels.book import MAX_KEYS
from workers.levels.lessons import Teacher
from workers.levels.stage import LevelsStage
from workers.levels.tallies import Tally, binomial_tail, dispersion, halves, merged
from workers.levels.words import CALLS_FOR
from workers.stage import Emission

PAIRS = [
    Pair("swap:1:A/B", plant=failing("slippage", 0.8), rows=10),
    Pair("swap:1:C/D", plant=failing("transport", 0.3), rows=10),
    Pair("bridge:1:A", plant=failing("transport", 1.0), rows=3),
    Pair("quiet:1:A", plant=failing("gas", 0.02), rows=10),
]


def learned(pairs: list[Pair], windows: int) -> list[Emission]:
    return list(LevelsStage(sources=1).handle(deliveries(records(pairs, windows))).emissions)


@pytest.fixture(scope="module")
def lessons() -> dict[tuple[str, str], AddInsight]:
    made = [one.message for one in learned(PAIRS, 50) if isinstance(one.message, AddInsight)]
    about = [one for one in made if one.claim is not None and one.claim.conditions[0].feature == "error_kind"]
    return {(one.key, str(one.claim.conditions[0].value)): one for one in about if one.claim is not None}


def test_each_level_has_its_lessons(lessons: dict[tuple[str, str], AddInsight]) -> None:
    assert set(lessons) >= {
        ("swap:1:A/B", "slippage"), ("swap:1:C/D", "transport"), ("bridge:1:A", "transport"),  # micro
        ("swap:*:*", "slippage"), ("bridge:*:*", "transport"),  # meso
        ("*", "transport"),  # macro
    }  # fmt: skip
    assert not [key for key in lessons if key[0] == "quiet:1:A" or key == ("*", "slippage")]


def test_a_key_without_a_success_teaches(lessons: dict[tuple[str, str], AddInsight]) -> None:
    one = lessons["bridge:1:A", "transport"]
    assert "all of the last" in one.text
    assert "executions failed with transport" in one.text
    assert one.category is Category.EMERGENCY
    assert one.evidence is not None
    assert (one.evidence.kind, one.evidence.inside) == ("rate", 1.0)
    assert one.evidence.episode_ids


def test_a_taxonomy_counts_every_kind(lessons: dict[tuple[str, str], AddInsight]) -> None:
    one = lessons["swap:*:*", "slippage"]
    assert one.evidence is not None
    assert one.evidence.kinds is not None
    assert set(one.evidence.kinds) == {"slippage", "transport"}
    assert f"slippage {one.evidence.kinds['slippage']}, transport {one.evidence.kinds['transport']}" in one.text
    assert "seen in 1 of 2 pairs that fail" in one.text


def test_a_lesson_across_tools_says_in_how_many_and_what_helps(lessons: dict[tuple[str, str], AddInsight]) -> None:
    one = lessons["*", "transport"]
    assert "in 2 of 3 tools" in one.text
    assert CALLS_FOR["transport"] in one.text


def test_every_number_of_a_lesson_is_in_its_evidence(lessons: dict[tuple[str, str], AddInsight]) -> None:
    for one in lessons.values():
        assert one.claim is not None
        assert one.evidence is not None
        assert supported(one.text, one.claim, one.evidence, one.label), one.text
        assert not supported(f"{one.text} In 77777 cases.", one.claim, one.evidence, one.label)


def test_every_kind_of_error_has_its_advice() -> None:
    assert set(CALLS_FOR) == set(KINDS)
    assert not any(character.isdigit() for advice in CALLS_FOR.values() for character in advice)


def test_a_failure_that_stops_is_voted_down_and_one_that_grows_is_edited() -> None:
    stops = [Pair("swap:1:A/B", plant=failing("slippage", 0.3, until=30), rows=10)]
    kinds = [getattr(one.message, "kind", "") for one in learned(stops, 80)]
    assert kinds.count("DOWNVOTE") >= 4
    teacher = Teacher("pair", "k")
    series = [Tally(i, i + 1, 20, {"gas": 2}, {}) for i in range(20)]
    assert [one.verb for one in teacher.close({"k": series}, 0.1)] == ["ADD"]
    series += [Tally(i, i + 1, 20, {"gas": 12}, {}) for i in range(20, 26)]
    (edit,) = teacher.close({"k": series}, 0.1)
    assert (edit.verb, edit.evidence.inside) == ("EDIT", 0.6)
    assert teacher.close({"k": series}, 0.1) == []  # the same windows are evidence once


def test_bursts_are_no_rate() -> None:
    """Twelve failures in one window of forty: a bad hour, not one in ten."""
    even = {"k": [Tally(i, i + 1, 5, {"gas": 1}, {}) for i in range(40)]}
    burst = {"k": [Tally(i, i + 1, 5, {"gas": 4} if i in (30, 31, 32) else {}, {}) for i in range(40)]}
    assert [one.verb for one in Teacher("pair", "k").close(even, 0.1)] == ["ADD"]
    assert Teacher("pair", "k").close(burst, 0.1) == []


@given(n=st.integers(1, 400), share=st.floats(0, 1), rate=st.floats(0.01, 0.99))
def test_the_binomial_tail_is_scipys(n: int, share: float, rate: float) -> None:
    k = round(share * n)
    assert binomial_tail(k, n, rate) == pytest.approx(stats.binom.sf(k - 1, n, rate), rel=1e-8, abs=1e-12)


def test_dispersion_is_one_for_independent_failures() -> None:
    rng = np.random.default_rng(1)
    sizes = [20] * 400
    assert dispersion(rng.binomial(20, 0.2, 400).tolist(), sizes) == pytest.approx(1.0, abs=0.15)
    assert dispersion((rng.random(400) < 0.2).astype(int).tolist(), [1] * 400) == pytest.approx(1.0, abs=0.05)


def test_halves_are_cut_between_windows_and_keys_are_merged() -> None:
    series = [Tally(i, i + 1, n, {}, {}) for i, n in enumerate((10, 1, 1, 8))]
    older, newer = halves(series)
    assert ([one.n for one in older], [one.n for one in newer]) == ([10], [1, 1, 8])
    assert halves(series[:1]) == ([], series[:1])
    (one,) = merged([Tally(0, 4, 3, {"gas": 1}, {"gas": ("a",)}), Tally(0, 4, 2, {"gas": 1, "funds": 1}, {"gas": ("b",)})])
    assert (one.n, one.kinds, one.ids["gas"]) == (5, {"funds": 1, "gas": 2}, ("a", "b"))


def test_more_keys_in_one_window_than_are_kept_forget_and_do_not_stop() -> None:
    """The first keys of the window are forgotten before it is looked at; the others and their tool still learn."""
    pairs = [Pair(f"swap:1:A/{i}", plant=failing("transport", 1.0), rows=1) for i in range(MAX_KEYS + 20)]
    stage = LevelsStage(sources=1)
    emissions = stage.handle(deliveries(records(pairs, 3))).emissions
    assert ("swap:*:*", "transport") in {
        (one.message.key, one.message.claim.conditions[0].value)
        for one in emissions
        if isinstance(one.message, AddInsight) and one.message.claim is not None
    }
    fresh = LevelsStage(sources=1)
    fresh.restore(stage.snapshot())
    assert fresh.snapshot() == stage.snapshot()
