"""Subgroup search: pysubgroup's result on its own data, brute force on small data, what is worth a hypothesis and what is not."""

from __future__ import annotations

from importlib.resources import files
from io import StringIO
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import arff

from schemas.claims import Condition
from workers.distil import mine
from workers.distil.mine import Selectors, explore, rank_deviations, rate_deviations, search, selectors
from workers.distil.observations import Observation, Observations, View
from workers.metrics import METRICS


def view_of(features: dict[str, list], **metrics: np.ndarray) -> View:
    rows = Observations(5000)
    for i in range(len(next(iter(metrics.values())))):
        cells = {name: column[i] for name, column in features.items() if column[i] is not None}
        rows.append(Observation(i, f"e{i}", {name: float(values[i]) for name, values in metrics.items()}, cells))
    return rows.view()


def test_german_credit_is_pysubgroups_result() -> None:
    """Nominal selectors, target class = bad, StandardQF(1.0), depth 5, top 10 (notes on learning; pysubgroup's own test data)."""
    data, meta = arff.loadarff(StringIO((files("pysubgroup") / "data" / "credit-g.arff").read_text()))
    conditions, covers, slots = [], [], []
    for name in meta.names():
        if meta[name][0] != "nominal" or name == "class":
            continue
        for level in np.unique(data[name]):
            conditions.append(Condition(feature=name.lower(), op="==", value=level.decode()))
            covers.append(data[name] == level)
            slots.append(name)
    found = Selectors.of(conditions, np.array(covers), slots)
    bad = data["class"] == b"bad"

    best = search(found, rate_deviations(bad.astype(float)), depth=5, top=10, both_directions=False)

    quality = [round(group.total / len(bad) ** 2, 4) for group in best]
    assert quality == [0.0553, 0.0528, 0.0523, 0.0506, 0.0496, 0.0483, 0.0466, 0.0455, 0.0452, 0.0444]
    inside = [int(bad[found.covers[list(group.members)].all(axis=0)].sum()) for group in best[:2]]
    assert [(group.n, bads) for group, bads in zip(best[:2], inside, strict=True)] == [(259, 133), (274, 135)]


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(1, 3), st.booleans(), st.integers(1, 6))
def test_search_is_brute_force(seed: int, m: int, depth: int, both: bool, least: int) -> None:
    rng = np.random.default_rng(seed)
    covers = rng.random((m, 30)) < 0.5
    slots = [f"s{rng.integers(0, m)}" for _ in range(m)]
    deviations = rank_deviations(rng.integers(0, 12, 30).astype(float))
    found = Selectors.of([Condition(feature="x", op="<", value=float(i)) for i in range(m)], covers, slots)

    best = search(found, deviations, depth=depth, top=7, least=least, both_directions=both)

    everything = []
    for size in range(1, depth + 1):
        for members in combinations(range(m), size):
            rows = covers[list(members)].all(axis=0)
            total = int(deviations[rows].sum())
            quality = abs(total) if both else total
            if len({slots[i] for i in members}) == size and rows.sum() >= least and quality >= 1:
                everything.append((-quality, size, members, int(rows.sum()), total))
    expected = [(members, n, total) for _, _, members, n, total in sorted(everything)[:7]]
    assert [(group.members, group.n, group.total) for group in best] == expected


def test_deviations_are_whole_numbers_that_sum_to_zero() -> None:
    rng = np.random.default_rng(0)
    for deviations in (
        rank_deviations(rng.integers(0, 9, 101).astype(float)),
        rate_deviations((rng.random(101) < 0.3).astype(float)),
    ):
        assert deviations.sum() == 0
        assert deviations.dtype == np.int64


@pytest.mark.parametrize("feature", ["hour", "size_usd"])
def test_cuts_have_few_digits(feature: str) -> None:
    rng = np.random.default_rng(1)
    cuts = mine.threshold_cuts(feature, rng.uniform(0.5, 23.5, 400))
    assert cuts == sorted(set(cuts))
    assert all(float(f"{cut:.3g}") == cut for cut in cuts)
    assert feature != "hour" or cuts == [float(hour) for hour in range(1, 24)]


def test_few_values_are_cut_between_all_of_them() -> None:
    assert mine.threshold_cuts("fee_pips", np.array([500.0, 3000.0, 3000.0, 10_000.0])) == [3000.0, 10_000.0]
    assert mine.threshold_cuts("fee_pips", np.array([500.0, 500.0])) == []


def test_selectors_have_support_on_both_sides() -> None:
    rng = np.random.default_rng(2)
    view = view_of(
        {
            "size": list(rng.exponential(1.0, 300)),
            "router": ["common"] * 285 + ["rare"] * 15,
            "flag": [bool(x) for x in rng.random(300) < 0.5],
        },
        cost_bps=rng.normal(size=300),
    )
    found = selectors(view)
    assert {condition.feature for condition in found.conditions} == {"size", "flag"}
    assert all(20 <= cover.sum() <= 280 for cover in found.covers)
    assert [condition.value for condition in found.conditions if condition.feature == "flag"] == [True]


def test_one_effect_is_one_candidate_however_many_proxies_it_has() -> None:
    """Size in dollars and in tokens are the same thing; once the better one is taken, nothing is left for the other."""
    rng = np.random.default_rng(3)
    size = np.exp(rng.normal(size=600))
    other = np.exp(rng.normal(size=600))
    cost = 5.0 * (size >= 1.5) + 3.0 * (other >= 1.0) + rng.normal(size=600)
    view = view_of(
        {"size": list(size), "size_usd": list(size * 1800 * np.exp(0.02 * rng.normal(size=600))), "other": list(other)},
        cost_bps=cost,
    )
    got = explore(view, METRICS["cost_bps"], selectors(view))
    assert [sorted({condition.feature for condition in candidate.conditions}) for candidate in got[:2]] == [["size"], ["other"]]
    assert all("size_usd" not in {condition.feature for condition in candidate.conditions} for candidate in got[:2])


def test_a_refinement_brings_its_parents() -> None:
    rng = np.random.default_rng(4)
    stable, busy = rng.random(800) < 0.5, rng.random(800) < 0.5
    cost = 4.0 * (stable & busy) + rng.normal(size=800)
    view = view_of({"stable": [bool(x) for x in stable], "busy": [bool(x) for x in busy]}, cost_bps=cost)
    got = explore(view, METRICS["cost_bps"], selectors(view))
    assert [len(candidate.conditions) for candidate in got] == [2, 1, 1]
    assert all(candidate.direction == 1 for candidate in got)


def test_a_single_threshold_is_said_one_way_round() -> None:
    """``x < 5 → lower`` is ``x >= 5 → higher``: one insight, not two."""
    rng = np.random.default_rng(5)
    depth = rng.uniform(1, 10, 400)
    view = view_of({"pool_depth_usd": list(depth)}, cost_bps=4.0 * (depth < 4) + rng.normal(size=400))
    first = explore(view, METRICS["cost_bps"], selectors(view))[0]
    assert [condition.op for condition in first.conditions] == [">="]
    assert first.direction == -1


def test_nothing_is_proposed_from_noise_too_small_to_matter() -> None:
    rng = np.random.default_rng(6)
    view = view_of({f"f{i}": list(rng.normal(size=1000)) for i in range(4)}, cost_bps=rng.standard_cauchy(1000))
    assert explore(view, METRICS["cost_bps"], selectors(view)) == []


@given(st.lists(st.one_of(st.none(), st.floats(-5, 5)), min_size=1, max_size=60), st.integers(0, 12))
def test_bins_keep_the_order_of_values_and_the_unknown_apart(cells: list[float | None], bins: int) -> None:
    column = np.array(cells, dtype=float)
    labels = mine.binned(column, bins)
    known = ~np.isnan(column)
    order = np.argsort(column[known], kind="stable")
    assert (np.diff(labels[known][order]) >= 0).all()
    if known.any() and not known.all():
        assert labels[~known].min() > labels[known].max()


def test_what_is_material_is_found_under_what_is_not() -> None:
    """Costs rise with size throughout, by hundredths of a basis point; only the top tenth pays points. The claim is about those."""
    rng = np.random.default_rng(7)
    size = rng.uniform(0, 1, 600)
    cost = 30 + 0.2 * size + 3.0 * (size >= 0.875) * rng.uniform(0.5, 1, 600) + 0.01 * rng.normal(size=600)
    view = view_of({"size": list(size)}, cost_bps=cost)
    first = explore(view, METRICS["cost_bps"], selectors(view))[0]
    (condition,) = first.conditions
    assert isinstance(condition.value, float)
    assert 0.8 < condition.value < 0.95
