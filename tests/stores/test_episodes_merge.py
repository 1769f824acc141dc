"""What a record does to a kept episode: the table, and that a second delivery changes nothing."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import ToolExecution
from stores.episodes.merge import Effect, Kept, after, judge
from tests.support.episodes import At, execution

BLOCK_A, BLOCK_B = "0x" + "a" * 64, "0x" + "b" * 64
PENDING: dict[str, Any] = {"status": "pending"}
FINAL: dict[str, Any] = {"block_hash": BLOCK_A}
REMOVED: dict[str, Any] = {"block_hash": BLOCK_A, "removed": True}
AGAIN: dict[str, Any] = {"block_hash": BLOCK_B}


def fold(*versions: dict[str, Any]) -> Kept:
    kept: Kept | None = None
    for offset, fields in enumerate(versions):
        kept = after(kept, At(offset), execution(**fields))
    assert kept is not None
    return kept


@pytest.mark.parametrize(
    ("before", "record", "effect"),
    [
        ((PENDING,), PENDING, Effect.DUPLICATE),
        ((PENDING,), FINAL, Effect.UPDATED),
        ((PENDING,), REMOVED, Effect.UPDATED),
        ((FINAL,), PENDING, Effect.DUPLICATE),
        ((FINAL,), FINAL, Effect.DUPLICATE),
        ((FINAL,), AGAIN, Effect.DUPLICATE),
        ((FINAL,), REMOVED, Effect.UPDATED),
        ((FINAL, REMOVED), PENDING, Effect.DUPLICATE),
        ((FINAL, REMOVED), REMOVED, Effect.DUPLICATE),
        ((FINAL, REMOVED), FINAL, Effect.DUPLICATE),
        ((FINAL, REMOVED), AGAIN, Effect.UPDATED),
        ((FINAL, REMOVED), {}, Effect.DUPLICATE),
    ],
)
def test_what_changes_an_episode(before: tuple[dict[str, Any], ...], record: dict[str, Any], effect: Effect) -> None:
    assert judge(fold(*before), At(99), execution(**record)) is effect


def test_what_is_new_is_inserted() -> None:
    assert judge(None, At(0), execution()) is Effect.INSERTED
    assert fold(PENDING) == Kept(pending=True, retracted=False, block_hash=None, places=((0, 0),))
    assert fold(FINAL, REMOVED) == Kept(pending=False, retracted=True, block_hash=BLOCK_A, places=((0, 0), (0, 1)))


versions = st.sampled_from([PENDING, FINAL, REMOVED, AGAIN, {"block_hash": BLOCK_B, "removed": True}])


@given(st.lists(versions, min_size=1, max_size=8), st.data())
def test_a_second_delivery_after_a_crash_changes_nothing_and_answers_alike(log: list[dict[str, Any]], data: st.DataObject) -> None:
    """The store holds the first ``stored`` records, the driver committed ``committed`` of them, and goes on from there."""
    events = [(At(offset), execution(**fields)) for offset, fields in enumerate(log)]
    kept, effects = deliver(None, events)
    stored = data.draw(st.integers(0, len(log)))
    committed = data.draw(st.integers(0, stored))
    half, _ = deliver(None, events[:stored])
    again, answers = deliver(half, events[committed:])
    assert again == kept
    seen = [effect if effect is not Effect.REPLAYED else None for effect in answers]
    first = effects[committed:]
    for number, (one, other) in enumerate(zip(seen, first, strict=True)):
        in_store = committed + number < stored
        changed = other in (Effect.INSERTED, Effect.UPDATED)
        assert one is (None if in_store and changed else other)


def deliver(kept: Kept | None, events: list[tuple[At, ToolExecution]]) -> tuple[Kept | None, list[Effect]]:
    effects = []
    for place, event in events:
        effect = judge(kept, place, event)
        if effect in (Effect.INSERTED, Effect.UPDATED):
            kept = after(kept, place, event)
        effects.append(effect)
    return kept, effects


@given(st.lists(st.tuples(st.integers(0, 2), versions), min_size=1, max_size=10), st.none() | st.integers(0, 2), st.randoms())
def test_the_order_between_partitions_makes_no_difference(
    log: list[tuple[int, dict[str, Any]]], forgotten_in: int | None, rng: Random
) -> None:
    """Every interleaving that keeps each partition's own order ends with the same record shown."""
    lanes: dict[int, list[tuple[At, dict[str, Any], bool]]] = {}
    for offset, (partition, fields) in enumerate(log):
        lanes.setdefault(partition, []).append((At(offset, partition), fields, False))
    if forgotten_in is not None:
        lanes.setdefault(forgotten_in, []).append((At(len(log), forgotten_in), FINAL, True))

    def shown(order: list[int]) -> tuple[At, bool, bool, str | None]:
        left = {partition: list(lane) for partition, lane in lanes.items()}
        kept, last = None, None
        for partition in order:
            place, fields, forgotten = left[partition].pop(0)
            event = execution(**fields)
            if judge(kept, place, event, forgotten=forgotten) in (Effect.INSERTED, Effect.UPDATED):
                kept, last = after(kept, place, event, forgotten=forgotten), place
        assert kept is not None
        assert last is not None
        return last, kept.pending, kept.retracted, kept.block_hash

    turns = [partition for partition, lane in lanes.items() for _ in lane]
    expected = shown(turns)
    for _ in range(3):
        rng.shuffle(turns)
        assert shown(turns) == expected
