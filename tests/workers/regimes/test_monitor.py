"""The monitor: from which series, when it speaks, and that it is a fold that can be put away anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import ToolExecution
from tests.support.events import swap
from workers.regimes.monitor import FIRST, Change, RegimeMonitor
from workers.regimes.series import PRICE, log_price, seen

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
Row = tuple[int, dict[str, float]]


def cycling(n: int, every: int = 100, *, seed: int = 1, gap: int = 10 * MINUTE_MS) -> Iterator[Row]:
    """A volatility that doubles twice and comes back."""
    rng = Random(seed)
    for i in range(n):
        yield i * gap, {"volatility": (0.4, 1.6)[i // every % 2] * math.exp(rng.gauss(0.0, 0.2))}


def fold(monitor: RegimeMonitor, rows: Iterable[Row], first: int = 0) -> list[Change]:
    found = [monitor.learn_one(ts_ms, f"e{first + i}", values) for i, (ts_ms, values) in enumerate(rows)]
    return [change for change in found if change is not None]


def test_a_cycle_is_followed_a_few_executions_behind() -> None:
    changes = fold(RegimeMonitor(), cycling(900))
    assert [(one.previous, one.regime) for one in changes[:4]] == [
        (None, "turbulent"), ("turbulent", "calm"), ("calm", "turbulent"), ("turbulent", "calm"),
    ]  # fmt: skip
    for number, change in enumerate(changes[1:], start=2):
        assert 100 * number * 10 <= change.since_ms // MINUTE_MS <= change.ts_ms // MINUTE_MS <= 100 * number * 10 + 60
        assert change.probability >= 0.8
        assert change.filtered[[state.name for state in change.model.states].index(change.regime)] == change.probability
    assert [state.typical for state in changes[-1].model.states] == pytest.approx([0.4, 1.6], rel=0.1)


def test_names_go_by_what_states_stand_for_whatever_came_first() -> None:
    upside_down = ((ts, {"volatility": 1.0 / values["volatility"]}) for ts, values in cycling(600))
    for change in fold(RegimeMonitor(), upside_down):
        typical = [state.typical for state in change.model.states]
        assert typical == sorted(typical)
        assert [state.name for state in change.model.states] == ["calm", "turbulent"]


def test_a_model_that_is_fitted_again_means_the_same_by_its_names() -> None:
    changes = fold(RegimeMonitor(), cycling(2_000, every=150))
    fits = {change.model.fits: change.model for change in changes}
    assert len(fits) >= 3
    for before, after in pairwise(fits.values()):
        for old, new in zip(before.states, after.states, strict=True):
            assert new.name == old.name
            assert new.typical == pytest.approx(old.typical, rel=0.15)
    assert len({model.id for model in fits.values()}) == len(fits)


def test_a_single_odd_execution_is_no_regime() -> None:
    monitor = RegimeMonitor()
    fold(monitor, cycling(350))
    rows = list(cycling(360))[350:]
    assert monitor.regime == "turbulent"
    rows[4] = (rows[4][0], {"volatility": 0.4})
    assert fold(monitor, rows, 350) == []


PRICES: dict[str, Callable[[int, Random], dict[str, float]]] = {
    "volatility": lambda i, rng: {
        "volatility": (0.4, 1.6)[i // 100 % 2] * math.exp(rng.gauss(0, 0.2)),
        "gas_gwei": rng.gauss(9, 1),
    },
    "price_change": lambda i, rng: {PRICE: rng.gauss(0.0, (0.001, 0.006)[i // 100 % 2]) + 8.0, "cost_bps": 30.0},
    "cost_bps": lambda i, rng: {"cost_bps": rng.gauss((20.0, 60.0)[i // 100 % 2], 6.0), "gas_gwei": rng.gauss(9.0, 1.0)},
    "gas_gwei": lambda i, rng: {"gas_gwei": (5.0, 40.0)[i // 100 % 2] * math.exp(rng.gauss(0.0, 0.2)), "volatility": 0.65},
}


@pytest.mark.parametrize("metric", PRICES)
def test_the_best_series_that_moves_is_taken(metric: str) -> None:
    rng = Random(3)
    rows = [(i * 10 * MINUTE_MS, PRICES[metric](i, rng)) for i in range(700)]
    changes = fold(RegimeMonitor(), rows)
    assert len(changes) >= 4
    assert {change.metric for change in changes} == {metric}


def test_where_nothing_changes_nothing_is_said() -> None:
    rng = Random(4)
    flat = [(i * 10 * MINUTE_MS, {"volatility": 0.65, "cost_bps": 30.0}) for i in range(1_000)]
    noise = [(i * 10 * MINUTE_MS, {"cost_bps": rng.gauss(30.0, 6.0)}) for i in range(1_000)]
    for rows in (flat, noise):
        monitor = RegimeMonitor()
        assert fold(monitor, rows) == []
        assert monitor.model is None


def test_what_comes_within_a_minute_or_late_is_no_new_look() -> None:
    twice = [row for ts, values in cycling(600) for row in ((ts, values), (ts + 30_000, {"volatility": 50.0}), (ts - 1, values))]
    once = fold(RegimeMonitor(), cycling(600))
    assert [(one.ts_ms, one.regime, one.model) for one in fold(RegimeMonitor(), twice)] == [
        (one.ts_ms, one.regime, one.model) for one in once
    ]


@settings(max_examples=4, deadline=None)
@given(st.lists(st.integers(1, 700), max_size=4))
def test_it_can_be_put_away_anywhere(places: list[int]) -> None:
    whole, rows = RegimeMonitor(), list(cycling(700, seed=2))
    expected = fold(whole, rows)
    monitor, found, done = RegimeMonitor(), [], 0
    for place in [*sorted(places), 700]:
        found += fold(monitor, rows[done:place], done)
        done = max(done, place)
        monitor = RegimeMonitor.from_plain(json.loads(json.dumps(monitor.to_plain())))
    assert found == expected
    assert monitor.to_plain() == whole.to_plain()


def test_what_is_not_finite_is_refused_and_changes_nothing() -> None:
    monitor = RegimeMonitor()
    fold(monitor, cycling(FIRST + 10))
    before = monitor.to_plain()
    with pytest.raises(ValueError, match="finite numbers only"):
        monitor.learn_one(10**12, "e", {"volatility": math.inf})
    assert monitor.to_plain() == before


@pytest.mark.parametrize("bad", [{}, {"series": "weather"}, {"series": None, "gathered": 3}])
def test_a_state_that_is_not_ours_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a regime monitor"):
        RegimeMonitor.from_plain(RegimeMonitor().to_plain() | bad if bad else bad)


def test_values_far_out_and_useless_ones_do_no_harm() -> None:
    monitor = RegimeMonitor()
    rows = [(i * 10 * MINUTE_MS, {"volatility": (0.0, 1e-300, 1e300, 0.5, 0.6)[i % 5], PRICE: 1e6 * (i % 7)}) for i in range(500)]
    for change in fold(monitor, rows):
        assert sum(change.filtered) == pytest.approx(1.0, abs=1e-4)
    assert all(math.isfinite(p) for p in monitor.probabilities)


def test_a_price_is_the_same_whichever_way_the_trade_goes() -> None:
    plain = ToolExecution.model_validate(swap(mid_before="2000"))
    assert plain.token_in is not None
    turned = plain.model_copy(
        update={"token_in": plain.token_out, "token_out": plain.token_in, "mid_before": 1 / plain.mid_before}  # type: ignore[operator]
    )
    price = log_price(plain)
    assert price is not None
    assert abs(price) == pytest.approx(math.log(2000.0))
    assert log_price(turned) == pytest.approx(price)
    shown = seen(plain, {"cost_bps": 3.0, "gas_gwei": 7.0}, {"volatility": True, "router": "alpha"})
    assert shown == {"cost_bps": 3.0, "gas_gwei": 7.0, PRICE: price}


def test_time_that_goes_back_from_a_wrong_date_is_no_gap_between_prices() -> None:
    monitor = RegimeMonitor()
    monitor.learn_one(0, "a", {PRICE: 1.0}, None)
    monitor.learn_one(10**10, "wrong", {PRICE: 1.0}, 0)
    for i in range(1, 4):
        monitor.learn_one(i * HOUR_MS, f"e{i}", {PRICE: 1.0 + i}, (i - 1) * HOUR_MS)
    gathered = monitor.to_plain()["gathered"]["price_change"]
    assert gathered == [0.0, 10_000.0, 10_000.0]  # to the wrong date; then none back from it, and one an hour
