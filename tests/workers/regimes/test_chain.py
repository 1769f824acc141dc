"""The chain's arithmetic: published examples, what must hold for any chain, and a check against every path written out."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.regimes import smoothed
from workers.regimes.chain import Array, forward, gaussian_log_density, stationary


def discrete(emission: list[list[float]], seen: list[int]) -> Array:
    """log P(what is seen | state), T × K."""
    return np.asarray(np.log(np.array(emission)).T[seen])


RAIN = np.array([[0.7, 0.3], [0.3, 0.7]])
UMBRELLA = discrete([[0.9, 0.1], [0.2, 0.8]], [0, 0, 1, 0, 0])
"""Russell & Norvig, "Artificial Intelligence": the umbrella world, umbrellas on days 1, 2, 4 and 5."""


def test_the_umbrella_world() -> None:
    passed = forward(UMBRELLA, np.array([0.5, 0.5]) @ RAIN, RAIN)
    assert passed.filtered[:, 0].round(4).tolist() == [0.8182, 0.8834, 0.1907, 0.7308, 0.8673]
    assert passed.log_likelihood == pytest.approx(-3.3725020, abs=5e-8)


def test_the_doctor() -> None:
    """Healthy or fevered; normal, cold, dizzy: the example of most texts. Here it begins in the second state."""
    start, moves = np.array([0.6, 0.4]), np.array([[0.7, 0.3], [0.4, 0.6]])
    density = discrete([[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]], [0, 1, 2])
    assert math.exp(forward(density, start, moves).log_likelihood) == pytest.approx(0.033612)


@st.composite
def chains(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    """Densities, start and transitions of a chain of two or three states over a few steps."""
    size, steps = draw(st.integers(2, 3)), draw(st.integers(1, 5))
    share = st.floats(0.01, 1.0)
    start = np.array(draw(st.lists(share, min_size=size, max_size=size)))
    moves = np.array(draw(st.lists(st.lists(share, min_size=size, max_size=size), min_size=size, max_size=size)))
    level = st.floats(-20.0, 5.0)
    density = np.array(draw(st.lists(st.lists(level, min_size=size, max_size=size), min_size=steps, max_size=steps)))
    return density, start / start.sum(), moves / moves.sum(axis=1, keepdims=True)


def joint(density: Array, start: Array, moves: Array, path: tuple[int, ...]) -> float:
    """The log-probability of a path with its observations."""
    found = math.log(start[path[0]]) + density[0, path[0]]
    for t in range(1, len(path)):
        found += math.log(moves[path[t - 1], path[t]]) + density[t, path[t]]
    return float(found)


@given(chains())
def test_both_passes_agree_with_every_path_written_out(chain: tuple[Array, Array, Array]) -> None:
    density, start, moves = chain
    steps, size = density.shape
    paths = {path: joint(density, start, moves, path) for path in product(range(size), repeat=steps)}
    whole = np.logaddexp.reduce(list(paths.values()))
    passed = forward(density, start, moves)
    assert passed.log_likelihood == pytest.approx(whole, abs=1e-8)
    after = smoothed(density, start, moves)
    for t in range(steps):
        for state in range(size):
            through = np.logaddexp.reduce([value for path, value in paths.items() if path[t] == state])
            assert after[t, state] == pytest.approx(math.exp(through - whole), abs=1e-8)


@given(chains())
def test_the_last_smoothed_is_the_last_filtered_and_every_row_sums_to_one(chain: tuple[Array, Array, Array]) -> None:
    density, start, moves = chain
    filtered, after = forward(density, start, moves).filtered, smoothed(density, start, moves)
    assert after[-1] == pytest.approx(filtered[-1], abs=1e-12)
    for rows in (filtered, after):
        assert rows.sum(axis=1) == pytest.approx(np.ones(len(rows)), abs=1e-9)


@given(chains(), st.floats(-1e4, 1e4))
def test_a_factor_on_all_densities_changes_the_likelihood_only(chain: tuple[Array, Array, Array], factor: float) -> None:
    density, start, moves = chain
    plain, scaled = forward(density, start, moves), forward(density + factor, start, moves)
    assert scaled.filtered == pytest.approx(plain.filtered, abs=1e-6)
    assert scaled.log_likelihood == pytest.approx(plain.log_likelihood + factor * len(density), abs=1e-4)


def test_nothing_underflows_far_out_or_over_a_long_series() -> None:
    density = gaussian_log_density(np.full(20_000, 40.0), np.array([0.0, 1.0]), np.array([0.01, 0.01]))
    passed = forward(density, np.array([0.5, 0.5]), RAIN)
    assert np.isfinite(passed.log_likelihood)
    assert passed.filtered[-1].tolist() == [0.0, 1.0]
    assert np.isfinite(smoothed(density, np.array([0.5, 0.5]), RAIN)).all()


def test_what_the_chain_cannot_show_is_said() -> None:
    stays = np.eye(2)
    with pytest.raises(ValueError, match="observation 1 is impossible"):
        forward(np.log(np.array([[1.0, 1e-300], [1e-300, 1.0]])) * 5, np.array([1.0, 0.0]), stays)


def test_the_density_is_the_normal_one() -> None:
    found = gaussian_log_density(np.array([0.0, 2.0]), np.array([0.0]), np.array([4.0]))
    assert np.exp(found[:, 0]) == pytest.approx([0.19947114, 0.12098536])


@given(chains())
def test_the_long_run_stays_as_it_is(chain: tuple[Array, Array, Array]) -> None:
    _, _, moves = chain
    shares = stationary(moves)
    assert shares @ moves == pytest.approx(shares, abs=1e-8)
    assert shares.sum() == pytest.approx(1.0)
