"""The stop-loss on advice: what does not pay is given up within the bound, what pays is kept."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from statistics import fmean

import pytest

from gateway.middleware import Guard, Limits

DECISIONS = 3_000


def trade(guard: Guard, extra: Callable[[int, int], float], *, noise: float = 0.0, seed: int = 0) -> float:
    """What following cost beyond the default, a decision. ``extra`` gets its number and how many were followed before it."""
    random, lost, followed = Random(seed), 0.0, 0
    for number in range(DECISIONS):
        dearer, takes = extra(number, followed), guard.follow()
        if takes:
            lost += dearer
            followed += 1
        guard.outcome(takes, random.gauss(0.0, noise) + (dearer if takes else 0.0))
    return lost / DECISIONS


def guard(seed: int, limits: Limits | None = None) -> Guard:
    return Guard(limits or Limits(), Random(seed))


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(lambda number, followed: 12.0, id="always wrong"),
        pytest.param(lambda number, followed: 12.0 if followed % 120 > 20 else -12.0, id="turns after it has paid for a while"),
        pytest.param(lambda number, followed: 25.0 if number % 400 > 200 else -25.0, id="wrong by turns"),
        pytest.param(lambda number, followed: 1.0, id="a little wrong"),
    ],
)
def test_the_expected_loss_stays_within_the_bound(extra: Callable[[int, int], float]) -> None:
    for noise in (0.0, 10.0):
        lost = fmean(trade(guard(seed), extra, noise=noise, seed=seed) for seed in range(12))
        assert lost <= Limits().worst_case(DECISIONS)


def test_without_it_advice_that_is_always_wrong_costs_many_times_the_bound() -> None:
    lost = trade(guard(1, Limits(budget=1e9)), lambda number, followed: 12.0)
    assert lost > 4 * Limits().worst_case(DECISIONS)


def test_advice_that_pays_is_kept() -> None:
    saved = [trade(guard(seed), lambda number, followed: -8.0, noise=12.0, seed=seed) for seed in range(12)]
    assert fmean(saved) < -0.75 * 8.0


def test_a_share_of_decisions_is_control() -> None:
    one = guard(3)
    followed = sum(one.follow() for _ in range(DECISIONS))
    assert 1 - followed / DECISIONS == pytest.approx(one.limits.control, abs=0.03)


def stopped(one: Guard) -> int:
    """Follow wrong advice until it is off; the decisions that it is off for."""
    while one.on:
        takes = one.follow()
        one.outcome(takes, 20.0 if takes else 0.0)
    off = 0
    while not one.on:
        assert not one.follow()
        off += 1
    return off


def test_each_pause_is_twice_as_long() -> None:
    one = guard(4)
    assert [stopped(one) for _ in range(4)] == [200, 400, 800, 1600]
    assert one.trips == 4


def test_while_off_and_without_a_number_nothing_counts() -> None:
    one = guard(5)
    one.outcome(True, 10.0)
    one.outcome(False, float("nan"))
    assert one.estimate == 0.0
    one.outcome(False, 0.0)
    assert one.estimate == pytest.approx((10.0 - 0.25) / 0.15)
    one.outcome(True, 1e300)
    one.outcome(False, -1e300)
    assert one.estimate == pytest.approx((10.0 - 0.25) / 0.15 + (60.0 - 0.25) / 0.15)


def test_a_control_with_nothing_to_compare_with_says_nothing() -> None:
    one = guard(6)
    one.outcome(False, -20.0)
    assert one.estimate == 0.0


@pytest.mark.parametrize("wrong", [{"control": 0.0}, {"control": 1.0}, {"budget": 0.0}, {"slack": -1.0}, {"pause": 0}])
def test_limits_that_are_none_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"lies between|positive"):
        Limits(**wrong)  # type: ignore[arg-type]
