"""Effects within groups: averages against statsmodels, what differs between groups is none, two units have to show it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import StratifiedTable
from statsmodels.stats.meta_analysis import combine_effects

from schemas.claims import Condition
from workers.distil.evidence import Comparison, compare
from workers.distil.observations import Observation, Observations, View
from workers.distil.stats import Effect, combine, grouped_dependence, heterogeneity, rank_effect, rate_effect
from workers.metrics import METRICS

INSIDE = (Condition(feature="router", op="==", value="alpha"),)


def view(costs: dict[str, tuple[float, float, float]], n: int = 120, seed: int = 0, metric: str = "cost_bps") -> View:
    """Rows of several pairs taking turns; each pair has a base, an effect of alpha, and how often alpha is used."""
    rng, rows = np.random.default_rng(seed), Observations(len(costs) * n, "pair")
    for i in range(n):
        for pair, (base, effect, share) in costs.items():
            alpha = rng.random() < share
            level = base + effect * alpha
            value = float(rng.random() < level) if metric == "failed" else level + float(np.exp(rng.normal()))
            features: dict[str, bool | float | str] = {"router": "alpha" if alpha else "beta"}
            rows.append(Observation(rows.total * 60_000, f"{pair}{i}", {metric: value}, features, group=pair))
    return rows.view()


def seen(costs: dict[str, tuple[float, float, float]], metric: str = "cost_bps", n: int = 120) -> Comparison:
    comparison = compare(view(costs, n, metric=metric), INSIDE, METRICS[metric])
    assert comparison is not None
    return comparison


def test_a_difference_between_groups_is_no_effect() -> None:
    comparison = seen({"a:1:x": (5.0, 0.0, 0.1), "a:1:y": (50.0, 0.0, 0.9), "a:1:z": (80.0, 0.0, 0.8)}, n=400)
    assert abs(comparison.effect.effect) < 0.12
    assert abs(comparison.inside_level - comparison.outside_level) < 1.0
    pooled = compare(_ungrouped(view({"a:1:x": (5.0, 0.0, 0.1), "a:1:y": (50.0, 0.0, 0.9)}, 400)), INSIDE, METRICS["cost_bps"])
    assert pooled is not None
    assert pooled.effect.effect > 0.7


def _ungrouped(grouped: View) -> View:
    return View(
        *(getattr(grouped, name) for name in ("first", "ts_ms", "ids", "simulated", "metrics", "numbers", "codes", "levels"))
    )


def test_what_every_group_shows_is_general_and_what_one_shows_is_not() -> None:
    every = seen({f"a:1:{i}": (10.0 * i, 3.0, 0.5) for i in range(4)})
    assert every.clears(1)
    assert every.evidence(0.01).spread is not None
    one = seen({"a:1:0": (10.0, 30.0, 0.5), **{f"a:1:{i}": (10.0 * i, 0.0, 0.5) for i in range(1, 4)}})
    assert one.effect.effect > 0.15
    assert not one.general(1)
    assert one.effect.p > 0.01  # the p of "in fewer than two"
    assert one.confined(1)
    assert not every.confined(1)


def test_pairs_that_contradict_each_other_are_heterogeneous() -> None:
    mixed = seen({"a:1:0": (10.0, 3.0, 0.5), "a:1:1": (10.0, -3.0, 0.5), "a:1:2": (10.0, 3.0, 0.5)})
    spread = mixed.evidence(0.01).spread
    assert spread is not None
    assert spread.heterogeneity > 0.9
    assert not mixed.general(1)


def test_failures_are_averaged_as_mantel_and_haenszel_do() -> None:
    comparison = seen({"a:1:0": (0.1, 0.2, 0.3), "a:1:1": (0.3, 0.2, 0.6), "a:1:2": (0.05, 0.25, 0.5)}, "failed", 200)
    rows = comparison.view
    assert rows.groups is not None
    failed, tables = rows.metrics["failed"] > 0.5, []
    for code in np.unique(rows.groups.codes):
        own = rows.groups.codes == code
        cells = [[int((own & side & hit).sum()) for hit in (failed, ~failed)] for side in (comparison.inside, ~comparison.inside)]
        tables.append(np.array(cells, dtype=float))
    weights = np.array([table[0].sum() * table[1].sum() / table.sum() for table in tables])
    differences = np.array([table[0, 0] / table[0].sum() - table[1, 0] / table[1].sum() for table in tables])
    assert comparison.effect.effect == pytest.approx(float(weights @ differences / weights.sum()))
    assert StratifiedTable(tables).test_null_odds().pvalue < 1e-4
    assert comparison.effect.p < 1e-4


@given(st.lists(st.tuples(st.floats(-0.9, 0.9), st.floats(0.05, 0.5)), min_size=2, max_size=8))
def test_heterogeneity_is_statsmodels(parts: list[tuple[float, float]]) -> None:
    effects = [
        Effect(middle, middle - 1.959963984540054 * error, middle + 1.959963984540054 * error, 0.5) for middle, error in parts
    ]
    told = combine_effects(np.array([one[0] for one in parts]), np.array([one[1] ** 2 for one in parts]))
    if told.q > 1e-9:  # where all are the same, statsmodels divides by what is left of rounding
        assert heterogeneity(effects) == pytest.approx(max(0.0, told.i2), abs=1e-6)


def test_one_stratum_is_its_own_average() -> None:
    rng = np.random.default_rng(3)
    for one in (
        rank_effect(rng.normal(0.4, 1, 60), rng.normal(0, 1, 80)),
        rate_effect((rng.random(60) < 0.4).astype(float), (rng.random(80) < 0.2).astype(float)),
    ):
        same = combine([one], [7.0])
        assert same.effect == pytest.approx(one.effect)
        assert same.high - same.low == pytest.approx(one.high - one.low)


def test_what_groups_share_in_time_widens_their_average() -> None:
    """Four groups under one slow series of outcomes and one slow condition: between groups neighbours resemble each other."""
    rng = np.random.default_rng(5)
    slow = np.repeat(np.cumsum(rng.normal(size=100)), 4)
    inside = np.repeat(np.sin(np.arange(100) / 8) > 0, 4)
    groups = np.tile(np.arange(4), 100)
    assert grouped_dependence(inside, slow + rng.normal(size=400), groups).inflation > 3.0
    assert grouped_dependence(rng.random(400) < 0.5, rng.normal(size=400), groups).inflation < 1.3


def test_forgetting_leaves_other_groups_and_later_rows() -> None:
    rows = Observations(20, "pair")
    for i in range(10):
        rows.append(Observation(i, f"e{i}", {"cost_bps": 1.0, "failed": 0.0}, {}, group=f"g{i % 2}"))
    rows.forget("g1", ["cost_bps"], 6)
    rows.forget("unknown", ["cost_bps"], 6)
    assert np.flatnonzero(~rows.view().known("cost_bps")).tolist() == [1, 3, 5]
    assert rows.view().known("failed").all()
    again = Observations.from_plain(rows.to_plain(), 20, "pair")
    assert again.to_plain() == rows.to_plain()
    groups = again.view().groups
    assert groups is not None
    assert groups.codes.tolist() == [0, 1] * 5
