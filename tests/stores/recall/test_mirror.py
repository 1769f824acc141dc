"""The mirror: exact, filtered before the cut, and the same whatever order the changes came in."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.recall.mirror import Vector, VectorMirror

DIMENSION = 8


def unit(seed: int) -> Vector:
    row = np.random.default_rng(seed).normal(size=DIMENSION)
    return (row / np.linalg.norm(row)).astype(np.float32)


CHANGES = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 5), st.none() | st.integers(0, 20)),
    max_size=60,
    unique_by=lambda change: change[:2],
)


def applied(changes: list[tuple[str, int, int | None]]) -> VectorMirror:
    mirror = VectorMirror(DIMENSION)
    for key, change, seed in changes:
        if seed is None:
            mirror.remove(key, change)
        else:
            mirror.put(key, unit(seed), change)
    return mirror


@given(CHANGES, st.randoms(use_true_random=False))
def test_the_latest_change_of_a_row_wins_in_any_order(changes: list[tuple[str, int, int | None]], random: Random) -> None:
    shuffled = changes * 2
    random.shuffle(shuffled)
    latest = {key: seed for key, _, seed in sorted(changes, key=lambda change: change[1])}
    expected = {key: float(unit(seed) @ unit(99)) for key, seed in latest.items() if seed is not None}
    for mirror in (applied(changes), applied(shuffled)):
        assert dict(mirror.nearest(unit(99), 10)) == pytest.approx(expected, abs=2e-6)


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 1000))
def test_nearest_is_brute_force(k: int, rows: int, seed: int) -> None:
    mirror = VectorMirror(DIMENSION)
    for row in range(rows):
        mirror.put(f"{row:03}", unit(seed + row % 7), 1)
    query = unit(seed + 100)
    cosine = {f"{row:03}": float((unit(seed + row % 7).astype(float) * query.astype(float)).sum()) for row in range(rows)}
    expected = sorted(cosine, key=lambda key: (-cosine[key], key))[:k]
    assert [key for key, _ in mirror.nearest(query, k)] == expected


def test_it_grows_and_filters_before_the_cut() -> None:
    mirror = VectorMirror(DIMENSION)
    for row in range(1_000):
        mirror.put(f"{row}", unit(row), 1)
    assert len(mirror) == 1_000
    [(key, cosine)] = mirror.nearest(unit(3), 1, {"700", "not here"})
    assert key == "700"
    assert cosine == pytest.approx(float(unit(700) @ unit(3)), abs=2e-6)
    assert mirror.nearest(unit(3), 5, set()) == []


def test_a_removed_row_is_gone_and_stays_gone() -> None:
    mirror = VectorMirror(DIMENSION)
    mirror.put("a", unit(1), 1)
    mirror.put("b", unit(2), 1)
    assert mirror.remove("a", 2)
    assert not mirror.put("a", unit(1), 1)
    assert "a" not in mirror
    assert mirror.vector("a") is None
    assert [key for key, _ in mirror.nearest(unit(1), 5)] == ["b"]
    assert mirror.cosines(unit(2), ["a", "b"]) == {"b": pytest.approx(1.0)}


@pytest.mark.parametrize("bad", [np.zeros(DIMENSION), np.full(DIMENSION, np.nan), np.ones(DIMENSION), np.ones(3)])
def test_what_is_no_direction_is_refused(bad: Vector) -> None:
    mirror = VectorMirror(DIMENSION)
    with pytest.raises(ValueError, match="a vector"):
        mirror.put("a", bad, 1)
    assert len(mirror) == 0
