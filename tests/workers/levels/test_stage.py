"""Above the key: what holds in every pair is claimed, what differs between pairs is not, and arrival leaves no trace."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import decode
from schemas.operations import AddInsight
from schemas.topics import OPERATIONS, SIGNALS_RAISED
from schemas.windows import WindowClosed
from tests.support.toy_windows import WINDOW_MS, Pair, dearer, deliveries, failing, interleaved, records
from workers.distil.words import supported
from workers.ledger import Rejected, apply
from workers.levels.stage import LevelsStage
from workers.stage import Emission, StatefulStage

PAIRS = [
    Pair("swap:1:A/B", 5.0, plant=dearer(), source=0),
    Pair("swap:1:C/D", 30.0, plant=dearer(4.0), source=1),
    Pair("swap:10:A/B", 12.0, plant=dearer(8.0), source=2),
    Pair("bridge:1:A", 20.0, plant=dearer(5.0), source=3),
    Pair("bridge:10:A", 25.0, plant=failing("transport", 0.3), source=3),
]


def run(made: list[WindowClosed], stage: LevelsStage | None = None) -> list[Emission]:
    return list((stage or LevelsStage()).handle(deliveries(made)).emissions)


def adds(emissions: list[Emission], level: str) -> list[AddInsight]:
    operations = [one.message for one in emissions if isinstance(one.message, AddInsight)]
    return [one for one in operations if one.claim is not None and one.claim.level == level]


def claims(emissions: list[Emission], level: str) -> set[tuple[str, str]]:
    """Key and feature of what is claimed about costs."""
    return {
        (one.key, one.claim.conditions[0].feature) for one in adds(emissions, level) if one.claim and one.claim.metric == "cost_bps"
    }


@pytest.fixture(scope="module")
def made() -> list[WindowClosed]:
    return records(PAIRS, 50)


@pytest.fixture(scope="module")
def emissions(made: list[WindowClosed]) -> list[Emission]:
    return run(made)


def test_what_holds_in_every_pair_is_said_of_the_tool_and_says_in_how_many(emissions: list[Emission]) -> None:
    (one,) = [one for one in adds(emissions, "tool") if one.key == "swap:*:*" and one.claim and one.claim.metric == "cost_bps"]
    assert one.claim is not None
    assert one.evidence is not None
    assert one.evidence.spread is not None
    assert (one.evidence.spread.pairs, one.evidence.spread.pairs_shown) == (3, 3)
    assert one.text.startswith("swap across pairs: total cost")
    assert "within pairs, shown in 3 of 3 pairs" in one.text
    assert supported(one.text, one.claim, one.evidence, one.label)
    assert one.insight_id == one.claim.insight_id
    assert 4.0 < abs(one.evidence.inside - one.evidence.outside) < 8.0  # levels are averaged within pairs


def test_what_holds_in_one_pair_of_a_tool_is_not_said_of_it(emissions: list[Emission]) -> None:
    assert not [key for key, _ in claims(emissions, "tool") if key == "bridge:*:*"]


def test_what_holds_in_several_tools_is_said_of_all() -> None:
    pairs = [Pair(f"{tool}:1:A/{i}", 10.0 * i, plant=dearer()) for tool in ("swap", "bridge") for i in (1, 2)]
    everything = [one for one in adds(run(records(pairs, 40), LevelsStage(sources=1)), "global") if one.claim and one.key == "*"]
    assert [one.claim.conditions[0].feature for one in everything if one.claim] == ["router"]
    assert everything[0].evidence is not None
    assert everything[0].evidence.spread is not None
    assert (everything[0].evidence.spread.tools, everything[0].evidence.spread.tools_shown) == (2, 2)
    assert "2 of 2 tools and 4 of 4 pairs" in everything[0].text


def test_a_difference_between_pairs_is_no_claim_about_the_tool() -> None:
    """Alpha is used where costs are high anyway: pooled it looks three times as dear, within each pair it is not."""
    pairs = [Pair("swap:1:A/B", 5.0, alpha=0.15), Pair("swap:1:C/D", 30.0, alpha=0.85), Pair("swap:1:E/F", 28.0, alpha=0.8)]
    assert claims(run(records(pairs, 50), LevelsStage(sources=1)), "tool") == set()


def test_one_strong_pair_among_others_without_effect_is_no_claim_about_the_tool() -> None:
    pairs = [Pair("swap:1:A/B", plant=dearer(30.0)), *(Pair(f"swap:1:C/{i}") for i in range(3))]
    assert claims(run(records(pairs, 50), LevelsStage(sources=1)), "tool") == set()


@pytest.mark.parametrize("seed", range(2))
def test_arrival_across_partitions_leaves_no_trace(made: list[WindowClosed], emissions: list[Emission], seed: int) -> None:
    mixed = interleaved(made, seed)
    assert [one.id for one in mixed] != [one.id for one in made]
    assert [one.message.to_wire() for one in run(mixed, LevelsStage(patience_days=30))] == [
        one.message.to_wire() for one in emissions
    ]


def test_a_silent_partition_is_not_waited_for_for_ever() -> None:
    pairs = [Pair("swap:1:A/B", plant=dearer(), source=0), Pair("swap:1:C/D", plant=dearer(), source=1)]
    batch = records(pairs, 60)
    assert not run(batch[:40])  # a third partition may still have something to say of these days
    assert claims(run(batch), "tool") == {("swap:*:*", "router")}
    heard = LevelsStage(sources=2)
    assert claims(run(batch[:60], heard), "tool")


@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_neither_batches_nor_a_restart_change_anything(
    made: list[WindowClosed], emissions: list[Emission], data: st.DataObject
) -> None:
    batch, got, start, stage = deliveries(made), [], 0, LevelsStage()
    assert isinstance(stage, StatefulStage)
    for end in sorted({*data.draw(st.sets(st.integers(1, len(batch)), min_size=1, max_size=2)), len(batch)}):
        got += [one.message.to_wire() for one in stage.handle(batch[start:end]).emissions]
        state, start = stage.snapshot(), end
        stage = LevelsStage()
        stage.restore(state)
        assert stage.snapshot() == state
    assert got == [one.message.to_wire() for one in emissions]


def test_windows_that_come_again_are_duplicates(made: list[WindowClosed]) -> None:
    stage = LevelsStage()
    stage.handle(deliveries(made[:60]))
    before = stage.snapshot()
    again = stage.handle(deliveries(made[20:60]))
    assert (again.processed, again.duplicates, list(again.emissions)) == (0, 40, [])
    assert stage.snapshot() == before


def test_a_window_of_a_partition_that_there_is_not_is_refused_and_not_called_a_duplicate(made: list[WindowClosed]) -> None:
    stage = LevelsStage(sources=2)
    batch = [one for one in made if one.source < 2][:4]
    foreign = made[0].model_copy(update={"source": 2, "sequence": 0})
    outcome = stage.handle(deliveries([*batch, foreign]))
    assert (outcome.processed, outcome.duplicates, [one.reason for one in outcome.refusals]) == (4, 0, ["unknown_source"])


def test_history_that_is_filled_in_joins_the_evidence_and_reopens_nothing(made: list[WindowClosed]) -> None:
    stage = LevelsStage()
    stage.handle(deliveries(made[:150]))
    old = made[150].model_copy(update={"start_ms": made[0].start_ms, "end_ms": made[0].end_ms})
    outcome = stage.handle(deliveries([old]))
    assert outcome.processed == 1
    waiting = [record["id"] for _, records_ in orjson.loads(stage.snapshot())["open"] for record in records_]
    assert old.id in waiting


def test_every_operation_is_a_record_that_the_ledger_takes(emissions: list[Emission]) -> None:
    insights = {}
    assert {one.topic for one in emissions} <= {OPERATIONS, SIGNALS_RAISED}
    for one in emissions:
        assert decode(one.topic.carries, one.message.to_wire()) == one.message
        if one.topic is OPERATIONS:
            operation = one.message
            assert operation.author == "levels"  # type: ignore[attr-defined]
            assert one.ts_ms % WINDOW_MS == 0
            after = apply(insights.get(operation.insight_id), operation)  # type: ignore[attr-defined, arg-type]
            assert not isinstance(after, Rejected)
            insights[after.id] = after
    assert len({one.message_id for one in emissions}) == len(emissions)


def test_drift_of_a_tool_is_a_signal_and_closes_the_evidence() -> None:
    """All pairs turn dearer in the middle, with alpha now the cheaper router."""

    def plant(extra: float) -> Pair:
        turn = (dearer(6.0, until=50), dearer(-6.0, since=50))

        def planted(window: int, features: object, metrics: dict[str, float], rng: object) -> str:
            for one in turn:
                one(window, features, metrics, rng)  # type: ignore[arg-type]
            metrics["cost_bps"] += 20.0 * (window >= 50)
            return ""

        return Pair(f"swap:1:A/{extra:g}", extra, plant=planted, rows=16)  # type: ignore[arg-type]

    emissions = run(records([plant(10.0), plant(20.0), plant(40.0)], 100), LevelsStage(sources=1))
    signals = [one.message for one in emissions if one.topic is SIGNALS_RAISED]
    (alarm,) = [one for one in signals if one.level == "tool" and one.metric == "cost_bps"]  # type: ignore[attr-defined]
    assert alarm.key == "swap:*:*"  # type: ignore[attr-defined]
    assert 12.0 < alarm.mean_after - alarm.mean_before < 16.0  # type: ignore[attr-defined]
    concerned = {one.insight_id for one in adds(emissions, "tool") if one.claim and one.claim.metric == "cost_bps"}
    after = [one for one in emissions if one.topic is OPERATIONS and one.ts_ms > alarm.ts.timestamp() * 1000]  # type: ignore[attr-defined]
    told = [one.message for one in after if one.message.insight_id in concerned]  # type: ignore[attr-defined]
    assert "DOWNVOTE" in {one.kind for one in told}  # type: ignore[attr-defined]
    assert all(one.evidence.first_ts >= alarm.ts for one in told if one.kind != "ARCHIVE")  # type: ignore[attr-defined]


@pytest.mark.parametrize("foreign", [b"", b"[]", b'{"version":0}', b'{"version":1,"frontier":{"marks":[1]},"open":[],"groups":[]}'])
def test_a_foreign_state_is_refused_and_changes_nothing(made: list[WindowClosed], foreign: bytes) -> None:
    stage = LevelsStage()
    stage.handle(deliveries(made[:30]))
    before = stage.snapshot()
    with pytest.raises(ValueError, match="not a state of the levels stage"):
        stage.restore(foreign)
    assert stage.snapshot() == before


def test_nothing_is_claimed_from_nothing() -> None:
    pairs = [Pair(f"swap:1:A/{i}", 10.0 * i) for i in range(4)]
    wrong = sum(bool(adds(run(records(pairs, 40, seed), LevelsStage(sources=1)), "tool")) for seed in range(4))
    assert wrong == 0
