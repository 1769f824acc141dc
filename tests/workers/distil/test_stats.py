"""The statistics equal scipy's and statsmodels' on the same data, and their corrections do what they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from scipy import stats as reference
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep

from tests.support.toy_market import autoregressive
from workers.distil import stats

COUNT = st.integers(2, 300)
SAMPLE = st.lists(st.integers(-12, 12).map(float), min_size=4, max_size=60)


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, int, int, int]:
    n1, n2 = draw(COUNT), draw(COUNT)
    return draw(st.integers(0, n1)), n1, draw(st.integers(0, n2)), n2


@settings(max_examples=60)
@given(tables())
def test_risk_difference_interval_is_newcombes(table: tuple[int, int, int, int]) -> None:
    k1, n1, k2, n2 = table
    low, high = confint_proportions_2indep(k1, n1, k2, n2, method="newcomb", compare="diff")
    assert stats.newcombe(*table) == pytest.approx((k1 / n1 - k2 / n2, low, high), abs=1e-10)


@settings(max_examples=60)
@given(tables())
def test_fisher_is_scipys(table: tuple[int, int, int, int]) -> None:
    k1, n1, k2, n2 = table
    expected = reference.fisher_exact([[k1, n1 - k1], [k2, n2 - k2]]).pvalue
    assert stats.fisher_exact(*table) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(max_examples=100)
@given(st.floats(0.5, 5000), st.floats(0.3, 40), st.floats(0, 1))
def test_incomplete_beta_is_scipys(a: float, b: float, x: float) -> None:
    assert stats.regularized_beta(a, b, x) == pytest.approx(special.betainc(a, b, x), rel=1e-9, abs=1e-12)


@settings(max_examples=60)
@given(st.floats(-40, 40), st.floats(1, 3000))
def test_student_p_is_scipys(t: float, df: float) -> None:
    assert stats.student_p(t, df) == pytest.approx(2 * special.stdtr(df, -abs(t)), rel=1e-8, abs=1e-12)
    assert stats.student_p(30.0, 1000.0) == pytest.approx(2 * special.stdtr(1000.0, -30.0), rel=1e-9)


@settings(max_examples=80)
@given(SAMPLE, SAMPLE)
def test_rank_effect_is_mann_whitneys_u_and_brunner_munzels_p(first: list[float], second: list[float]) -> None:
    x, y = np.array(first), np.array(second)
    got = stats.rank_effect(x, y)
    u = reference.mannwhitneyu(x, y, method="asymptotic", use_continuity=False)
    assert got.effect == pytest.approx(2 * u.statistic / (len(x) * len(y)) - 1, abs=1e-12)
    if len(set(first + second)) == 1:
        assert got.p == 1.0
    elif len(set(first)) == len(set(second)) == 1 or abs(got.effect) == 1:
        assert got.p == pytest.approx(u.pvalue, abs=1e-10)
    else:
        assert got.p == pytest.approx(reference.brunnermunzel(x, y).pvalue, abs=1e-10)
    assert -1 <= got.low <= got.effect <= got.high <= 1


@settings(max_examples=40)
@given(SAMPLE, SAMPLE)
def test_cliffs_variance_is_the_textbook_sum_over_pairs(first: list[float], second: list[float]) -> None:
    x, y = np.array(first), np.array(second)
    n1, n2 = len(x), len(y)
    dominance = np.sign(x[:, None] - y[None, :])
    d = dominance.mean()
    rows, columns = dominance.mean(axis=1), dominance.mean(axis=0)
    textbook = (n2**2 * ((rows - d) ** 2).sum() + n1**2 * ((columns - d) ** 2).sum() - ((dominance - d) ** 2).sum()) / (
        n1 * n2 * (n1 - 1) * (n2 - 1)
    )
    above, ties = stats._placements(x, y)
    below, _ = stats._placements(y, x)
    got = stats._delta_variance(float(d), float(above.var(ddof=1)), float(below.var(ddof=1)), ties, n1, n2)
    assert got == pytest.approx(max(textbook, (1 - d**2) / (n1 * n2 - 1)), abs=1e-10)


def test_delta_interval_covers_the_truth_nineteen_times_in_twenty() -> None:
    """P(x>y) of two normals is known; heavy tails change nothing, because only ranks count."""
    rng = np.random.default_rng(11)
    shift = 0.7
    truth = 2 * special.ndtr(shift / np.sqrt(2)) - 1
    covered = 0
    for _ in range(400):
        x, y = rng.normal(shift, 1, 30), rng.normal(0, 1, 60)
        got = stats.rank_effect(np.exp(3 * x), np.exp(3 * y))
        covered += got.low <= truth <= got.high
    assert 0.925 <= covered / 400 <= 0.975


def test_risk_difference_is_measured_on_counts() -> None:
    got = stats.rate_effect(np.array([1.0] * 30 + [0.0] * 70), np.array([1.0] * 10 + [0.0] * 90))
    assert got.effect == pytest.approx(0.2)
    assert got.p == pytest.approx(reference.fisher_exact([[30, 70], [10, 90]]).pvalue)
    assert got.toward(-1).effect == pytest.approx(-0.2)
    assert got.toward(-1).low == -got.high


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_benjamini_hochberg_is_statsmodels(p_values: list[float]) -> None:
    assert stats.benjamini_hochberg(p_values) == pytest.approx(list(multipletests(p_values, method="fdr_bh")[1]), abs=1e-12)


@settings(max_examples=40)
@given(SAMPLE)
def test_midranks_are_scipys_doubled(values: list[float]) -> None:
    assert stats.midranks(np.array(values)).tolist() == (2 * reference.rankdata(values)).tolist()


def test_inflation_restores_the_size_of_the_test_on_autocorrelated_series() -> None:
    """Two independent slow series: the plain test rejects far too often at 5 %, the corrected one about as often as it says."""
    rng = np.random.default_rng(5)
    plain = corrected = 0
    runs = 300
    for _ in range(runs):
        inside = autoregressive(rng, 300, 0.8) > 0
        outcome = autoregressive(rng, 300, 0.8)
        between = stats.dependence(inside, stats.midranks(outcome).astype(float))
        plain += stats.rank_effect(outcome[inside], outcome[~inside]).p < 0.05
        corrected += stats.rank_effect(outcome[inside], outcome[~inside], between).p < 0.05
    assert plain / runs > 0.2
    assert corrected / runs < 0.09


def test_inflation_is_none_where_observations_are_independent() -> None:
    rng = np.random.default_rng(6)
    factors = [stats.dependence(rng.random(400) < 0.4, rng.normal(size=400)).inflation for _ in range(50)]
    assert np.median(factors) < 1.05


def test_inflation_does_not_count_a_periodic_effect_as_noise() -> None:
    """An hour of the day that truly raises the outcome: both are periodic, and the correction must leave the effect alone."""
    rng = np.random.default_rng(7)
    hour = np.arange(480) % 24
    inside = (hour >= 13) & (hour < 17)
    assert stats.dependence(inside, 3.0 * inside + rng.normal(size=480)).inflation < 1.3


def test_degrees_of_freedom_follow_separate_stretches_where_neighbours_resemble_each_other() -> None:
    """Two hundred trades in four stretches of alternating regime are four observations, not two hundred."""
    rng = np.random.default_rng(8)
    inside = np.repeat([True, False, True, False], 50)
    level = np.repeat(rng.normal(size=20), 10)
    got = stats.dependence(inside, level + 0.1 * rng.normal(size=200))
    assert got.stretches == 4
    assert got.inflation > 3
    assert got.df < 10
    assert stats.dependence(inside, rng.normal(size=200)).df > 100


def test_a_wider_interval_comes_with_a_larger_p() -> None:
    rng = np.random.default_rng(9)
    x, y = rng.normal(0.8, 1, 40), rng.normal(0, 1, 60)
    plain, wide = stats.rank_effect(x, y), stats.rank_effect(x, y, stats.Dependence(3.0, 20.0))
    assert wide.low < plain.low < plain.high < wide.high
    assert wide.effect == plain.effect
    assert wide.p > 10 * plain.p


def test_more_looks_spend_less() -> None:
    assert [stats.alpha_spent(0.1, w) for w in (1, 2)] == pytest.approx([0.0607927, 0.0151982], abs=1e-6)
