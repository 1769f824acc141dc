"""Names in notes, and the second step that they make findable."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stores.recall.memories import of_insight
from stores.recall.names import MOST, names_in, spoken_of, subject_of
from stores.recall.recall import Recall
from stores.recall.sources import memory_source
from stores.recall.tuning import RecallTuning
from tests.support.gateway import WordEmbedder
from tests.support.sqlite import at, insight

OPEN = RecallTuning(grading=False, boost_recent=False)


def test_names_end_with_their_sentence() -> None:
    assert names_in("Constantin Medien. Constantin Medien AG sold it.") == ("constantin medien", "constantin medien ag")
    assert names_in("Seen on Curve.fi v2.1. Then on Uniswap") == ("seen", "curve fi", "uniswap")


def test_addresses_are_names_and_numbers_are_not() -> None:
    assert names_in("paid 0.30 to 0xA0b86991c6218b36 on 12 March") == ("0xa0b86991c6218b36", "12 march")
    assert names_in("30 2024") == ()


@given(st.text(max_size=400))
def test_any_text_has_a_bounded_number_of_names(text: str) -> None:
    found = names_in(text)
    assert len(found) <= MOST
    assert all(found)
    assert len(set(found)) == len(found)
    assert subject_of(text) in ("", *found)


def test_what_others_are_about_is_found_in_a_text() -> None:
    told = {"a": "Router Gamma fails at night.", "b": "We saw router gamma with Curve Pool.", "c": "Curve Pool is thin."}
    assert spoken_of(told) == {"a": ("router gamma",), "b": ("curve pool", "router gamma"), "c": ("curve pool",)}


def test_the_second_step_comes_before_what_is_merely_alike() -> None:
    """The question names a desk; its note names a router; only that router's note says what is asked."""
    embedder = WordEmbedder()
    texts = {
        "desk": "Desk Nine sends its swaps through Router Gamma.",
        "router": "Router Gamma lost a third of its orders in May.",
        **{f"other{n}": f"share of orders that a router lost which some desk sends swaps through, week {n}" for n in range(12)},
    }
    notes = [insight(n, id=name, text=text, key="*") for n, (name, text) in enumerate(texts.items())]
    source = memory_source(64, ((of_insight(one), embedder.vector(one.text)) for one in notes))
    recall = Recall(None, source, embedder, OPEN)
    question = "What share of orders did the router that Desk Nine sends swaps through lose?"
    ranks = {}
    for walked in (True, False):
        hits = recall.recall(question, now=at(100), limit=20, tuning=OPEN.with_changes(graph=walked)).hits
        ranks[walked] = [hit.id for hit in hits].index("router")
    assert ranks[True] < ranks[False]
    assert ranks[True] <= 2
