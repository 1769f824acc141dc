"""Fusion recipes: properties that all share, and what tells them apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.recall.fusion import RECIPES, convex, maxnorm, ranked, rrf, zscore

SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-100, 100), max_size=8)
SOURCES = st.fixed_dictionaries({"dense": SCORES, "lexical": SCORES})


@pytest.mark.parametrize("name", RECIPES)
@given(sources=SOURCES)
def test_a_recipe_keeps_to_its_range_and_loses_nobody(name: str, sources: dict[str, dict[str, float]]) -> None:
    fused = RECIPES[name](sources, {})
    assert set(fused) == set(sources["dense"]) | set(sources["lexical"])
    for hit in fused.values():
        assert 0.0 <= hit.score <= 1.0 + 1e-12
        assert set(hit.parts) == {"dense", "lexical"}
        assert all(0.0 <= part <= 1.0 for part in hit.parts.values())


@pytest.mark.parametrize("name", RECIPES)
@given(scores=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 20), min_size=1))
def test_one_source_keeps_its_order(name: str, scores: dict[str, int]) -> None:
    places = [scores[key] for key, _ in ranked(RECIPES[name]({"only": scores}, {}))]
    assert places == sorted(places, reverse=True)


@pytest.mark.parametrize("name", RECIPES)
@given(sources=SOURCES)
def test_the_order_of_sources_does_not_matter(name: str, sources: dict[str, dict[str, float]]) -> None:
    turned = dict(reversed(sources.items()))
    assert {key: hit.score for key, hit in RECIPES[name](sources, {}).items()} == pytest.approx(
        {key: hit.score for key, hit in RECIPES[name](turned, {}).items()}
    )


def test_rrf_sees_ranks_only_and_convex_sees_distances() -> None:
    sources = {"dense": {"a": 0.9, "b": 0.2, "c": 0.1}, "lexical": {"b": 5.0, "a": 4.9, "c": 0.1}}
    tied, told = rrf(sources, {}), convex(sources, {})
    assert tied["a"].score == tied["b"].score
    assert told["a"].score > told["b"].score


def test_a_source_that_finds_everything_alike_has_little_say() -> None:
    alike = {"dense": {"a": 0.520, "b": 0.519, "c": 0.518}, "lexical": {"a": 1.0, "b": 1.6, "c": 2.0}}
    assert [key for key, _ in ranked(maxnorm(alike, {}))] == ["c", "b", "a"]
    assert ranked(convex(alike, {}))[0][1].score == pytest.approx(0.55)


def test_equal_scores_share_a_rank() -> None:
    assert rrf({"dense": {"b": 0.5, "a": 0.5, "c": 0.1}}, {})["b"] == rrf({"dense": {"a": 0.5, "b": 0.5}}, {})["a"]


def test_a_single_match_counts_in_full() -> None:
    """An exact look-up: one memory has the word, all are about as near."""
    sources = {"dense": {"x": 0.30, "y": 0.29, "wanted": 0.2}, "lexical": {"wanted": 11.0}}
    assert ranked(maxnorm(sources, {}))[0][0] == "wanted"


def test_a_weight_of_nothing_silences_a_source() -> None:
    sources = {"dense": {"a": 0.9, "b": 0.2}, "lexical": {"b": 5.0, "c": 1.0}}
    for recipe in (rrf, maxnorm, convex, zscore):
        assert ranked(recipe(sources, {"lexical": 0.0}))[0][0] == "a"
        assert ranked(recipe(sources, {"dense": 0.0}))[0][0] == "b"
