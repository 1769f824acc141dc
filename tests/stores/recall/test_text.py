"""Any text is a query."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stores.recall.bm25 import Bm25
from stores.recall.text import MAX_TERMS, query_terms, words

ADDRESS = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"


@given(st.text(max_size=200))
def test_no_text_is_a_syntax_error(text: str) -> None:
    query = query_terms(text)
    assert len(query.terms) == len(set(query.terms)) <= MAX_TERMS
    Bm25([("a", text)]).search(text, 5)


def test_addresses_and_numbers_stay_whole() -> None:
    assert words(f"{ADDRESS} 0.30% 1,234.5") == [ADDRESS.lower(), "0.30", "1,234.5"]


def test_a_shortened_address_is_a_prefix_and_a_whole_one_is_not() -> None:
    index = Bm25([("usdc", f"pool {ADDRESS}"), ("other", "pool 0xA0c0000000000000000000000000000000000000")])
    assert [key for key, _ in index.search("0xa0b8…eb48", 5)] == ["usdc"]
    assert query_terms(ADDRESS).prefixes == frozenset()


def test_unspaced_scripts_match_by_parts() -> None:
    index = Bm25([("zh", "流动性不足时滑点很高"), ("en", "slippage is high")])
    assert [key for key, _ in index.search("滑点", 5)] == ["zh"]


def test_control_characters_and_length_do_not_matter() -> None:
    index = Bm25([("a", "swap\x00failed")])
    assert index.search("\x00failed\x00", 5)
    assert index.search("swap " + "x" * 100_000, 5)
    assert index.search("", 5) == index.search("'\"-/\\", 5) == []


def test_stop_words_are_asked_when_there_is_nothing_else() -> None:
    assert query_terms("Which router failed and why?").terms == ("router", "failed")
    assert query_terms("who is it").terms == ("who", "is", "it")
