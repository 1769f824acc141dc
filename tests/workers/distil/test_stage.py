"""The stage: all operations really occur and are true of the stream; a pure fold; nothing from nothing."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import decode
from schemas.topics import EPISODES_RECORDED, OPERATIONS
from tests.support.toy_market import MINUTE_MS, Market, dearer_by_share, deliveries, episode, failing_router, gas_by_hour
from workers.distil.learning import Learning
from workers.distil.stage import DistilStage
from workers.distil.words import supported
from workers.ledger import Rejected, apply
from workers.stage import Delivery, Emission, Position, StatefulStage

ALL_EFFECTS = (dearer_by_share(), gas_by_hour(), failing_router())


def said(batch: list[Delivery], stage: DistilStage | None = None, size: int = 256) -> list[Emission]:
    return [one for one in handed(batch, stage or DistilStage(), size) if one.topic is OPERATIONS]


def handed(batch: list[Delivery], stage: DistilStage, size: int = 256) -> list[Emission]:
    """Everything that is emitted, closed windows too."""
    return [emission for i in range(0, len(batch), size) for emission in stage.handle(batch[i : i + size]).emissions]


def two_keys(n: int) -> list[Delivery]:
    """Two keys taking turns on one partition, the second with another rhythm."""
    first = Market(ALL_EFFECTS, seed=1).episodes(n)
    second = Market((gas_by_hour(),), seed=2, key="swap:1:LINK/WETH", minutes=27).episodes(n // 3)
    mixed = sorted([*first, *second], key=lambda one: one.ts)
    return deliveries(mixed)


@pytest.fixture(scope="module")
def mixed() -> list[Delivery]:
    return two_keys(420)


def test_planted_effects_are_added_in_words_that_their_evidence_holds() -> None:
    emissions = said(deliveries(Market(ALL_EFFECTS).episodes(700)))
    adds = [emission.message for emission in emissions if emission.message.kind == "ADD"]
    found = {(one.claim.metric, condition.feature) for one in adds for condition in one.claim.conditions}
    assert {("cost_bps", "size_share"), ("gas_gwei", "hour"), ("failed", "router")} <= found
    assert all(one.claim.direction == "higher" for one in adds)
    for one in adds:
        assert supported(one.text, one.claim, one.evidence, one.label)
        assert one.insight_id == one.claim.insight_id
        assert one.evidence.last_ts < one.ts
        assert one.author == "distil"


def test_operations_of_every_kind_occur_and_the_ledger_takes_them() -> None:
    """Costs turn round after 500 episodes; the share from which gas is dear moves; the ledger accepts each operation in order."""
    turned = (dearer_by_share(until=500), dearer_by_share(extra=-6, since=500))
    emissions = said(deliveries(Market(turned, seed=3).episodes(1100)))
    kinds = Counter(emission.message.kind for emission in emissions)
    assert set(kinds) >= {"ADD", "UPVOTE", "DOWNVOTE", "EDIT"}
    insights = {}
    for emission in emissions:
        operation = emission.message
        after = apply(insights.get(operation.insight_id), operation)
        assert not isinstance(after, Rejected)
        insights[operation.insight_id] = after
    shares = [one for one in insights.values() if {part.feature for part in one.claim.conditions} == {"size_share"}]
    assert [one.claim.direction for one in shares] == ["lower"]


def test_a_threshold_that_moves_is_an_edit_of_the_same_insight() -> None:
    moved = (dearer_by_share(until=500), dearer_by_share(threshold=0.02, since=500))
    emissions = said(deliveries(Market(moved, seed=4).episodes(1300)))
    edits = [one.message for one in emissions if one.message.kind == "EDIT" and "threshold" in one.message.reason]
    assert edits
    (condition,) = edits[-1].claim.conditions
    assert 0.012 < condition.value < 0.03
    added = {one.message.insight_id: one.message for one in emissions if one.message.kind == "ADD"}
    assert added[edits[-1].insight_id].claim.conditions[0].value < 0.01


def test_emissions_are_records_of_the_operations_topic(mixed: list[Delivery]) -> None:
    emissions = said(mixed)
    assert emissions
    assert isinstance(DistilStage(), StatefulStage)
    for emission in emissions:
        assert emission.topic is OPERATIONS
        assert emission.key == emission.message.insight_id
        assert emission.message_id == emission.message.op_id
        assert emission.ts_ms == round(emission.message.ts.timestamp() * 1000)
        assert emission.ts_ms % (4 * 60 * MINUTE_MS) == 0
        assert decode(OPERATIONS.carries, emission.message.to_wire()) == emission.message
    assert len({emission.message_id for emission in emissions}) == len(emissions)


@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_neither_batches_nor_a_restart_change_anything(mixed: list[Delivery], data: st.DataObject) -> None:
    straight = DistilStage()
    expected = [emission.message.to_wire() for emission in straight.handle(mixed).emissions]
    assert expected
    stage, got, start = DistilStage(), [], 0
    for end in sorted({*data.draw(st.sets(st.integers(1, len(mixed)), max_size=4)), len(mixed)}):
        got += [emission.message.to_wire() for emission in stage.handle(mixed[start:end]).emissions]
        state, start = stage.snapshot(), end
        stage = DistilStage()
        stage.restore(state)
        assert stage.snapshot() == state
    assert got == expected
    assert stage.snapshot() == straight.snapshot()


def test_every_record_is_counted_once_and_a_duplicate_teaches_nothing() -> None:
    batch = deliveries(Market(ALL_EFFECTS).episodes(150))
    stage = DistilStage()
    stage.handle(batch)
    before = stage.snapshot()
    again = stage.handle(batch[-10:])
    assert (again.processed, again.duplicates, again.late) == (0, 10, 0)
    assert not again.emissions
    after, first = orjson.loads(stage.snapshot()), orjson.loads(before)
    assert after["keys"] == first["keys"]
    old = stage.handle(batch[:5])
    assert (old.processed, old.duplicates, old.late) == (0, 0, 5)


def test_what_is_not_final_is_counted_but_teaches_nothing() -> None:
    one = next(iter(Market().episodes(1)))
    pending = one.model_copy(update={"event": one.event.model_copy(update={"status": "pending"})})
    stage = DistilStage()
    outcome = stage.handle(deliveries([pending]))
    assert (outcome.processed, outcome.counts) == (1, {"not_learned": 1})
    assert stage.handle(deliveries([one])).processed == 1


def test_a_key_that_falls_silent_is_heard_to_the_end() -> None:
    """Its last window closes when the partition has gone on for a window's length without it."""
    quiet = list(Market(ALL_EFFECTS, seed=5).episodes(130))
    end_ms = round(quiet[-1].ts.timestamp() * 1000)
    busy = [episode("swap:1:BUSY", i, end_ms + i * MINUTE_MS, {"failed": 0.0}, {"hour": 1.0}) for i in range(600)]
    stage = DistilStage(Learning(window_min_episodes=130))
    assert not said(deliveries(quiet), stage)
    heard = said(deliveries(busy), stage)
    assert {emission.message.key for emission in heard if emission.message.kind == "ADD"} == {quiet[0].key}


def test_a_record_dated_ahead_closes_nothing(mixed: list[Delivery]) -> None:
    """One honest-looking date far ahead: the same insights come out, at the same times."""
    one = mixed[100].message
    event = one.event.model_copy(update={"event_id": "ahead", "ts_executed": one.ts.replace(year=2030)})
    ahead = one.model_copy(update={"id": "ahead", "event": event})
    bent = [*mixed[:101], Delivery(Position(EPISODES_RECORDED.name, 0, 10_000), b"k", ahead, 0), *mixed[101:]]
    pairs = zip_longest(said(mixed), said(bent))
    assert all(left is not None and right is not None and left.message_id == right.message_id for left, right in pairs)


def test_what_is_learned_of_simulated_trades_says_so() -> None:
    emissions = said(deliveries(Market(ALL_EFFECTS, simulated=True).episodes(400)))
    adds = [emission.message for emission in emissions if emission.message.kind == "ADD"]
    assert adds
    assert all(one.simulated and one.text.startswith("[simulated] ") for one in adds)


@pytest.mark.parametrize(
    "foreign",
    [b"", b"[]", b"{}", b'{"version":0,"clock":{},"keys":{}}', b'{"version":1,"clock":{"now":null,"marks":[]},"keys":{"k":{}}}'],
)
def test_a_foreign_state_is_refused_and_changes_nothing(foreign: bytes) -> None:
    stage = DistilStage()
    stage.handle(deliveries(Market().episodes(30)))
    before = stage.snapshot()
    with pytest.raises(ValueError, match="not a state of the distil stage"):
        stage.restore(foreign)
    assert stage.snapshot() == before


def test_state_is_bounded() -> None:
    stage = DistilStage(Learning(evidence_limit=100))
    sizes = []
    batch = deliveries(Market(ALL_EFFECTS).episodes(900))
    for i in range(0, 900, 300):
        stage.handle(batch[i : i + 300])
        sizes.append(len(stage.snapshot()))
    assert sizes[2] < 1.3 * sizes[1]


@pytest.mark.parametrize(
    ("tail", "persistence"), [("lognormal", 0.0), ("cauchy", 0.0), ("lognormal", 0.9)], ids=["light", "heavy", "autocorrelated"]
)
def test_nothing_is_learned_from_nothing(tail: str, persistence: float) -> None:
    """Five streams without any effect: not one insight in at least four of them."""
    wrong = 0
    for seed in range(5):
        stream = deliveries(Market(seed=500 + seed, tail=tail, persistence=persistence).episodes(450))
        wrong += bool(said(stream))
    assert wrong <= 1
