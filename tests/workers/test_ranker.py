"""Learned ranking: learns what is used, is off where that does not help, and depends on nothing but the uses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.ranker import Features, Learned, RankerSettings, Shown, Use, blended, learn, taught

START = datetime(2026, 1, 1, tzinfo=UTC)


def uses(count: int, by: str | None, seed: int = 1, apart: timedelta = timedelta(minutes=10)) -> list[Use]:
    """Answers of five; those used are the two with the most of a feature (None: drawn)."""
    rng = Random(seed)
    made = []
    for number in range(count):
        cells = [Features(*(rng.random() for _ in range(4))) for _ in range(5)]
        scores = [1.0 - 0.05 * place for place in range(5)]
        order = sorted(range(5), key=lambda place: -getattr(cells[place], by) if by else rng.random())
        shown = tuple(Shown(cell, score, place in order[:2]) for place, (cell, score) in enumerate(zip(cells, scores, strict=True)))
        made.append(Use(f"use-{number:04}", START + number * apart, shown))
    return made


@pytest.mark.parametrize("by", ["importance", "recency", "frequency", "confidence"])
def test_it_finds_what_is_used_and_switches_itself_on(by: str) -> None:
    learned = learn(uses(200, by))
    assert learned.active, learned.why
    assert learned.weights is not None
    assert max((name for name in learned.weights if name != "bias"), key=lambda name: learned.weights[name]) == by
    assert learned.held is not None
    assert learned.held.with_ranker > learned.held.without


def test_it_is_off_where_the_list_is_already_in_order() -> None:
    """The best score is what is used: features say nothing, and blending them in could only disturb."""
    rng = Random(2)
    made = [
        Use(
            f"use-{number}",
            START + timedelta(minutes=number),
            tuple(Shown(Features(*(rng.random() for _ in range(4))), 1.0 - place / 5, place == 0) for place in range(5)),
        )
        for number in range(200)
    ]
    learned = learn(made)
    assert not learned.active
    assert learned.held is not None
    assert learned.held.without == 1.0
    assert "no better" in learned.why


def test_by_chance_it_is_hardly_ever_on() -> None:
    on = sum(learn(uses(90, None, seed)).active for seed in range(40))
    assert on <= 5  # one in twenty is what the test allows; more than five of forty has a probability of 1 %


def test_it_goes_off_when_what_is_used_turns_round() -> None:
    """It was on; then agents began to use the opposite. The held-out uses are the latest, so it notices."""
    good = uses(100, "confidence")
    rng = Random(3)
    turned = []
    for number in range(100):
        cells = [Features(0.5, 0.5, 0.5, rng.random()) for _ in range(5)]
        least = min(range(5), key=lambda place: cells[place].confidence)
        shown = tuple(Shown(cell, 1.0, place == least) for place, cell in enumerate(cells))
        turned.append(Use(f"turned-{number:04}", START + timedelta(days=1, minutes=number), shown))
    assert learn(good).active
    assert not learn([*good, *turned]).active


def test_too_few_uses_teach_nothing() -> None:
    learned = learn(uses(9, "confidence"))
    assert learned == Learned(False, "9 uses are too few; it needs 10", None, 9, 45)
    assert learn([]).weights is None


def test_what_is_older_than_the_window_does_not_count() -> None:
    old = uses(60, "importance", apart=timedelta(hours=1))
    new = [Use(f"new-{one.use_id}", one.ts + timedelta(days=60), one.shown) for one in uses(60, "confidence", seed=5)]
    assert learn([*old, *new]) == learn(new)


def test_uses_that_tell_nothing_leave_it_untried() -> None:
    cell = Features(0.5, 0.5, 0.5, 0.5)
    made = [Use(f"use-{n}", START + timedelta(minutes=n), (Shown(cell, 1.0, True),)) for n in range(30)]
    learned = learn(made)
    assert not learned.active
    assert learned.held is None
    assert learned.weights is not None


def test_the_same_uses_give_the_same_weights() -> None:
    assert learn(uses(120, "recency")) == learn(uses(120, "recency"))


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 60))
def test_whole_rounds_are_taught(before: int, since: int, every: int) -> None:
    first, last = taught(before + since, before, [], every)
    assert first == before
    assert (last - first) % every == 0
    assert 0 <= before + since - last < every


def test_a_training_that_was_asked_for_counts_at_once() -> None:
    assert taught(100, 60, [], 50) == (60, 60)
    assert taught(100, 60, [81], 50) == (60, 81)
    assert taught(200, 60, [81], 50) == (60, 160)


@given(st.floats(0, 2), st.floats(0, 1), st.floats(0, 1))
def test_a_blend_moves_a_score_by_at_most_its_share(score: float, chance: float, blend: float) -> None:
    mixed = blended(score, chance, blend)
    assert score * (1 - blend) - 1e-9 <= mixed <= score + 1e-9


def test_the_specified_numbers() -> None:
    assert RankerSettings() == RankerSettings(train_every=50, rate=0.05, blend=0.35, min_samples=10, window_days=30)
