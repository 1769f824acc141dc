"""Tuning: the specification's values, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stores.recall.errors import BadRecall
from stores.recall.tuning import RecallTuning, recency

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_the_specifications_values() -> None:
    tuning = RecallTuning()
    assert (tuning.min_score, tuning.max_results, tuning.default_limit) == (0.0, 20, 5)
    assert (tuning.boost_recent, tuning.boost_halflife, tuning.boost_weight) == (True, 30.0, 0.15)


def test_limits() -> None:
    tuning = RecallTuning()
    assert [tuning.limit(asked) for asked in (None, 1, 20, 4097)] == [5, 1, 20, 20]
    for bad in (0, -1, True):
        with pytest.raises(BadRecall):
            tuning.limit(bad)


@pytest.mark.parametrize(
    "change",
    [
        {"min_score": 1.5}, {"min_score": float("nan")}, {"max_results": 0}, {"default_limit": 21}, {"boost_halflife": 0.0},
        {"boost_halflife": float("nan")}, {"boost_weight": -0.1}, {"regime_weight": 2.0}, {"recipe": "vibes"}, {"depth": 5},
        {"boost_recnt": False},
    ],
)  # fmt: skip
def test_values_without_meaning_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadRecall):
        RecallTuning().with_changes(**change)


def test_a_change_leaves_the_rest() -> None:
    changed = RecallTuning().with_changes(boost_halflife=14.0)
    assert changed == RecallTuning(boost_halflife=14.0)


def test_recency_halves() -> None:
    assert recency(NOW, NOW, 30) == 1.0
    assert recency(NOW - timedelta(days=60), NOW, 30) == pytest.approx(0.25)
    assert recency(NOW + timedelta(days=400), NOW, 30) == 1.0
