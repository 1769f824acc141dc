"""BM25: the formula by hand, and an index that was changed equals one that was made anew."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.recall.bm25 import K1, B, Bm25

WORDS = st.lists(st.sampled_from(["swap", "gas", "router", "alpha", "beta", "pool"]), max_size=8).map(" ".join)
CHANGES = st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | WORDS), max_size=200)


def test_a_score_by_hand() -> None:
    index = Bm25([("a", "gas gas pool"), ("b", "router pool"), ("c", "alpha")])
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 * (K1 + 1) / (2 + K1 * (1 - B + B * 3 / 2))
    [(key, score)] = index.search("gas", 3)
    assert key == "a"
    assert score == pytest.approx(expected)


def test_a_rarer_word_says_more() -> None:
    index = Bm25([("a", "pool gas"), ("b", "pool beta"), ("c", "pool beta")])
    assert [key for key, _ in index.search("gas beta", 3)] == ["a", "b", "c"]


def test_the_filter_applies_before_the_cut() -> None:
    index = Bm25([(f"x{place}", "gas gas") for place in range(50)] + [("wanted", "gas and much more besides")])
    assert [key for key, _ in index.search("gas", 1, {"wanted"})] == ["wanted"]


@given(CHANGES, WORDS)
def test_changes_end_where_a_new_index_begins(changes: list[tuple[str, str | None]], query: str) -> None:
    changed, content = Bm25(), {}
    for key, text in changes:
        if text is None:
            assert changed.remove(key) == (key in content)
            content.pop(key, None)
        else:
            changed.put(key, text)
            content[key] = text
    made = Bm25(content.items())
    assert len(changed) == len(content)
    assert changed.search(query, 10) == made.search(query, 10)


def test_packing_keeps_what_is_left() -> None:
    index = Bm25([(f"x{place:03}", f"gas number{place}") for place in range(200)])
    for place in range(180):
        assert index.remove(f"x{place:03}")
    assert len(index) == 20
    assert index.search("number7", 5) == []
    assert [key for key, _ in index.search("number190", 5)] == ["x190"]
