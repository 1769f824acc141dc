"""Fusion recipes: scale does not matter, agreement does, order is total."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.episodes.fusion import RECIPES, reciprocal_ranks, zscore_sum

legs = st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-50, 50).map(float), max_size=8), max_size=3)


@given(legs, st.sampled_from(sorted(RECIPES)))
def test_every_id_comes_once_best_first_ties_by_id(some: list[dict[str, float]], recipe: str) -> None:
    fused = RECIPES[recipe](some)
    assert sorted(one for one, _ in fused) == sorted({one for leg in some for one in leg})
    assert fused == sorted(fused, key=lambda item: (-item[1], item[0]))


@given(legs, st.sampled_from([2.0, 8.0]), st.integers(-20, 20), st.sampled_from(sorted(RECIPES)))
def test_a_legs_unit_does_not_matter(some: list[dict[str, float]], scale: float, shift: int, recipe: str) -> None:
    moved = [{one: scale * score + shift for one, score in leg.items()} for leg in some]
    assert dict(RECIPES[recipe](moved)) == pytest.approx(dict(RECIPES[recipe](some)))


def test_what_both_legs_find_comes_first() -> None:
    text, meaning = {"both": 5.0, "word": 6.0, "x": 1.0}, {"both": 0.9, "sense": 0.95, "y": 0.1}
    for recipe in RECIPES.values():
        assert recipe([text, meaning])[0][0] == "both"


def test_standard_scores_keep_the_distance_that_ranks_lose() -> None:
    text = {"far-ahead": 30.0, "second": 3.0, "third": 2.0}
    meaning = {"second": 0.52, "far-ahead": 0.51, "third": 0.50}
    assert zscore_sum([text, meaning])[0][0] == "far-ahead"
    ranks = dict(reciprocal_ranks([text, meaning]))
    assert ranks["second"] == ranks["far-ahead"]
