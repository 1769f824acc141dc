"""The simulated street: one market for everybody, costs that follow from the choice, executions that say what it cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import islice, pairwise

import pytest

from gateway.loop import MARKETS, Bounds, Choice, Street
from gateway.loop.effects import ROUTERS, Plan
from gateway.loop.events import executions_of, hour_of, record_key
from gateway.loop.market import DELAY_BPS, RETRY_BPS, Execution, Order, gas_bps
from workers.reflect import reflect

HABIT = Choice("alpha", 1, 0, 40.0)


def some(kind: str = "calm", seed: int = 7, many: int = 40) -> tuple[Street, list[Order]]:
    street = Street(kind, seed, many)
    return street, list(street.orders())


def cost(street: Street, order: Order, **choice: object) -> Execution:
    return street.execute(order, replace(HABIT, **choice))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", MARKETS)
def test_a_seed_is_a_market(kind: str) -> None:
    (street, orders), (other, again) = some(kind), some(kind)
    assert orders == again
    assert [street.execute(order, HABIT) for order in orders] == [other.execute(order, HABIT) for order in again]
    assert orders != some(kind, seed=8)[1]
    assert all(first.ts < second.ts for first, second in pairwise(orders))


def test_the_same_order_differs_by_the_choice_alone() -> None:
    street, orders = some()
    levels = street.plan.at(0).router_bps
    for order in orders:
        costs = {router: cost(street, order, router=router).cost_bps for router in ROUTERS}
        assert costs["beta"] - costs["alpha"] == pytest.approx(levels["beta"] - levels["alpha"], abs=1e-9)


def test_waiting_changes_gas_and_is_charged() -> None:
    street, orders = some()
    for order in orders:
        now, later = cost(street, order), cost(street, order, wait_h=4)
        gas = [gas_bps(one.fills[0].gas_gwei, order.size_usd) * len(one.fills) for one in (now, later)]
        assert later.cost_bps - now.cost_bps == pytest.approx(gas[1] - gas[0] + 4 * DELAY_BPS, abs=1e-9)
        assert later.fills[0].ts - now.fills[0].ts == timedelta(hours=4)


def test_a_bound_that_is_too_tight_reverts_and_pays_for_it() -> None:
    street, orders = some(many=100)
    tight = [cost(street, order, bound_bps=5.0) for order in orders]
    reverted = [one for one in tight if one.fills[0].reverted]
    assert 20 < len(reverted) < 60
    for one in reverted:
        assert (len(one.fills), one.fills[1].bound_bps) == (2, 80.0)
        gas = 2 * gas_bps(one.fills[0].gas_gwei, one.fills[0].size_usd)
        assert one.cost_bps == pytest.approx(one.fills[1].cost_bps + gas + RETRY_BPS)


def test_pieces_avoid_impact_and_pay_gas_each() -> None:
    street, orders = some(many=200)
    large = [order for order in orders if order.size_usd / order.depth_usd > 0.006]
    small = [order for order in orders if order.size_usd / order.depth_usd < 0.001]
    assert sum(cost(street, order, pieces=4).cost_bps < cost(street, order).cost_bps for order in large) > 0.7 * len(large) > 0
    assert sum(cost(street, order, pieces=4).cost_bps > cost(street, order).cost_bps for order in small) > 0.9 * len(small) > 0


def test_executions_say_what_the_order_cost() -> None:
    street, orders = some()
    for order in orders:
        choice = Choice("beta", 2, 2, 10.0)
        done = street.execute(order, choice)
        for fill, event in zip(done.fills, executions_of(street, order, choice, done), strict=True):
            thought = reflect(event)
            assert event.simulated
            assert event.key == record_key()
            assert thought.metrics["failed"] == float(fill.reverted)
            assert thought.metrics["gas_gwei"] == pytest.approx(fill.gas_gwei, rel=1e-5)
            assert ("cost_bps" in thought.metrics) is not fill.reverted
            if not fill.reverted:
                assert thought.metrics["cost_bps"] == pytest.approx(fill.cost_bps, rel=1e-4, abs=1e-3)
            assert thought.features["router"] == "beta"
            assert thought.features["tolerance_bps"] == pytest.approx(fill.bound_bps, rel=1e-5)
            assert thought.features["size_usd"] == pytest.approx(order.size_usd / 2, rel=1e-5)
            assert thought.features["size_share"] == pytest.approx(order.size_usd / 2 / order.depth_usd, rel=1e-4)
            assert thought.features["hour"] == pytest.approx(hour_of(fill.ts), rel=1e-5)


def test_a_cycling_market_comes_back() -> None:
    plan = Plan("cycling", 3, 2_000)
    assert plan.at(0) == plan.at(1_000) != plan.at(500) == plan.at(1_500)


def test_a_drifting_market_moves_evenly() -> None:
    plan = Plan("drifting", 3, 1_001)
    thresholds = [plan.at(number).threshold for number in (0, 500, 1_000)]
    assert thresholds == pytest.approx([0.0035, 0.0025, 0.0015])


def test_a_misleading_market_turns_on_what_is_followed_and_back_when_it_is_given_up() -> None:
    plan = Plan("misleading", 3, 1_000)
    defaults = {"router": "alpha", "bound": 40.0}
    for number in range(20):
        assert not plan.turns
        plan.seen(number, {"router": "beta", "bound": None}, defaults)
    assert plan.turns == [(19, "router")]
    assert plan.at(20).router_bps["beta"] == 12.0
    for number in range(20, 80):
        plan.seen(number, {"router": None, "bound": None}, defaults)
    assert plan.turns == [(19, "router"), (79, "router")]
    assert plan.at(80).router_bps["alpha"] == 12.0


@pytest.mark.parametrize("kind", ["calm", "drifting", "cycling"])
def test_the_other_markets_do_not_look_at_the_agent(kind: str) -> None:
    plan = Plan(kind, 3, 1_000)
    before = plan.at(50)
    for number in range(100):
        plan.seen(number, {"router": "beta"}, {"router": "alpha"})
    assert plan.at(50) == before
    assert not plan.turns


def test_an_unknown_market_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no market 'sunny'"):
        Street("sunny", 1, 10)


@pytest.mark.parametrize(
    "wrong", [{"routers": ("evil",)}, {"pieces": (5,)}, {"wait_h": (7,)}, {"bound_bps": (81.0,)}, {"pieces": ()}]
)
def test_bounds_beyond_what_the_desk_can_do_are_refused(wrong: dict[str, tuple[object, ...]]) -> None:
    with pytest.raises(ValueError, match=r"router|pieces|bound|at least one"):
        Bounds(**wrong)  # type: ignore[arg-type]


def test_orders_are_as_many_as_asked_for() -> None:
    assert len(list(islice(Street("calm", 1, 5).orders(), 10))) == 5
