"""Fitting: the likelihood never falls, what made a series is found in it, and what is not in it is not."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.regimes import smoothed
from workers.regimes.chain import Array
from workers.regimes.fit import SIZES, Chain, Fit, first_guess, improved


def cycle(rng: np.random.Generator, size: int, n: int, dwell: int = 50) -> Array:
    """Numbers of states that take turns."""
    states: list[int] = []
    state = 0
    while len(states) < n:
        states += [state] * int(dwell * (0.5 + rng.exponential(0.5)))
        state = (state + int(rng.integers(1, size))) % size if size > 1 else 0
    return np.array(states[:n], dtype=np.float64)


def autoregressive(rng: np.random.Generator, n: int, phi: float) -> Array:
    out = np.zeros(n)
    for t in range(1, n):
        out[t] = phi * out[t - 1] + np.sqrt(1.0 - phi * phi) * rng.normal()
    return out


def chosen(xs: Array, *, spread: bool = False, known: Chain | None = None) -> Chain | None:
    fit = Fit(xs, spread=spread, known=known)
    while not fit.step():
        pass
    return fit.chosen()


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from(SIZES), st.booleans())
def test_the_likelihood_never_falls(seed: int, size: int, spread: bool) -> None:
    rng = np.random.default_rng(seed)
    xs = cycle(rng, 3, 120, 20) + rng.normal(size=120)
    chain = first_guess(xs, size, spread=spread)
    before = -np.inf
    for _ in range(12):
        better, likelihood = improved(xs, chain, regularised=False)
        # A variance on its floor is not where the likelihood is greatest, so it may give way there.
        assert likelihood >= before - 1e-6 or chain.variances.min() <= 0.0101
        chain, before = better, likelihood
        assert chain.transition.sum(axis=1) == pytest.approx(np.ones(size))
        assert chain.variances.min() >= 0.01


@pytest.mark.parametrize("size", [2, 3])
def test_levels_are_found(size: int) -> None:
    rng = np.random.default_rng(size)
    found = chosen(cycle(rng, size, 512) * 1.5 + 0.5 * rng.normal(size=512))
    assert found is not None
    assert np.sort(found.means) == pytest.approx(1.5 * np.arange(size), abs=0.2)
    assert np.sqrt(found.variances) == pytest.approx(np.full(size, 0.5), abs=0.1)


def test_spreads_are_found() -> None:
    rng = np.random.default_rng(4)
    found = chosen(rng.normal(size=512) * 4.0 ** cycle(rng, 2, 512), spread=True)
    assert found is not None
    assert np.sort(np.sqrt(found.variances)) == pytest.approx([1.0, 4.0], rel=0.15)


NOTHING = {
    "normal": lambda rng: rng.normal(size=256),
    "heavy tails": lambda rng: np.clip(rng.standard_t(3, 256), -8, 8),
    "skewed": lambda rng: np.clip(rng.lognormal(0.0, 1.0, 256), -8, 8),
}


@pytest.mark.parametrize("name", NOTHING)
def test_where_there_is_one_state_there_are_no_regimes(name: str) -> None:
    invented = sum(chosen(NOTHING[name](np.random.default_rng(seed))) is not None for seed in range(3))
    assert invented == 0


def test_two_states_are_not_three() -> None:
    sizes = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        found = chosen(cycle(rng, 2, 512) * 3.0 + rng.normal(size=512))
        sizes.append(0 if found is None else len(found))
    assert sizes == [2] * 3


def test_neighbours_that_resemble_each_other_are_not_taken_for_more_states() -> None:
    """Two regimes with slowly wandering noise: a BIC that takes each observation for a new one asks for five states."""
    rng = np.random.default_rng(1)
    found = chosen(cycle(rng, 2, 512, 100) * 4.0 + autoregressive(rng, 512, 0.9))
    assert found is not None
    assert len(found) <= 3


def test_a_known_chain_keeps_a_state_that_is_not_seen_any_more() -> None:
    rng = np.random.default_rng(3)
    known = chosen(cycle(rng, 3, 512) * 3.0 + rng.normal(size=512))
    assert known is not None
    assert len(known) == 3
    later = chosen(cycle(rng, 2, 512) * 3.0 + 0.3 + rng.normal(size=512), known=known)
    assert later is not None
    assert len(later) == 3
    order = np.argsort(known.means)
    assert order.tolist() == np.argsort(later.means).tolist()
    assert later.means[order] - known.means[order] == pytest.approx([0.3, 0.3, 0.0], abs=0.25)


def test_a_new_state_is_taken_in() -> None:
    rng = np.random.default_rng(8)
    known = chosen(cycle(rng, 2, 512) * 3.0 + rng.normal(size=512))
    assert known is not None
    later = chosen(cycle(rng, 3, 512) * 3.0 + rng.normal(size=512), known=known)
    assert later is not None
    assert np.sort(later.means) == pytest.approx([0.0, 3.0, 6.0], abs=0.3)


def test_a_fit_that_is_put_away_and_taken_up_goes_on_as_if_nothing_had_been() -> None:
    rng = np.random.default_rng(2)
    xs = cycle(rng, 2, 160) * 2.0 + rng.normal(size=160)
    whole, parts = Fit(xs, spread=False), Fit(xs, spread=False)
    while not whole.step():
        parts = Fit.from_plain(json.loads(json.dumps(parts.to_plain())))
        parts.step()
    parts.step()
    first, second = whole.chosen(), parts.chosen()
    assert first is not None
    assert second is not None
    assert first.to_plain() == second.to_plain()
    assert whole.to_plain() == parts.to_plain()


@pytest.mark.parametrize("bad", [[1.0] * 50, [1.0, float("nan"), 2.0], [1.0, float("inf")], [3.0]])
def test_what_cannot_be_fitted_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="finite observations that are not all the same"):
        Fit(np.array(bad), spread=False)


@pytest.mark.parametrize("bad", [{}, {"xs": [1.0, 2.0]}, {"xs": "ab", "known": None, "spread": True}])
def test_a_state_that_is_not_ours_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a fit"):
        Fit.from_plain(bad)


def test_the_peer_says_the_same() -> None:
    """hmmlearn 0.3.3, ``GaussianHMM(2, "diag", n_iter=5, init_params="", covars_prior=0, means_weight=0)``, on the same series."""
    xs = np.array([0.1, -0.4, 0.3, 2.9, 3.4, 2.2, 3.1, 0.2, -0.1, 0.5, 2.7, 3.0, 0.0, -0.7, 0.4, 3.3])
    chain = Chain(np.array([0.6, 0.4]), np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([0.5, 2.0]), np.array([1.0, 1.5]))
    density = chain.log_density(xs)
    after = smoothed(density, chain.start, chain.transition)[:, 0]
    assert after[[0, 3, 7, 15]] == pytest.approx([0.9171690035466846, 0.07733386803645043, 0.7437220479472572, 0.11374742913227288])
    history = []
    for _ in range(5):
        chain, likelihood = improved(xs, chain, regularised=False)
        history.append(likelihood)
    assert history == pytest.approx(
        [-28.476385075223497, -25.127181853997516, -19.934359814676572, -16.81336196391218, -16.29205147549296]
    )
    assert chain.means == pytest.approx([0.03333333332250331, 2.942857146826947])
    assert chain.variances == pytest.approx([0.1333333544911568, 0.13959183538535308])
    assert chain.transition == pytest.approx(
        np.array([[0.6666666635243059, 0.3333333364756941], [0.33333334254135416, 0.6666666574586457]])
    )
