"""What was believed at a moment is what the ledger had made of it by then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.insights import Insight
from stores.recall.history import WordsUnknown, beliefs_at, believed_at
from stores.sqlite import HistoryEntry, WritableInsightStore
from stores.sqlite.rows import changed_fields, insight_after
from tests.support.sqlite import MODEL, HashEmbedder, add, at, evidence, op
from workers.ledger import Rejected, apply

KINDS = st.lists(st.sampled_from(["UPVOTE", "DOWNVOTE", "EDIT", "ARCHIVE", "RESTORE"]), max_size=6)


def lived(kinds: Sequence[str], insight_id: str = "i", kept: bool = True) -> tuple[list[Insight], list[HistoryEntry]]:
    """The states of an insight, one an hour, and its history; ``kept`` False: as an earlier version wrote it. A restoration of what
    is not archived is left out."""
    states: list[Insight] = []
    entries = []
    for hour, kind in enumerate(["ADD", *kinds]):
        fields: dict[str, Any] = {} if kind in ("ARCHIVE", "RESTORE") else {"evidence": evidence(hours=hour + 4)}
        if kind == "EDIT":
            fields["text"] = f"It was edited at hour {hour}."
        one = add(insight_id, **fields) if kind == "ADD" else op(kind, insight_id, f"{insight_id}-{hour}", hours=hour, **fields)
        before = states[-1] if states else None
        after = apply(before, one)
        if kind == "RESTORE" and isinstance(after, Rejected):
            continue
        assert isinstance(after, Insight)
        states.append(after)
        brought = getattr(one, "evidence", None)
        confidence = before.confidence if before else None
        entries.append(
            HistoryEntry(
                insight_id,
                after.revision,
                one.op_id,
                kind,
                one.ts,
                one.author,
                one.reason,
                confidence,
                after.confidence,
                brought,
                changed_fields(before, after, brought) if kept else None,
            )
        )
    return states, entries


@given(KINDS, st.integers(-1, 7))
def test_the_past_is_the_ledgers_words_included(kinds: list[str], hour: int) -> None:
    states, history = lived(kinds)
    moment = at(hour) + timedelta(minutes=30)
    by_then = [state for state, entry in zip(states, history, strict=True) if entry.ts <= moment]
    assert believed_at(states[-1], history, moment) == (by_then[-1] if by_then else None)
    assert [insight_after(history[: length + 1]) for length in range(len(history))] == states


@given(KINDS, st.integers(-1, 7))
def test_what_an_earlier_version_wrote_is_told_as_far_as_it_is_known(kinds: list[str], hour: int) -> None:
    states, history = lived(kinds, kept=False)
    moment = at(hour) + timedelta(minutes=30)
    by_then = [state for state, entry in zip(states, history, strict=True) if entry.ts <= moment]
    later = [entry.kind for entry in history[len(by_then) :]]
    if not by_then:
        assert believed_at(states[-1], history, moment) is None
    elif "EDIT" in later:
        with pytest.raises(WordsUnknown):
            believed_at(states[-1], history, moment)
    else:
        then = believed_at(states[-1], history, moment)
        assert then is not None
        assert then.model_dump(exclude={"archived"}) == by_then[-1].model_dump(exclude={"archived"})


def test_a_late_operation_hides_nothing_that_was_known_before_it() -> None:
    states, history = lived(["UPVOTE", "UPVOTE"])
    late = [history[0], history[2], history[1]]
    assert believed_at(states[-1], late, at(1.5)) == states[0]


def test_beliefs_of_a_store(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    lives = {"voted": ["UPVOTE", "UPVOTE"], "edited": ["UPVOTE", "EDIT"], "archived": ["ARCHIVE"], "plain": []}
    with WritableInsightStore.open(tmp_path / "insights.db", MODEL) as store:
        with store.transaction() as writing:
            for name, kinds in lives.items():
                states, history = lived(kinds, name)
                writing.put(states[-1], embedder.vector(states[-1].text))
                writing.record(history)
        before = beliefs_at(store, at(0.5))
        assert {insight.id: str(insight.confidence) for insight in before.insights} == {
            "voted": "0.6", "edited": "0.6", "archived": "0.6", "plain": "0.6",
        }  # fmt: skip
        assert before.unknown == 0
        assert {insight.text for insight in before.insights if insight.id == "edited"} == {"Insight edited holds."}
        after = beliefs_at(store, at(9))
        assert {insight.id for insight in after.insights} == {"voted", "edited", "plain"}
        assert after.unknown == 0
        assert beliefs_at(store, at(-1)).insights == ()
