"""The signals stage: alarms at the record that shows them, however batched, restarted or replayed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import decode, encode
from schemas.episodes import Episode
from schemas.events import Status, ToolExecution
from schemas.settings import Settings
from schemas.signals import DriftSignal, RegimeSignal
from schemas.topics import EPISODES_RECORDED, SIGNALS_RAISED
from tests.support.events import swap
from workers import signals
from workers.signals import SignalsStage
from workers.stage import Delivery, Emission, Outcome, Position, StatefulStage

START = datetime(2025, 1, 1, tzinfo=UTC)
SETTINGS = Settings(data_dir="unused", lateness_hours=4.0, drift_delta=0.01)


def episode(
    number: int, cost: float, *, hours: float | None = None, key: str = "a", simulated: bool = False, **then: object
) -> Episode:
    """An episode ten minutes after the one before it, with a cost."""
    when = START + timedelta(hours=number / 6 if hours is None else hours)
    event = ToolExecution.model_validate(swap(ts_executed=when, event_id=f"{key}-{number}", simulated=simulated))
    event = event.model_copy(update=then)
    return Episode(
        id=f"{key}-{number}", key=f"swap:1:{key}", label=key, event=event, metrics={"cost_bps": cost}, features={"router": "alpha"},
        reflection="r", sentence="s", vector=b"", model="none", importance=0.0,
    )  # fmt: skip


def drifting(n: int = 300, seed: int = 1, at: int = 150, **fields: object) -> list[Episode]:
    rng = random.Random(seed)
    return [episode(i, rng.gauss(30, 5) + 40 * (i >= at), **fields) for i in range(n)]  # type: ignore[arg-type]


def cycling(n: int = 400, every: int = 100) -> list[Episode]:
    """Costs that go up and down: four regimes' worth, ten minutes apart."""
    rng = random.Random(3)
    return [episode(i, rng.gauss(30, 5) + 40 * (i // every % 2)) for i in range(n)]


def deliveries(episodes: Sequence[Episode], first: int = 0) -> list[Delivery]:
    return [Delivery(Position(EPISODES_RECORDED.name, 0, first + i), one.key.encode(), one, 0) for i, one in enumerate(episodes)]


def fold(stage: SignalsStage, episodes: Sequence[Episode], size: int = 64) -> tuple[list[Emission], list[Outcome]]:
    records = deliveries(episodes)
    outcomes = [stage.handle(records[at : at + size]) for at in range(0, len(records), size)]
    return [emission for outcome in outcomes for emission in outcome.emissions], outcomes


def alarms(emissions: Sequence[Emission]) -> list[Emission]:
    return [emission for emission in emissions if isinstance(emission.message, DriftSignal)]


def changes(emissions: Sequence[Emission]) -> list[RegimeSignal]:
    return [emission.message for emission in emissions if isinstance(emission.message, RegimeSignal)]


def test_it_is_a_stateful_stage() -> None:
    stage = SignalsStage(0, SETTINGS)
    assert isinstance(stage, StatefulStage)
    assert stage.outputs == (SIGNALS_RAISED,)


def test_a_drift_is_one_signal_with_everything_in_it() -> None:
    emissions, outcomes = fold(SignalsStage(0, SETTINGS), drifting())
    (emission,) = alarms(emissions)
    signal = emission.message
    assert isinstance(signal, DriftSignal)
    assert (signal.level, signal.key, signal.metric) == ("pair", "swap:1:a", "cost_bps")
    assert signal.stream == emission.key == "pair:swap:1:a:cost_bps"
    assert signal.mean_before == pytest.approx(30, abs=2)
    assert signal.mean_after == pytest.approx(70, abs=5)
    assert signal.id == emission.message_id
    number = int(signal.episode_id.removeprefix("a-"))
    assert signal.ts == START + timedelta(minutes=10 * number)
    assert emission.ts_ms == int(signal.ts.timestamp() * 1000)
    assert decode("signal", encode(signal)) == signal
    assert sum(outcome.counts["drift_alarms"] for outcome in outcomes) == 1


@settings(max_examples=8)
@given(st.integers(1, 120), st.integers(0, 300), st.integers(0, 5))
def test_batches_restarts_and_where_they_fall_change_nothing(size: int, place: int, seed: int) -> None:
    episodes = [one for pair in zip(cycling(300, 60), drifting(seed=seed + 50, key="b", at=200), strict=True) for one in pair]
    whole = SignalsStage(0, SETTINGS)
    expected, _ = fold(whole, episodes)
    first = SignalsStage(0, SETTINGS)
    before, _ = fold(first, episodes[:place], size)
    second = SignalsStage(0, SETTINGS)
    second.restore(first.snapshot())
    after, _ = fold(second, episodes[place:], size)
    assert before + after == expected
    assert second.snapshot() == whole.snapshot()


def test_every_record_is_counted_once_as_what_it_is() -> None:
    stage = SignalsStage(0, SETTINGS)
    episodes = drifting(60)
    _, outcomes = fold(stage, [*episodes, *episodes[-3:], episode(900, 1.0, hours=1.0), episode(901, 1.0, hours=9.5)])
    total = [sum(getattr(outcome, name) for outcome in outcomes) for name in ("processed", "duplicates", "late")]
    assert total == [61, 3, 1]


def test_playing_everything_again_raises_nothing() -> None:
    stage = SignalsStage(0, SETTINGS)
    fold(stage, drifting())
    state = stage.snapshot()
    emissions, outcomes = fold(stage, drifting())
    assert emissions == []
    assert sum(outcome.processed for outcome in outcomes) == 0
    assert stage.snapshot() == state


def test_what_is_pending_or_retracted_teaches_nothing_and_may_come_again() -> None:
    stage = SignalsStage(0, SETTINGS)
    empty = stage.snapshot()
    pending, removed = episode(0, 1.0, status=Status.PENDING), episode(1, 1.0, removed=True)
    assert stage.handle(deliveries([pending, removed])).processed == 2
    assert stage.snapshot() == empty
    assert stage.handle(deliveries([episode(0, 1.0)])).processed == 1


def test_paper_trades_do_not_move_the_real_market() -> None:
    rng = random.Random(2)
    real = [episode(i, rng.gauss(30, 5)) for i in range(300)]
    paper = [episode(1_000 + i, rng.gauss(90, 5), hours=i / 6, simulated=True) for i in range(150, 300)]
    mixed = sorted([*real, *paper], key=lambda one: one.ts)
    assert fold(SignalsStage(0, SETTINGS), mixed)[0] == []
    emissions, _ = fold(SignalsStage(0, SETTINGS), drifting(simulated=True))
    assert {emission.message.simulated for emission in emissions} == {True}  # type: ignore[attr-defined]
    assert len(alarms(emissions)) == 1


def test_a_change_of_regime_is_one_signal_with_everything_in_it() -> None:
    emissions, outcomes = fold(SignalsStage(0, SETTINGS), cycling())
    raised = changes(emissions)
    assert [(one.previous, one.regime) for one in raised] == [(None, "turbulent"), ("turbulent", "calm"), ("calm", "turbulent")]
    assert [(one.since - START) // timedelta(minutes=10) // 5 * 5 for one in raised[1:]] == [200, 300]
    assert sum(outcome.counts["regime_changes"] for outcome in outcomes) == len(raised)
    last = raised[-1]
    assert (last.level, last.key, last.metric, last.stream) == ("pair", "swap:1:a", "cost_bps", "regime:swap:1:a:cost_bps")
    assert last.since < last.ts < last.since + timedelta(hours=1)
    assert last.probability >= 0.8
    assert [state.name for state in last.model.states] == ["calm", "turbulent"]
    assert [state.typical for state in last.model.states] == pytest.approx([30, 70], abs=3)
    assert decode("signal", encode(last)) == last
    (emission,) = [emission for emission in emissions if emission.message == last]
    assert (emission.key, emission.message_id, emission.ts_ms) == (last.stream, last.id, int(last.ts.timestamp() * 1000))


def test_each_change_goes_on_from_the_one_before_and_time_never_goes_back() -> None:
    rng = random.Random(5)
    shuffled = sorted(cycling(), key=lambda one: one.ts + timedelta(minutes=rng.uniform(0, 12)))
    raised = changes(fold(SignalsStage(0, SETTINGS), shuffled)[0])
    assert len(raised) >= 3
    for before, after in pairwise(raised):
        assert after.previous == before.regime
        assert before.since < before.ts < after.since < after.ts


def test_keys_beyond_the_bound_forget_the_one_that_spoke_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "MAX_KEYS", 2)
    stage = SignalsStage(0, SETTINGS)
    for key in ("a", "b", "a", "c"):
        stage.handle(deliveries([episode(len(key), 1.0, key=key)]))
    again = {key: stage.handle(deliveries([episode(1, 1.0, key=key)])).duplicates for key in ("a", "c", "b")}
    assert again == {"a": 1, "c": 1, "b": 0}


def test_a_state_that_is_not_ours_is_refused_and_changes_nothing() -> None:
    stage = SignalsStage(0, SETTINGS)
    fold(stage, drifting(80))
    state = stage.snapshot()
    other = SignalsStage(0, Settings(data_dir="unused", drift_delta=0.2))
    for bad in (b"", b"[]", b"{}", b"\xff", state[:-10], state.replace(b'"format":2', b'"format":1'), other.snapshot()):
        with pytest.raises(ValueError, match="not a snapshot of the signals stage"):
            stage.restore(bad)
    assert stage.snapshot() == state


@pytest.mark.parametrize("number", [0, 50, 250])
def test_one_record_with_a_date_far_ahead_silences_no_regimes(number: int) -> None:
    """It is one look like another; what comes after it, in its own time, does not wait for that date."""
    told = cycling()
    wrong = episode(10_000, told[number].metrics["cost_bps"], hours=number / 6 + 24 * 90)
    plain, ahead = (
        [one.message for one in fold(SignalsStage(0, SETTINGS), episodes)[0] if isinstance(one.message, RegimeSignal)]
        for episodes in (told, [*told[:number], wrong, *told[number:]])
    )
    assert len(plain) >= 3
    assert [(one.previous, one.regime) for one in ahead] == [(one.previous, one.regime) for one in plain]
    assert all(abs(one.since - other.since) <= timedelta(hours=1) for one, other in zip(ahead, plain, strict=True))
