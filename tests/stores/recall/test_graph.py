"""The walk: against a dense solution of its equation, and on a question that takes two steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.recall.graph import DAMPING, LinkGraph, Links, _walkable, personalized_pagerank

MENTIONS = st.dictionaries(
    st.sampled_from([f"m{i}" for i in range(8)]), st.lists(st.sampled_from("uvwxyz"), max_size=4), min_size=1
)


@given(MENTIONS, st.integers(0, 1000), st.floats(0.1, 0.8))
def test_power_iteration_solves_the_equation(mentions: dict[str, list[str]], seed: int, damping: float) -> None:
    graph = LinkGraph(Links(mentions))
    transition, dangling = _walkable(graph.adjacency)
    size = graph.adjacency.shape[0]
    restart = np.random.default_rng(seed).random(size)
    start = restart / restart.sum()
    matrix = transition.toarray() + np.outer(start, dangling)
    expected = np.linalg.solve(np.eye(size) - damping * matrix, (1 - damping) * start)
    visits = personalized_pagerank(transition, dangling, restart, damping)
    assert visits == pytest.approx(expected, abs=1e-7)
    assert visits.sum() == pytest.approx(1.0)


def test_the_second_step_is_reached_through_what_the_first_mentions() -> None:
    mentions = {
        "pool uses gamma": ["pool", "gamma"],
        "gamma fails": ["gamma", "failures"],
        "weather": ["sun"],
        "alpha is fine": ["alpha"],
    }
    relevance = {"pool uses gamma": 1.0, "weather": 0.3, "alpha is fine": 0.3, "gamma fails": 0.3}
    ranks = LinkGraph(Links(mentions)).rank(relevance, ["pool"])
    assert sorted(ranks, key=ranks.__getitem__, reverse=True)[:2] == ["pool uses gamma", "gamma fails"]


def test_an_insight_leads_to_the_episodes_it_rests_on() -> None:
    graph = LinkGraph(Links({"insight": ["pool"], "cited": [], "other": []}, between=[("insight", "cited"), ("insight", "gone")]))
    ranks = graph.rank({}, ["pool"])
    assert ranks["cited"] > ranks["other"]


def test_facts_count_and_synonyms_weigh() -> None:
    mentions = {"a": ["x"], "b": ["y"], "c": ["z"]}
    ranks = LinkGraph(Links(mentions, facts=[("x", "y"), ("y", "x"), ("x", "nowhere")])).rank({}, ["x"])
    assert ranks["b"] > ranks["c"]
    graph = LinkGraph(Links(mentions, facts=[("x", "y"), ("y", "x")], synonyms=[("x", "z", 0.9)]))
    assert graph.adjacency[3, 4] == 2.0
    assert graph.adjacency[3, 5] == graph.adjacency[5, 3] == 0.9


def test_a_rare_name_says_more_than_a_common_one() -> None:
    mentions = {f"common {i}": ["usdc"] for i in range(10)} | {"rare": ["0xabc"]}
    ranks = LinkGraph(Links(mentions)).rank({}, ["usdc", "0xabc", "unknown"])
    assert max(ranks, key=ranks.__getitem__) == "rare"


def test_nothing_to_start_from() -> None:
    assert LinkGraph(Links({})).rank({}, ["x"]) == {}
    alone = LinkGraph(Links({"a": [], "b": []})).rank({"a": 2.0, "b": 1.0}, [])
    assert alone == {"a": 1.0, "b": 0.0}
    assert 0.0 < DAMPING < 1.0
