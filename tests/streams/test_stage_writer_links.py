"""Links, what is organised and the ranker's marks through the writer: kept, taken away, forgotten, rebuilt."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from schemas.operations import ForgetInsight, LinkInsights, OrganiseInsight, TeachRanker
from stores.sqlite import WritableInsightStore
from streams.stages.writer import InsightWriter
from tests.support.sqlite import MODEL, HashEmbedder, add, at
from tests.support.sqlite import operations as deliver

A, B, C = "insight-a", "insight-b", "insight-c"


def link(source: str, target: str, n: int, **changes: object) -> LinkInsights:
    fields = {"relation": "EXTENDS", "strength": 0.5, "reason": "narrower", **changes}
    return LinkInsights(op_id=f"link-{n}", insight_id=source, target_id=target, ts=at(n), author="organiser", **fields)


def note(about: str, n: int, cites: tuple[str, ...]) -> OrganiseInsight:
    return OrganiseInsight(
        op_id=f"organise-{n}", insight_id=about, ts=at(n), author="organiser", reason="links", basis=f"state-{n}",
        keywords=("gas", "router"), context_note=f"it extends {', '.join(cites)}" if cites else None, cites=cites,
    )  # fmt: skip


def forget(one: str, n: int) -> ForgetInsight:
    return ForgetInsight(op_id=f"forget-{n}", insight_id=one, ts=at(n), author="operator", reason="asked to")


def run(folder: Path, operations: list[object], size: int = 100) -> WritableInsightStore:
    store = WritableInsightStore.open(folder / "brain.db", MODEL)
    writer = InsightWriter(store, HashEmbedder())
    batch = deliver(*operations)
    for start in range(0, len(batch), size):
        writer.handle(batch[start : start + size])
    return store


def added() -> list[object]:
    return [add(one, text=f"words of {one}") for one in (A, B, C)]


def test_a_link_is_read_from_both_ends_and_a_later_one_takes_its_place(tmp_path: Path) -> None:
    with run(tmp_path, [*added(), link(A, B, 1), link(A, B, 2, relation="CONTRASTS", strength=0.75), link(C, A, 3)]) as store:
        of_a, of_b = store.links([A]), store.links([B])
        assert [(one.source, one.target, one.relation) for one in of_a] == [(A, B, "CONTRASTS"), (C, A, "EXTENDS")]
        assert [one.other(B) for one in of_b] == [A]
        assert of_b[0].strength == 0.75
        assert store.link_counts() == {"CONTRASTS": 1, "EXTENDS": 1}
        before = store.get(A)
        assert before is not None
        assert before.revision == 1  # a link changes no insight
        assert len(store.history(A)) == 1


def test_a_link_that_is_removed_is_gone(tmp_path: Path) -> None:
    with run(tmp_path, [*added(), link(A, B, 1), link(A, B, 2, removed=True)]) as store:
        assert store.links([A, B]) == ()


@pytest.mark.parametrize("size", [1, 100])
def test_forgetting_takes_links_keywords_and_every_note_that_quotes_it(tmp_path: Path, size: int) -> None:
    done = [*added(), link(A, B, 1), link(C, A, 2), link(B, C, 3), note(A, 4, ()), note(C, 5, (A,)), note(B, 6, (C,)), forget(A, 7)]
    with run(tmp_path, done, size) as store:
        assert [(one.source, one.target) for one in store.links([A, B, C])] == [(B, C)]
        assert store.organised(A) is None
        of_c, of_b = store.organised(C), store.organised(B)
        assert of_c is not None
        assert of_c.context_note is None
        assert of_c.keywords == ("gas", "router")
        assert of_b is not None
        assert of_b.context_note == f"it extends {C}"
        left = store.traces(A, "words of insight-a")
        assert {place for place, count in left.items() if count} <= {"announcements"}


@pytest.mark.parametrize("size", [1, 100])
def test_what_is_forgotten_gets_no_link_and_is_not_quoted(tmp_path: Path, size: int) -> None:
    done = [*added(), forget(A, 1), link(A, B, 2), link(B, A, 3), link(B, "nobody", 4), note(A, 5, ()), note(B, 6, (A,))]
    store = run(tmp_path, done[:4], size)
    writer = InsightWriter(store, HashEmbedder())
    outcome = writer.handle(deliver(*done[4:], first=4))
    with store:
        assert [one.reason for one in outcome.refusals] == ["forgotten", "forgotten", "unknown_insight", "forgotten"]
        assert store.links([A, B]) == ()
        told = store.organised(B)
        assert told is not None
        assert told.context_note is None


def test_marks_of_the_ranker_are_kept_in_the_order_of_their_times(tmp_path: Path) -> None:
    marks = [
        TeachRanker(op_id=f"mark-{n}", ts=at(n), author="operator", reason="", action="reset" if n == 1 else "train")
        for n in (3, 1, 2)
    ]
    with run(tmp_path, marks) as store:
        assert [(one.action, one.ts) for one in store.ranker_marks()] == [
            ("reset", at(1)),
            ("train", at(2)),
            ("train", at(3)),
        ]


def test_all_of_it_is_in_the_fingerprint_and_the_same_however_the_batches_are_cut(tmp_path: Path) -> None:
    done = [*added(), link(A, B, 1), link(B, C, 2), note(A, 3, (B,)), forget(C, 4), TeachRanker(
        op_id="mark", ts=at(5), author="operator", reason="", action="train"
    )]  # fmt: skip
    with run(tmp_path / "one", done, 1) as one, run(tmp_path / "whole", done) as whole, run(tmp_path / "less", done[:3]) as less:
        assert list(one.fingerprint_parts()) == list(whole.fingerprint_parts())
        assert list(less.fingerprint_parts()) != list(whole.fingerprint_parts())
        assert any(b'"link"' in line for line in one.fingerprint_parts())
        assert any(b'"organised"' in line for line in one.fingerprint_parts())
        assert any(b'"ranker"' in line for line in one.fingerprint_parts())


def test_nothing_is_linked_with_itself() -> None:
    with pytest.raises(ValidationError, match="itself"):
        link(A, A, 1)
