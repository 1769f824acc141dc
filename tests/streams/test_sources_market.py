"""The simulated market: reproducible, marked as simulated, and with exactly the effects that its truth lists."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from itertools import islice, pairwise
from statistics import fmean, median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import decode
from schemas.events import ToolExecution
from streams.sources.market import simulate, truth_of
from streams.sources.market.plan import ACTIVITY_BY_HOUR, BOOKS, LARGE_SHARE, MEAN_GAP_S, START, Impact
from streams.sources.market.truth import Truth, key_of
from streams.sources.market.world import Reverting, arrivals
from tests.support.market import market_events, market_keys

SEED, EVENTS = 3, 6000
CHANGE = truth_of(SEED, EVENTS).change_ts
WETH_USDC, WBTC_WETH, DAILY_WETH_USDC, ARB_USDC, *_ = BOOKS


def of(book_key: str, *, effects: bool = True) -> list[ToolExecution]:
    return market_keys(SEED, EVENTS, effects=effects)[book_key]


def cost(event: ToolExecution) -> float:
    price = event.executed_price()
    assert price is not None
    assert event.mid_before is not None
    return float((1 - price / event.mid_before) * 10_000)


def cliffs_delta(inside: list[float], outside: list[float]) -> float:
    """P(a value inside is higher) − P(lower), by ranks."""
    order = sorted([(value, 1) for value in inside] + [(value, 0) for value in outside])
    wins = below = 0
    for _, is_inside in order:
        if is_inside:
            wins += below
        below += not is_inside
    return 2 * wins / (len(inside) * len(outside)) - 1


def contrast(events: list[ToolExecution], test: Callable[[ToolExecution], bool], metric: Callable[[ToolExecution], float]) -> float:
    sides: dict[bool, list[float]] = defaultdict(list)
    for event in events:
        sides[test(event)].append(metric(event))
    return cliffs_delta(sides[True], sides[False])


def filled(book_key: str, *, effects: bool = True) -> list[ToolExecution]:
    return [event for event in of(book_key, effects=effects) if event.amount_out_raw]


def feature(name: str, floor: float) -> Callable[[ToolExecution], bool]:
    return lambda event: float(event.features[name]) >= floor


def test_the_same_seed_gives_the_same_bytes_for_ever() -> None:
    digest = hashlib.sha256(b"\n".join(event.to_wire() for event in simulate(7, 300))).hexdigest()
    assert digest == "0175f2c185b6db49c3e7e4e6e6d7af66b76b4fb7c1553c7630c4c48d3570a5f8"


def test_a_longer_run_of_another_seed_differs() -> None:
    ids = [{event.event_id for event in simulate(seed, 200)} for seed in (1, 2)]
    assert not ids[0] & ids[1]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**64), events=st.integers(0, 60), effects=st.booleans())
def test_every_event_of_any_seed_is_valid_simulated_and_survives_the_wire(seed: int, events: int, effects: bool) -> None:
    made = list(simulate(seed, events, effects=effects))
    assert len(made) == events
    assert len({event.event_id for event in made}) == events
    for event in made:
        assert event.simulated
        assert event.agent_id == "simulator"
        assert event.chain_id in (None, 1337, 31337)
        assert decode("tool-execution", event.to_wire()).to_wire() == event.to_wire()
    assert all(first.ts_executed <= second.ts_executed for first, second in pairwise(made))


def test_memory_does_not_grow_because_events_come_one_at_a_time() -> None:
    assert len(list(islice(simulate(1, 10**12), 5))) == 5


def test_the_desk_trades_all_its_books_over_the_expected_time() -> None:
    events = market_events(SEED, EVENTS)
    truth = truth_of(SEED, EVENTS)
    shares = {key: len(found) for key, found in market_keys(SEED, EVENTS).items()}
    assert set(shares) == {book.key for book in truth.books}
    for book in truth.books:
        assert abs(shares[book.key] / EVENTS - book.share) < 0.02
    took = events[-1].ts_executed - START
    assert abs(took / timedelta(seconds=EVENTS * MEAN_GAP_S) - 1) < 0.1
    assert abs(sum(event.ts_executed < truth.change_ts for event in events) / EVENTS - 0.5) < 0.08


def test_activity_by_hour_keeps_the_mean_gap() -> None:
    assert abs(fmean(ACTIVITY_BY_HOUR) - 1) < 0.005
    last = next(islice(arrivals(1, mean_gap_s=100.0, by_hour=(1.0,) * 24), 19_999, None))
    assert abs(last / 20_000 / 100.0 - 1) < 0.03


def test_what_comes_out_is_the_quote_less_the_noise() -> None:
    swaps = [event for event in market_events(SEED, EVENTS) if event.tool == "swap" and event.amount_out_raw]
    slippage = []
    for event in swaps:
        assert event.quote is not None
        assert event.amount_out_raw is not None
        assert event.quote.amount_in_raw == event.amount_in_raw
        slippage.append(10_000 * (1 - event.amount_out_raw / event.quote.amount_out_raw))
    assert abs(median(slippage)) < 0.3, "symmetric"
    assert max(slippage) > 60 > 20 > 3 * median(map(abs, slippage)), "heavy-tailed"


def test_mid_is_the_ratio_of_the_two_valuations() -> None:
    for event in filled(key_of(WBTC_WETH))[:50]:
        assert event.in_usd is not None
        assert event.out_usd is not None
        assert event.mid_before is not None
        assert abs(event.mid_before * event.out_usd.value / event.in_usd.value - 1) < Decimal("1e-26")


def test_size_raises_cost_in_every_pool_and_so_do_its_proxies() -> None:
    for book in (WETH_USDC, WBTC_WETH, DAILY_WETH_USDC, ARB_USDC):
        events = filled(key_of(book))
        assert contrast(events, feature("size_share", 0.004), cost) > 0.3
        assert contrast(events, feature("pool_depth_usd", 1.3 * book.depth_usd), cost) < 0


def test_the_step_in_impact_moves_to_smaller_sizes_at_the_change() -> None:
    def between(event: ToolExecution) -> bool:
        return 0.0016 <= float(event.features["size_share"]) < 0.0028

    costs = [
        [cost(event) for event in filled(key_of(WBTC_WETH)) if between(event) and (event.ts_executed >= CHANGE) == late]
        for late in (False, True)
    ]
    assert median(costs[1]) - median(costs[0]) > 20


def test_a_routers_cost_reverses_at_the_change() -> None:
    halves = [[event for event in filled(key_of(WETH_USDC)) if (event.ts_executed >= CHANGE) == late] for late in (False, True)]
    deltas = [contrast(half, lambda event: event.router == "alpha", cost) for half in halves]
    assert deltas[0] > 0.25
    assert deltas[1] < -0.25


def test_one_router_is_dear_for_large_orders_only() -> None:
    for large in (False, True):
        events = [
            event for event in filled(key_of(DAILY_WETH_USDC)) if (float(event.features["size_share"]) >= LARGE_SHARE) == large
        ]
        assert (contrast(events, lambda event: event.router == "beta", cost) > 0.3) == large


def test_volatility_raises_cost_where_it_is_planted() -> None:
    assert contrast(filled(key_of(ARB_USDC)), feature("volatility", 1.1), cost) > 0.2


def test_one_router_fails_more_in_one_pool_only() -> None:
    for book, planted in ((WBTC_WETH, True), (WETH_USDC, False)):
        rates = {
            router: fmean(event.status == "reverted" for event in of(key_of(book)) if event.router == router)
            for router in ("alpha", "beta", "gamma")
        }
        assert (rates["gamma"] > 0.15) == planted
        assert max(rates["alpha"], rates["beta"]) < 0.08


def gas(event: ToolExecution) -> float:
    assert event.gas_price_wei is not None
    return event.gas_price_wei / 1e9


def test_gas_has_a_daily_rhythm_on_one_chain_only() -> None:
    def busy(event: ToolExecution) -> bool:
        return 11 <= event.ts_executed.hour < 20

    assert contrast(of(key_of(DAILY_WETH_USDC)), busy, gas) > 0.5
    assert abs(contrast(of(key_of(WETH_USDC)), busy, gas)) < 0.25
    assert abs(contrast(of(key_of(DAILY_WETH_USDC), effects=False), busy, gas)) < 0.25


def test_tighter_bounds_fail_more_simulations_and_drift_pays_for_a_rebalance() -> None:
    simulations = of(key_of(BOOKS[7]))
    rates = [
        fmean(event.status == "failed" for event in simulations if event.features["slippage_bound_bps"] == bound)
        for bound in (5, 50)
    ]
    assert rates[0] > 0.25 > 0.15 > rates[1]
    assert all(event.gas_used is None for event in simulations)
    rebalances = [event for event in of(key_of(BOOKS[6])) if event.pnl_bps is not None]
    assert contrast(rebalances, feature("drift_bps", 80), lambda event: float(event.pnl_bps or 0)) > 0.2


def test_a_deeper_mode_is_rewarded_more() -> None:
    calls = of(key_of(BOOKS[8]))
    assert contrast(calls, lambda event: event.features["mode"] == "deep", lambda event: float(event.reward or 0)) > 0.2


def test_a_market_without_effects_has_none_but_keeps_its_tails_and_its_memory() -> None:
    for book in BOOKS[:4]:
        events = filled(key_of(book), effects=False)
        assert abs(contrast(events, feature("size_share", 0.004), cost)) < 0.15
        assert abs(contrast(events, feature("volatility", 0.6), cost)) < 0.15
        assert max(map(cost, events)) > book.fee_pips / 100 + 40
    gases = [gas(event) for event in of(key_of(WETH_USDC), effects=False)]
    neighbours = contrast_of_neighbours(gases)
    assert neighbours > 0.5, "gas is persistent"
    assert truth_of(SEED, EVENTS, effects=False).effects == ()


def contrast_of_neighbours(values: list[float]) -> float:
    """Cliff's delta of values whose predecessor was above the median against the others."""
    middle = median(values)
    high = [value for before, value in pairwise(values) if before >= middle]
    low = [value for before, value in pairwise(values) if before < middle]
    return cliffs_delta(high, low)


@pytest.mark.parametrize("name", ["coin", "queue_depth"])
def test_nulls_move_nothing(name: str) -> None:
    for book in BOOKS[:4]:
        events = filled(key_of(book))
        test = (lambda event: event.features["coin"] == "heads") if name == "coin" else feature("queue_depth", 8)
        assert abs(contrast(events, test, cost)) < 0.15


def test_truth_lists_each_effect_with_its_key_carriers_and_time() -> None:
    truth = truth_of(SEED, EVENTS)
    assert len({effect.id for effect in truth.effects}) == len(truth.effects)
    assert {effect.key for effect in truth.effects} <= {book.key for book in truth.books}
    followers = {effect.follows: effect for effect in truth.effects if effect.follows}
    assert len(followers) == 2
    for effect in truth.effects:
        assert effect.from_ts == (truth.change_ts if effect.follows else truth.start_ts)
        assert effect.to_ts == (truth.change_ts if effect.id in followers else None)
        assert all((carrier.sign is None) != (carrier.levels is None) for carrier in effect.carriers)
    assert not {carrier.feature for effect in truth.effects for carrier in effect.carriers} & set(truth.nulls)


def test_truth_survives_its_json() -> None:
    truth = truth_of(SEED, EVENTS)
    assert Truth.model_validate_json(truth.to_wire()) == truth
    assert truth.to_wire() == truth_of(SEED, EVENTS).to_wire()


@given(share=st.floats(0, 1), more=st.floats(0, 1))
def test_impact_never_falls_with_size(share: float, more: float) -> None:
    impact = Impact(slope=500.0, step=28.0, threshold=0.0035)
    low, high = sorted((share, more))
    assert 0 <= impact.bps(low) <= impact.bps(high) <= 528.0


def test_a_reverting_level_has_its_spread_and_half_life() -> None:
    process = Reverting(1, "test", half_life_s=3600.0, spread=0.5)
    values = [process.at(600.0 * step) for step in range(1, 30_001)]
    assert abs(fmean(value * value for value in values) ** 0.5 / 0.5 - 1) < 0.05
    lagged = fmean(first * second for first, second in zip(values, values[6:], strict=False))
    assert abs(lagged / fmean(value * value for value in values) - 0.5) < 0.05
