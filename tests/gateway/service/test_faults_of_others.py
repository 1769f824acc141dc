"""What went wrong in other memories, tried on this one. Each test is named after the fault."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from gateway.errors import Unprocessable
from gateway.rest.bodies import Filters, RecallBody
from schemas.topics import OPERATIONS
from stores.recall.errors import BadRecall
from stores.recall.filters import RecallFilters
from stores.sqlite import BadQuery, InsightFilter
from tests.support.gateway import ADMIN, AGENT, OTHER, READER, WAIT, Brain, running_brain
from tests.support.sqlite import add, at


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    folder: Path = tmp_path_factory.mktemp("brain")
    with running_brain(folder) as running:
        yield running


def told(brain: Brain, request_id: str, text: str, caller: object = AGENT, **fields: object) -> str:
    """Write a note and give the id of the insight that holds it."""
    done = brain.service.remember(caller, request_id, text, wait_s=WAIT, **fields)  # type: ignore[arg-type]
    assert done.state == "applied"
    return str(done.insight_id)


def recalled(brain: Brain, query: str, **filters: object) -> list[str]:
    """What is recalled of the animal that the question begins with; other tests' animals are in the same brain."""
    found = brain.service.recall(READER, query, RecallFilters(**filters), 20)  # type: ignore[arg-type]
    return [hit.id for hit in found.result.hits if query.split()[0] in hit.text.lower()]


def test_deleting_one_users_memory_deletes_everybodys(brain: Brain) -> None:
    mine = told(brain, "del-1", "The ibex pool is deep.")
    theirs = told(brain, "del-1", "The ibex router is slow.", OTHER)
    brain.service.forget(ADMIN, "del-2", mine, "", WAIT)
    assert recalled(brain, "ibex") == [theirs]


def test_a_delete_reports_success_and_leaves_some(brain: Brain) -> None:
    ids = [told(brain, f"some-{number}", f"The lemur pool {name} is deep.") for number, name in enumerate(("Ada", "Bob", "Cyd"))]
    for number, one in enumerate(ids):
        assert brain.service.forget(ADMIN, f"gone-{number}", one, "", WAIT).state == "applied"
        brain.settle()
        assert not any(brain.service.traces(ADMIN, one, f"lemur pool {('Ada', 'Bob', 'Cyd')[number]}").values())
    assert recalled(brain, "lemur pool") == []


def test_the_same_text_twice_deletes_the_first(brain: Brain) -> None:
    first = told(brain, "twice-1", "The okapi bridge is slow.")
    assert told(brain, "twice-2", "The okapi bridge is slow.", OTHER) == first
    assert recalled(brain, "okapi bridge") == [first]


def test_queued_then_dropped(brain: Brain) -> None:
    """A write that was accepted is in the log, and one that cannot be applied says so and is kept as a dead letter."""
    before = brain.log.end_offsets(OPERATIONS.name)[0]
    pending = brain.service.remember(AGENT, "queued-1", "The panda pool is thin.")
    assert pending.state in ("pending", "applied")
    assert brain.log.end_offsets(OPERATIONS.name)[0] == before + 1
    assert brain.service.operation(AGENT, "queued-1", WAIT).event == "new"


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


def test_a_filter_after_the_nearest_returns_nothing(brain: Brain) -> None:
    """Three hundred nearer ones of another key do not crowd out the one that passes."""
    brain.publish(
        *(add(f"crowd-{number}", text="Zebra pools are thin.", key="swap:1:crowd") for number in range(300)),
        add("the-one", text="Zebra pools are rather thin at times.", key="swap:1:wanted"),
    )
    assert recalled(brain, "zebra pools are thin", pair="wanted") == ["the-one"]


@pytest.mark.parametrize("k", [0, -1, 4_097])
def test_a_limit_out_of_range_raises_what_nobody_catches(brain: Brain, k: int) -> None:
    with pytest.raises(BadQuery):
        brain.insights.knn(np.ones(64), k)
    if k < 1:
        with pytest.raises(BadRecall):
            brain.service.recall(READER, "x", limit=k)


def test_another_embedders_dimension(brain: Brain) -> None:
    with pytest.raises(BadQuery, match="dimension"):
        brain.insights.knn(np.ones(65), 1)


def test_two_in_the_morning_is_filed_under_the_previous_day(brain: Brain) -> None:
    """The same instant in two zones is the same instant, in filters and as of a moment."""
    brain.publish(add("night", text="Aardvark pools are thin.", ts=at(24 * 40 + 2)))
    instant = at(24 * 40 + 2)
    for zone in (UTC, timezone(timedelta(hours=-7)), timezone(timedelta(hours=14))):
        there = instant.astimezone(zone)
        assert recalled(brain, "aardvark pools", since=there) == ["night"]
        assert recalled(brain, "aardvark pools", until=there) == []
        found = brain.service.recall(READER, "aardvark pools", as_of=there)
        assert [hit.id for hit in found.result.hits if "Aardvark" in hit.text] == ["night"]


@pytest.mark.parametrize("date", ["2026", "2026-01-01", "yesterday", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00", ""])
def test_a_malformed_date_opens_the_filter_or_is_read_as_another(date: str) -> None:
    with pytest.raises(ValueError, match="since"):
        RecallBody.model_validate({"query": "x", "filters": {"since": date}})
    assert Filters.model_validate({"since": "2026-01-01T02:00:00-07:00"}).wanted().since == datetime(2026, 1, 1, 9, tzinfo=UTC)


def test_an_injected_condition_opens_the_filter(brain: Brain) -> None:
    brain.publish(add("alice", text="Bison pools are thin.", key="swap:1:alice"))
    for value in ("alice')) OR true--", "' OR '1'='1", "%", "*", "alice\x00"):
        assert recalled(brain, "bison pools", pair=value) == []
        assert brain.service.insights(READER, InsightFilter(pair=value)).items == ()
    assert recalled(brain, "bison pools", pair="alice") == ["alice"]


def test_nul_in_content(brain: Brain) -> None:
    with pytest.raises(Unprocessable):
        brain.service.remember(AGENT, "nul-1", "a\x00b")


def test_what_is_archived_is_still_recalled_from_an_index(brain: Brain) -> None:
    brain.publish(add("arch", text="Camel pools are thin."))
    brain.service.archive(AGENT, "arch-1", "arch", "", WAIT)
    assert recalled(brain, "camel pools") == []
    assert brain.insights.search_text("camel") == ()
    assert brain.service.adjust(AGENT, "arch-2", "arch", "", confidence=Decimal("0.9"), wait_s=WAIT).state == "applied"
    assert recalled(brain, "camel pools") == []
