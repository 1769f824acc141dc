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
from tests.support.sqlite import MODEL, HashEmbedder, add, at, evidence, op
from workers.ledger import apply

KINDS = st.lists(st.sampled_from(["UPVOTE", "DOWNVOTE", "EDIT", "ARCHIVE"]), max_size=6)


def lived(kinds: Sequence[str], insight_id: str = "i") -> tuple[list[Insight], list[HistoryEntry]]:
    """The states of an insight, one an hour, and its history."""
    states: list[Insight] = []
    entries = []
    for hour, kind in enumerate(["ADD", *kinds]):
        fields: dict[str, Any] = {} if kind == "ARCHIVE" else {"evidence": evidence(hours=hour + 4)}
        if kind == "EDIT":
            fields["text"] = f"It was edited at hour {hour}."
        one = add(insight_id, **fields) if kind == "ADD" else op(kind, insight_id, f"{insight_id}-{hour}", hours=hour, **fields)
        before = states[-1] if states else None
        after = apply(before, one)
        assert isinstance(after, Insight)
        states.append(after)
        brought = getattr(one, "evidence", None)
        confidence = before.confidence if before else None
        entries.append(
            HistoryEntry(
                insight_id, after.revision, one.op_id, kind, one.ts, one.author, one.reason, confidence, after.confidence, brought
            )
        )
    return states, entries


@given(KINDS, st.integers(-1, 7))
def test_the_past_is_the_ledgers(kinds: list[str], hour: int) -> None:
    states, history = lived(kinds)
    moment = at(hour) + timedelta(minutes=30)
    later = kinds[max(hour, 0) :] if hour >= 0 else []
    if hour < 0:
        assert believed_at(states[-1], history, moment) is None
    elif "EDIT" in later:
        with pytest.raises(WordsUnknown):
            believed_at(states[-1], history, moment)
    else:
        assert believed_at(states[-1], history, moment) == states[min(hour, len(kinds))]


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
            "voted": "0.6", "archived": "0.6", "plain": "0.6",
        }  # fmt: skip
        assert before.unknown == 1
        after = beliefs_at(store, at(9))
        assert {insight.id for insight in after.insights} == {"voted", "edited", "plain"}
        assert after.unknown == 0
        assert beliefs_at(store, at(-1)).insights == ()
