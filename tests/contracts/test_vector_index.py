"""One suite for every way of searching vectors: sqlite3 or apsw with sqlite-vec where they work, and the matrix without it."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.claims import Category
from schemas.insights import InsightStatus
from stores.sqlite import (
    Backend,
    BadQuery,
    InsightFilter,
    InsightStore,
    StoreError,
    WritableInsightStore,
    usable_backends,
)
from tests.support.sqlite import MODEL, HashEmbedder, at, fill, insight, writing

EMBEDDER = HashEmbedder()
COUNT = 120


@pytest.fixture(params=usable_backends())
def backend(request: pytest.FixtureRequest) -> Backend:
    chosen: Backend = request.param
    return chosen


@pytest.fixture
def store(backend: Backend, tmp_path: Path) -> Iterator[WritableInsightStore]:
    with writing(tmp_path / "store.db", backend) as opened:
        yield opened


@pytest.fixture
def filled(store: WritableInsightStore) -> WritableInsightStore:
    fill(store, [insight(number) for number in range(COUNT)])
    return store


def nearest(query: np.ndarray, numbers: list[int], k: int) -> list[tuple[str, float]]:
    """The answer, by exhaustion in float64."""
    unit = query.astype(np.float64) / np.linalg.norm(query.astype(np.float64))
    scored = [(f"i{number:04}", float(EMBEDDER.vector(insight(number).text).astype(np.float64) @ unit)) for number in numbers]
    return sorted(scored, key=lambda pair: -pair[1])[:k]


def test_there_is_a_backend_with_sqlite_vec_and_one_without() -> None:
    assert {"apsw", "numpy"} <= set(usable_backends())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), k=st.integers(1, COUNT + 10), scale=st.floats(0.01, 100))
def test_neighbours_are_exact(filled: WritableInsightStore, seed: int, k: int, scale: float) -> None:
    query = (np.random.default_rng(seed).normal(size=MODEL[1]) * scale).astype(np.float32)
    hits = filled.knn(query, k)
    expected = nearest(query, list(range(COUNT)), k)
    assert [hit.insight.id for hit in hits] == [found for found, _ in expected]
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], abs=1e-5)


@pytest.mark.parametrize(
    ("where", "keep"),
    [
        (InsightFilter(categories=(Category.SLIPPAGE,)), lambda n: n % 3 == 0),
        (InsightFilter(categories=(Category.SLIPPAGE, Category.GAS_TIMING)), lambda n: n % 3 in (0, 1)),
        (InsightFilter(min_confidence=Decimal("0.95")), lambda n: n % 21 >= 19),
        (InsightFilter(min_confidence=Decimal("0.5"), categories=(Category.SLIPPAGE,)), lambda n: n % 21 >= 10 and n % 3 == 0),
        (InsightFilter(validated_from=at(10), validated_until=at(12)), lambda n: n % 50 in (10, 11)),
        (InsightFilter(tool="swap", chain="1"), lambda n: True),
        (InsightFilter(key="nobody"), lambda n: False),
        (InsightFilter(pair="Alice')) OR true--"), lambda n: False),
    ],
)
def test_a_filter_applies_before_the_k_are_taken(filled: WritableInsightStore, where: InsightFilter, keep: object) -> None:
    assert callable(keep)
    query = EMBEDDER.vector("anything")
    expected = nearest(query, [number for number in range(COUNT) if keep(number)], 5)
    assert [hit.insight.id for hit in filled.knn(query, 5, where)] == [found for found, _ in expected]


def test_an_empty_store_finds_nothing(store: WritableInsightStore) -> None:
    assert store.knn(EMBEDDER.vector("x"), 5) == ()


@pytest.mark.parametrize("k", [0, -1, 4097, 10**30, True])
def test_k_out_of_bounds_is_refused(filled: WritableInsightStore, k: int) -> None:
    with pytest.raises(BadQuery, match="k is"):
        filled.knn(EMBEDDER.vector("x"), k)


def test_k_may_be_4096(filled: WritableInsightStore) -> None:
    assert len(filled.knn(EMBEDDER.vector("x"), 4096)) == COUNT


BAD = {
    "nan": np.array([np.nan, *[0.1] * 15], np.float32),
    "infinite": np.array([np.inf, *[0.1] * 15], np.float32),
    "zero": np.zeros(16, np.float32),
    "short": np.ones(15, np.float32),
    "long": np.ones(17, np.float32),
    "matrix": np.ones((1, 16), np.float32),
}


@pytest.mark.parametrize("vector", BAD.values(), ids=BAD.keys())
def test_vectors_without_direction_or_of_another_dimension_are_refused(filled: WritableInsightStore, vector: np.ndarray) -> None:
    with pytest.raises(BadQuery):
        filled.knn(vector, 5)
    before = filled.knn(EMBEDDER.vector("x"), COUNT)
    with pytest.raises(BadQuery), filled.transaction() as transaction:
        transaction.put(insight(999), vector)
    assert filled.get("i0999") is None
    assert filled.knn(EMBEDDER.vector("x"), COUNT) == before


def test_an_edit_moves_the_vector_and_an_archive_takes_it_out(filled: WritableInsightStore) -> None:
    old, new = insight(7), insight(7, text="Something else entirely.", revision=2)
    fill(filled, [new])
    assert filled.knn(EMBEDDER.vector(new.text), 1)[0].score == pytest.approx(1, abs=1e-6)
    assert filled.knn(EMBEDDER.vector(old.text), 1)[0].score < 0.99
    with filled.transaction() as transaction:
        transaction.put(new.model_copy(update={"status": InsightStatus.ARCHIVED, "revision": 3}), None)
    hits = filled.knn(EMBEDDER.vector(new.text), COUNT)
    assert len(hits) == COUNT - 1
    assert "i0007" not in {hit.insight.id for hit in hits}


def test_without_a_new_vector_the_old_one_stays(filled: WritableInsightStore) -> None:
    with filled.transaction() as transaction:
        transaction.put(insight(7, confidence=Decimal(1), revision=2), None)
    hit = filled.knn(EMBEDDER.vector(insight(7).text), 1)[0]
    assert (hit.insight.id, hit.insight.confidence) == ("i0007", 1)


def test_an_active_insight_without_any_vector_is_refused(store: WritableInsightStore) -> None:
    with pytest.raises(StoreError, match="no vector"), store.transaction() as transaction:
        transaction.put(insight(1), None)
    assert store.get("i0001") is None


def test_what_is_rolled_back_is_not_found(filled: WritableInsightStore) -> None:
    changed = insight(7, text="Never committed.")

    def fail_halfway() -> None:
        with filled.transaction() as transaction:
            transaction.put(changed, EMBEDDER.vector(changed.text))
            assert filled.knn(EMBEDDER.vector(changed.text), 1)[0].insight.text == "Never committed."
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert filled.knn(EMBEDDER.vector(changed.text), 1)[0].score < 0.99
    assert filled.knn(EMBEDDER.vector(insight(7).text), 1)[0].insight == insight(7)
    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    fill(filled, [insight(7, text="Committed instead.")])
    assert filled.knn(EMBEDDER.vector(changed.text), 1)[0].score < 0.99
    assert filled.knn(EMBEDDER.vector("Committed instead."), 1)[0].score == pytest.approx(1, abs=1e-6)


def test_readers_see_each_commit(backend: Backend, filled: WritableInsightStore, tmp_path: Path) -> None:
    query = EMBEDDER.vector("A later insight.")
    with InsightStore.open(tmp_path / "store.db", MODEL, backend=backend) as reader:
        assert len(reader.knn(query, COUNT + 1)) == COUNT
        fill(filled, [insight(500, text="A later insight.")])
        hits = reader.knn(query, COUNT + 1)
        assert (len(hits), hits[0].insight.id) == (COUNT + 1, "i0500")


@pytest.mark.parametrize("other", ["numpy", "apsw"])
def test_a_file_goes_from_one_backend_to_another(backend: Backend, other: Backend, tmp_path: Path) -> None:
    """A writer without sqlite-vec leaves vec0 behind; readers notice, and the next writer with it catches up."""
    path = tmp_path / "store.db"
    for turn, chosen in enumerate((backend, other, backend)):
        numbers = range(turn * 10, turn * 10 + 10)
        with writing(path, chosen) as store:
            fill(store, [insight(number) for number in numbers])
            fill(store, [insight(0, text=f"Turn {turn}.", revision=turn + 1)])
        for reader_backend in (backend, other):
            with InsightStore.open(path, backend=reader_backend) as reader:
                hits = reader.knn(EMBEDDER.vector(f"Turn {turn}."), 100)
                assert (hits[0].insight.id, len(hits)) == ("i0000", turn * 10 + 10)
                assert hits[0].score == pytest.approx(1, abs=1e-6)


def test_a_deleted_vector_leaves_no_bytes(filled: WritableInsightStore, tmp_path: Path) -> None:
    needle = EMBEDDER.vector(insight(7).text).tobytes()
    with filled.transaction() as transaction:
        transaction.put(insight(7, status=InsightStatus.ARCHIVED, revision=2), None)
    filled.close()
    assert needle not in (tmp_path / "store.db").read_bytes()
    assert EMBEDDER.vector(insight(8).text).tobytes() in (tmp_path / "store.db").read_bytes()
