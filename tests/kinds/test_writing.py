"""Kinds of faults in writing: retries, duplicates, evidence, corrections. The list of all kinds is in ``test_all_kinds.py``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from gateway.errors import Unprocessable
from schemas.topics import OPERATIONS
from streams.stages.writer import InsightWriter
from tests.support.gateway import AGENT, OTHER, READER, WAIT, Brain
from tests.support.kinds import recalled, told
from tests.support.sqlite import HashEmbedder, add, operations, writing
from workers.ports import Vectors


def test_queued_then_dropped(brain: Brain) -> None:
    """A write that was accepted is in the log, and one that cannot be applied says so and is kept as a dead letter."""
    before = brain.log.end_offsets(OPERATIONS.name)[0]
    pending = brain.service.remember(AGENT, "queued-1", "The panda pool is thin.")
    assert pending.state in ("pending", "applied")
    assert brain.log.end_offsets(OPERATIONS.name)[0] == before + 1
    assert brain.service.operation(AGENT, "queued-1", WAIT).event == "new"


class Broken(HashEmbedder):
    """A model that fails, or gives what is no vector, until it is repaired."""

    fault: str | None = "raises"

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.fault == "raises":
            raise OSError("model file gone")
        rows = super().embed(texts)
        return rows * np.nan if self.fault == "nan" else rows


@pytest.mark.parametrize("fault", ["raises", "nan"])
def test_a_failed_vector_insert_is_only_logged(tmp_path: Path, fault: str) -> None:
    """Nothing of a batch is kept whose vectors cannot be, and nothing says that it is; it comes again and is applied whole."""
    embedder = Broken()
    embedder.fault = fault
    batch = operations(add("one"), add("two"))
    with writing(tmp_path / "store.db") as store:
        writer = InsightWriter(store, embedder)
        with pytest.raises((OSError, ValueError)):
            writer.handle(batch)
        assert (store.counts(), store.applied_place("add-one"), store.next_offsets()) == ((0, 0), None, {})
        embedder.fault = None
        assert writer.handle(batch).processed == 2
        assert {hit.insight.id for hit in store.knn(embedder.vector("Insight one holds."), 5)} == {"one", "two"}


def test_a_clients_timeout_and_retry_makes_two_records(brain: Brain) -> None:
    for _ in range(3):
        held = told(brain, "retry-1", "The quokka pool is thin.")
    assert len(brain.insights.history(held)) == 1


def test_two_genuine_identical_writes_collapse_to_one(brain: Brain) -> None:
    held = told(brain, "genuine-1", "The rhino pool is thin.")
    told(brain, "genuine-2", "The rhino pool is thin.", OTHER)
    note = brain.service.insight(READER, held).note
    assert note is not None
    assert (note.reinforced, len(brain.insights.history(held))) == (1, 2)


def test_recalled_memories_are_taken_in_again_as_evidence(brain: Brain) -> None:
    """Repeating what was recalled counts for nothing, whatever way it was handed over; quoting its marks is refused."""
    first = told(brain, "again-1", "The serval pool reverts at noon.")
    brain.service.recall(OTHER, "serval pool")
    echo = brain.service.remember(OTHER, "again-2", "The serval pool reverts at noon.", wait_s=WAIT)
    assert (echo.event, echo.insight_id) == ("echo", first)
    note = brain.service.insight(READER, first).note
    assert note is not None
    assert (note.reinforced, note.echoes) == (0, 1)
    with pytest.raises(Unprocessable, match="handed out"):
        brain.service.remember(OTHER, "again-3", f'[note {first}, confidence 1.00] "The serval pool reverts."')
    with pytest.raises(Unprocessable, match="handed out"):
        brain.service.record_execution(OTHER, "again-4", {"tool": "probe", "error": f"[note {first}] reverts"})


def test_a_changed_address_is_rejected_as_a_duplicate(brain: Brain) -> None:
    first = told(brain, "ip-1", "The sloth node is 192.168.7.1")
    second = told(brain, "ip-2", "The sloth node is 192.168.9.1")
    assert sorted(recalled(brain, "sloth node")) == sorted([first, second])


def test_a_gap_between_two_thresholds_in_which_nothing_counts(brain: Brain) -> None:
    """Whatever is written, it is new, or it changed something, or it is told why it is not: there is no silent case."""
    seen = set()
    sentence = "At noon on every weekday the tapir gas is {} gwei"
    for number, text in enumerate((sentence.format(30), sentence.format(31), sentence.format(31).upper(), "Tapirs are fine.")):
        done = brain.service.remember(AGENT, f"gap-{number}", text, wait_s=WAIT)
        assert done.event
        assert done.detail
        seen.add(done.event)
    assert {"new", "updated", "reinforced"} <= seen


def test_mentioning_an_entity_retires_unrelated_facts(brain: Brain) -> None:
    first = told(brain, "ent-1", "The vole pool on Curve is deep.")
    second = told(brain, "ent-2", "The vole pool on Curve charges 4 bps.")
    third = told(brain, "ent-3", "The vole pool on Curve was paused on 2026-03-01.")
    assert {brain.service.insight(READER, one).status for one in (first, second, third)} == {"active"}


def test_sold_against_owns_is_missed(brain: Brain) -> None:
    """What is gone is not owned any more: one of the two is left, the later one."""
    owned = told(brain, "sold-1", "The puma desk owns 500 ARB.")
    sold = told(brain, "sold-2", "The puma desk sold all ARB.")
    assert recalled(brain, "puma desk") == [sold]
    assert brain.service.insight(READER, owned).status == "archived"


def test_correcting_leaves_the_old_one_active(brain: Brain) -> None:
    old = told(brain, "corr-1", "The wombat owns 5 WETH.")
    new = told(brain, "corr-2", "The wombat wallet was emptied yesterday.", corrects=old)
    assert recalled(brain, "wombat") == [new]
    assert brain.service.insight(READER, old).note.superseded_by == new  # type: ignore[union-attr]


def test_an_update_drops_metadata_or_changes_one_index_only(brain: Brain) -> None:
    held = told(brain, "meta-1", "The yak limit is 30 gwei.", key="swap:1:yak", importance=0.4)
    assert told(brain, "meta-2", "The yak limit is 45 gwei.", key="swap:1:yak") == held
    after = brain.service.insight(READER, held)
    assert (after.key, after.importance, after.author) == ("swap:1:yak", 0.4, "agent")
    assert [hit.insight.id for hit in brain.insights.search_text("45")] == [held]
    assert held not in [hit.insight.id for hit in brain.insights.search_text("yak 30") if "30" in hit.insight.text]
    (near, *_) = brain.insights.knn(brain.service._embedder.embed(["The yak limit is 45 gwei."])[0], 1)
    assert (near.insight.id, round(near.score, 5)) == (held, 1.0)
