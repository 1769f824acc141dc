"""Drift alarms: quiet where nothing changes, prompt where something does, the same after a restart."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.drift import MOST_ARRIVED, REFERENCE, Alarm, DriftMonitor
from workers.metrics import METRICS, WATCHED, watched_values
from workers.profile import DayProfile

STEP_MS = 600_000
Draw = Callable[[random.Random, int], float]


def run(
    draw: Draw, *, metric: str = "cost_bps", n: int = 1_500, seed: int = 0, step_ms: int = STEP_MS, delta: float = 0.01
) -> list[Alarm]:
    rng, monitor = random.Random(seed), DriftMonitor(delta)
    return [alarm for i in range(n) for alarm in monitor.learn_one(i * step_ms, str(i), {metric: draw(rng, i)})]


def correlated(phi: float) -> Draw:
    level = 0.0

    def draw(rng: random.Random, i: int) -> float:
        nonlocal level
        level = phi * level + rng.gauss(0.0, math.sqrt(1 - phi * phi))
        return 30.0 + 5.0 * level

    return draw


NULLS: dict[str, tuple[str, int, Callable[[], Draw]]] = {
    "normal": ("cost_bps", STEP_MS, lambda: lambda rng, i: rng.gauss(30, 5)),
    "heavy tails": ("cost_bps", STEP_MS, lambda: lambda rng, i: 30 * math.exp(rng.gauss(0, 1.5))),
    "correlated": ("cost_bps", STEP_MS, lambda: correlated(0.8)),
    "constant": ("cost_bps", STEP_MS, lambda: lambda rng, i: 30.0),
    "rare failures": ("failed", STEP_MS, lambda: lambda rng, i: float(rng.random() < 0.05)),
    "half failures": ("failed", STEP_MS, lambda: lambda rng, i: float(rng.random() < 0.5)),
    "gas by the hour": ("gas_gwei", 1_800_000, lambda: lambda rng, i: 20 + 5 * math.sin(i * math.pi / 24) + rng.gauss(0, 5)),
}


@pytest.mark.parametrize("name", sorted(NULLS))
def test_where_nothing_changes_few_streams_alarm(name: str) -> None:
    metric, step_ms, make = NULLS[name]
    alarmed = sum(bool(run(make(), metric=metric, seed=seed, step_ms=step_ms)) for seed in range(10))
    assert alarmed <= (2 if name == "correlated" else 0)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6])
def test_the_unit_does_not_matter(scale: float) -> None:
    """The gas price of a roll-up and of mainnet drift alike: ranks see no scale."""
    alarms = run(lambda rng, i: scale * (rng.gauss(30, 5) + (10 if i >= 500 else 0)), metric="gas_gwei", n=700)
    assert [alarm.episode_id for alarm in alarms] == [
        alarm.episode_id for alarm in run(lambda rng, i: rng.gauss(30, 5) + (10 if i >= 500 else 0), metric="gas_gwei", n=700)
    ]
    (alarm,) = alarms
    assert alarm.mean_before == pytest.approx(30 * scale, rel=0.05)
    assert alarm.mean_after == pytest.approx(40 * scale, rel=0.1)


@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_a_shift_is_told_once_with_both_means(direction: str) -> None:
    sign = 1 if direction == "higher" else -1
    for seed in range(5):
        (alarm,) = run(lambda rng, i: rng.gauss(60, 5) + sign * (10 if i >= 500 else 0), seed=seed)
        assert 500 < int(alarm.episode_id) < 560
        assert alarm.direction == direction
        assert alarm.mean_before == pytest.approx(60, abs=1)
        assert alarm.mean_after == pytest.approx(60 + 10 * sign, abs=3)
        assert 470 <= alarm.n_before <= 520
        assert int(alarm.episode_id) - 20 < alarm.width <= int(alarm.episode_id) + 1
        assert alarm.delta == pytest.approx(0.01 / len(WATCHED), rel=1e-5)


def test_failures_that_begin_are_noticed() -> None:
    (alarm,) = run(lambda rng, i: float(rng.random() < (0.3 if i >= 400 else 0.02)), metric="failed", n=600)
    assert alarm.mean_before < 0.05
    assert alarm.mean_after > 0.15


def test_a_second_shift_is_noticed_too() -> None:
    alarms = run(lambda rng, i: rng.gauss(30, 5) + (15 if 400 <= i < 800 else 0), n=1_200)
    assert [alarm.direction for alarm in alarms] == ["higher", "lower"]


def test_what_does_not_matter_does_not_alarm_but_adds_up() -> None:
    assert run(lambda rng, i: 30.0 + 0.1 * (i >= 300) + 0.01 * rng.random(), n=900) == []
    crept = run(lambda rng, i: 30.0 + 0.1 * (i // 150) + 0.01 * rng.random(), n=2_400)
    assert crept
    for alarm in crept:
        assert METRICS["cost_bps"].material(alarm.mean_before, alarm.mean_after)


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 50.0, 1e9]), min_size=8, max_size=8), st.integers(1, 8), st.floats(0.002, 0.2))
def test_the_reference_itself_never_alarms(levels: list[float], run_length: int, delta: float) -> None:
    monitor = DriftMonitor(delta)
    for i in range(REFERENCE):
        value = levels[i // run_length % len(levels)] + i % 3
        assert monitor.learn_one(i * 2 * STEP_MS, str(i), {"cost_bps": value}) == []
    assert len(monitor.to_plain()["streams"]["cost_bps"]["reference"]) == REFERENCE


@pytest.mark.parametrize(("step_ms", "silent"), [(2 * STEP_MS, 64), (STEP_MS, 73), (60_000, 721), (1_000, MOST_ARRIVED)])
def test_the_reference_spans_half_a_day_or_many_values(step_ms: int, silent: int) -> None:
    monitor = DriftMonitor(0.01)
    for i in range(silent):
        state = monitor.to_plain()["streams"]
        assert not state or state["cost_bps"]["reference"] == []
        monitor.learn_one(i * step_ms, str(i), {"cost_bps": float(i)})
    stream = monitor.to_plain()["streams"]["cost_bps"]
    assert len(stream["reference"]) == REFERENCE
    assert stream["arrived"] == []
    # Spread evenly over what has arrived, so that no hour of it speaks for all.
    assert stream["reference"][0] == 0.0
    assert stream["reference"][-1] >= 0.98 * (silent - 2)


def test_a_daily_cycle_alarms_on_the_first_days_at_most() -> None:
    def draw(rng: random.Random, i: int) -> float:
        return 20 + 5 * math.sin(i * math.pi / 300) + rng.gauss(0, 5)

    alarms = run(draw, metric="gas_gwei", n=4_200, step_ms=144_000)
    assert sum(int(alarm.episode_id) >= 1_800 for alarm in alarms) == 0
    assert len(alarms) <= 2


@pytest.mark.parametrize("at", [16, 32, 48])
def test_a_break_within_the_reference_does_not_blind_it(at: int) -> None:
    alarms = run(lambda rng, i: rng.gauss(30, 5) + 20 * (i >= at) + 20 * (i >= 500), n=1_200)
    assert any(int(alarm.episode_id) >= 500 and alarm.direction == "higher" for alarm in alarms)


def test_streams_do_not_mix_and_other_names_are_ignored() -> None:
    rng, monitor = random.Random(1), DriftMonitor(0.01)
    alarms = []
    for i in range(700):
        values = {"cost_bps": rng.gauss(30, 5) + 20 * (i >= 400), "gas_gwei": rng.gauss(9, 1), "mood": float(i)}
        alarms += monitor.learn_one(i * STEP_MS, str(i), values)
    assert [alarm.metric for alarm in alarms] == ["cost_bps"]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_is_refused_and_changes_nothing(value: float) -> None:
    monitor = DriftMonitor(0.01)
    for name in ("cost_bps", "failed"):
        monitor.learn_one(0, "a", {name: 1.0})
        before = monitor.to_plain()
        with pytest.raises(ValueError, match="finite"):
            monitor.learn_one(1, "b", {name: value})
        assert monitor.to_plain() == before


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(0, 500), st.integers(100, 400))
def test_a_restored_monitor_goes_on_as_if_it_had_never_stopped(seed: int, place: int, shift: int) -> None:
    rng = random.Random(seed)
    stream = [
        {"cost_bps": 30 + rng.gauss(0, 5) + 30 * (i > shift), "failed": float(rng.random() < 0.1), "volatility": rng.random()}
        for i in range(500)
    ]

    def fold(monitor: DriftMonitor, start: int, stop: int) -> list[Alarm]:
        return [alarm for i in range(start, stop) for alarm in monitor.learn_one(i * STEP_MS, str(i), stream[i])]

    whole, cut = DriftMonitor(0.05), DriftMonitor(0.05)
    expected = fold(whole, 0, 500)
    first = fold(cut, 0, place)
    after = DriftMonitor.from_plain(json.loads(json.dumps(cut.to_plain())))
    assert first + fold(after, place, 500) == expected
    assert after.to_plain() == whole.to_plain()


def test_a_state_that_is_not_ours_is_refused() -> None:
    monitor = DriftMonitor(0.01)
    monitor.learn_one(0, "a", {"cost_bps": 1.0})
    good = monitor.to_plain()
    stream = good["streams"]["cost_bps"]
    for plain in (
        {},
        {"delta": 2.0, "streams": {}},
        {"delta": 0.1, "streams": []},
        {**good, "streams": {"mood": stream}},
        {**good, "streams": {"cost_bps": {**stream, "adwin": {**stream["adwin"], "river": "0.1"}}}},
        {**good, "streams": {"cost_bps": {**stream, "profile": {"weights": [1.0], "covariance": [[1.0]]}}}},
        {**good, "streams": {"cost_bps": {**stream, "sums": {}}}},
    ):
        with pytest.raises(ValueError, match="not a drift monitor"):
            DriftMonitor.from_plain(plain)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0])
def test_delta_is_a_probability(delta: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        DriftMonitor(delta)


def test_flags_and_text_are_not_watched() -> None:
    features: dict[str, bool | float | str] = {"volatility": True, "pool_depth_usd": "deep", "pool_liquidity": 5.0}
    assert watched_values({"failed": 1.0, "reward": 3.0}, features) == {"failed": 1.0, "pool_liquidity": 5.0}


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_the_profile_learns_the_day_and_leaves_the_level_alone(seed: int) -> None:
    rng, profile = random.Random(seed), DayProfile()
    for i in range(2_000):
        hour = i % 96 / 4
        profile.learn(i * 900_000, math.sin(hour * math.pi / 12) + rng.gauss(0, 0.5))
    for hour in range(0, 24, 3):
        assert profile.predict(hour * 3_600_000) == pytest.approx(math.sin(hour * math.pi / 12), abs=0.15)
    assert sum(profile.predict(quarter * 900_000) for quarter in range(96)) == pytest.approx(0.0, abs=1e-9)
