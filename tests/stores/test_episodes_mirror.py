"""Episodes in memory: the same nearest as the tables give, under every filter, and always as the tables are."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from queue import Queue
from random import Random

import numpy as np
import pytest

from schemas.events import Status
from stores.episodes import EpisodeFilter, EpisodeStore, WritableEpisodeStore, candidates
from stores.episodes.filters import Span
from stores.episodes.hits import Candidate
from stores.episodes.mirror import EpisodeMirror
from tests.support.episodes import DIMENSION, EMBEDDER, INFO, START, At, batch, episode

WORDS = ["router", "alpha", "beta", "gamma", "gas", "high", "low", "pool", "deep", "shallow", "swap", "fails"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritableEpisodeStore]:
    with WritableEpisodeStore.open(tmp_path / "episodes", INFO, segment_rows=40) as opened:
        yield opened


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WritableEpisodeStore]:
    with WritableEpisodeStore.open(tmp_path_factory.mktemp("filled"), INFO, segment_rows=40) as opened:
        opened.record(some(100))
        yield opened


def some(count: int, seed: int = 1) -> list[tuple[At, object]]:
    """Episodes of few sentences, so that many share a vector."""
    rng = Random(seed)
    made = []
    for n in range(count):
        more = {"regime": rng.choice(("calm", "wild", None)), "status": rng.choice(("success", "failed"))}
        made.append((At(n), episode(n, " ".join(rng.choices(WORDS, k=2)), simulated=rng.random() < 0.5, **more)))
    return made


def nearest(store: EpisodeStore, mirror: EpisodeMirror, text: str, wanted: EpisodeFilter, limit: int) -> list[tuple[str, float]]:
    (vector,) = EMBEDDER.embed([text])
    found = store.candidates("", vector, wanted, limit=limit, mirror=mirror)
    return sorted(((one.hit.id, round(one.cosine or 0.0, 5)) for one in found), key=lambda hit: (-hit[1], hit[0]))


FILTERS = [
    EpisodeFilter(), EpisodeFilter(retracted=True, pending=True), EpisodeFilter(simulated=False), EpisodeFilter(failed=True),
    EpisodeFilter(status=Status.SUCCESS), EpisodeFilter(tool="probe"), EpisodeFilter(tool="nothing"), EpisodeFilter(chain="1"),
    EpisodeFilter(regime="calm"), EpisodeFilter(regime="none"), EpisodeFilter(min_importance=0.5),
    EpisodeFilter(since=START + timedelta(minutes=20), until=START + timedelta(minutes=60)),
    EpisodeFilter(regime="calm", spans=(Span("k", True, START, None), Span("k", False, START, START + timedelta(hours=1)))),
]  # fmt: skip


@pytest.mark.parametrize("wanted", FILTERS)
def test_it_finds_what_the_tables_find(filled: WritableEpisodeStore, wanted: EpisodeFilter) -> None:
    if wanted.spans:
        key = filled.find(episode(0).id[:12]).key
        wanted = EpisodeFilter(regime="calm", spans=tuple(Span(key, one.simulated, one.since, one.until) for one in wanted.spans))
    mirror = EpisodeMirror(DIMENSION)
    for text in ("router alpha", "gas"):
        (vector,) = EMBEDDER.embed([text])
        everything = {hit.id: round(hit.score, 5) for hit in filled.search_vector(vector, wanted, limit=1000)}
        assert dict(nearest(filled, mirror, text, wanted, 1000)) == everything
        few = nearest(filled, mirror, text, wanted, 7)
        assert [cosine for _, cosine in few] == sorted(everything.values(), reverse=True)[:7]
        assert all(everything[one] == cosine for one, cosine in few)


@pytest.mark.parametrize(("common", "spare"), [(0.0, 1), (0.0, 2), (0.1, 2), (1.1, 2)], ids=["barely", "always", "usual", "never"])
@pytest.mark.parametrize("wanted", FILTERS)
def test_the_filter_is_the_same_whoever_applies_it(
    filled: WritableEpisodeStore, wanted: EpisodeFilter, common: float, spare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "COMMON", common)
    monkeypatch.setattr(candidates, "SPARE", spare)
    mirror = EpisodeMirror(DIMENSION)
    for text in ("router alpha", "gas", "beta swap pool deep"):
        everything = words(filled.candidates(text, None, wanted, limit=1000))
        assert words(filled.candidates(text, None, wanted, limit=1000, mirror=mirror)) == everything
        few = words(filled.candidates(text, None, wanted, limit=3, mirror=mirror))
        assert sorted(few.values()) == sorted(sorted(everything.values())[-3:])
        assert few.items() <= everything.items()


@pytest.mark.parametrize("compacted", [True, False])
@pytest.mark.parametrize("late", [True, False], ids=["read at the end", "read all along"])
def test_episodes_that_became_final_later_are_found_like_others(store: WritableEpisodeStore, compacted: bool, late: bool) -> None:
    mirror = EpisodeMirror(DIMENSION)
    (vector,) = EMBEDDER.embed(["router alpha"])
    rng = Random(3)
    told = {n: " ".join(rng.choices(WORDS, k=2)) for n in range(90)}
    for first in range(0, 90, 30):
        batch = range(first, first + 30)
        store.record([(At(2 * n), episode(n, told[n], status="pending")) for n in batch])
        store.record([(At(2 * n + 1), episode(n, told[n])) for n in rng.sample(batch, 12)])
        if compacted:
            store.compact()
        if not late:
            store.candidates("router", vector, mirror=mirror)
    for wanted in (EpisodeFilter(), EpisodeFilter(pending=True)):
        for text in ("router", "alpha beta", "gas"):
            plain = {one.hit.id: one for one in store.candidates(text, vector, wanted, limit=1000)}
            found = {one.hit.id: one for one in store.candidates(text, vector, wanted, limit=1000, mirror=mirror)}
            assert {key: one.hit for key, one in found.items()} == {key: one.hit for key, one in plain.items()}
            for key, one in found.items():
                assert one.cosine == pytest.approx(plain[key].cosine, abs=1e-6)
                assert one.lexical == pytest.approx(plain[key].lexical, abs=1e-4)


def words(found: list[Candidate]) -> dict[str, float]:
    return {one.hit.id: round(one.lexical, 4) for one in found if one.lexical is not None}


def test_what_the_mirror_shows_is_what_the_table_says(filled: WritableEpisodeStore) -> None:
    (vector,) = EMBEDDER.embed(["router alpha"])
    plain = {one.hit.id: one.hit for one in filled.candidates("router", vector, limit=1000)}
    shown = {one.hit.id: one.hit for one in filled.candidates("router", vector, limit=1000, mirror=EpisodeMirror(DIMENSION))}
    assert shown == plain


def test_who_asks_while_it_is_closed_gets_an_error_and_never_waits(store: WritableEpisodeStore, tmp_path: Path) -> None:
    store.record(some(100))
    (vector,) = EMBEDDER.embed(["router alpha"])
    reader = EpisodeStore.open(tmp_path / "episodes")
    asked = Queue[bool]()

    def ask() -> None:
        while True:
            found = reader.candidates("router", vector, mirror=EpisodeMirror(DIMENSION))
            asked.put(bool(found))

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask) for _ in range(4)]
        assert all(asked.get(timeout=60) for _ in range(8))
        reader.close()
        assert {type(one.exception(timeout=60)) for one in asking} == {RuntimeError}
    with pytest.raises(RuntimeError, match="closed"):
        reader.candidates("router", vector)


def test_of_equal_ones_the_latest_are_taken(store: WritableEpisodeStore) -> None:
    store.record([(At(n), episode(n, "router alpha")) for n in range(90)])
    near = nearest(store, EpisodeMirror(DIMENSION), "router alpha", EpisodeFilter(), 5)
    assert {one for one, _ in near} == {episode(n).id for n in range(85, 90)}


def test_it_follows_what_is_added_replaced_and_retracted(store: WritableEpisodeStore, tmp_path: Path) -> None:
    with EpisodeStore.open(tmp_path / "episodes") as reader:
        mirror = EpisodeMirror(DIMENSION)
        assert nearest(reader, mirror, "gas", EpisodeFilter(), 10) == []
        store.record([(At(0), episode(1, "gas high", status="pending")), (At(1), episode(2, "gas low"))])
        assert {one for one, _ in nearest(reader, mirror, "gas", EpisodeFilter(), 10)} == {episode(2).id}
        store.record([(At(2), episode(1, "gas high"))])
        assert {one for one, _ in nearest(reader, mirror, "gas", EpisodeFilter(), 10)} == {episode(1).id, episode(2).id}
        store.record([(At(3), episode(2, "gas low", removed=True))])
        assert {one for one, _ in nearest(reader, mirror, "gas", EpisodeFilter(), 10)} == {episode(1).id}
        store.record(batch(10, 100, offset=4))
        store.compact()
        assert len(nearest(reader, mirror, "gas", EpisodeFilter(), 1000)) == 101
        assert len(mirror) == 102


def test_what_was_shown_is_kept_only_while_it_is_so(store: WritableEpisodeStore) -> None:
    mirror = EpisodeMirror(DIMENSION)
    (vector,) = EMBEDDER.embed(["gas"])
    store.record([(At(0), episode(1, "gas high", status="pending"))])
    wanted = EpisodeFilter(pending=True)
    (first,) = store.candidates("", vector, wanted, mirror=mirror)
    (again,) = store.candidates("", vector, wanted, mirror=mirror)
    assert again.hit is first.hit
    store.record([(At(1), episode(1, "gas high"))])
    (final,) = store.candidates("", vector, wanted, mirror=mirror)
    assert (first.hit.status, final.hit.status) == ("pending", "success")


@pytest.mark.parametrize("mirrored", [True, False])
def test_every_candidate_has_its_cosine_and_those_of_words_their_score(store: WritableEpisodeStore, mirrored: bool) -> None:
    store.record(some(100))
    (vector,) = EMBEDDER.embed(["pool deep"])
    mirror = EpisodeMirror(DIMENSION) if mirrored else None
    found = store.candidates("router gamma", vector, limit=5, mirror=mirror)
    cosines = {hit.id: hit.score for hit in store.search_vector(vector, limit=1000)}
    words = {hit.id: hit.score for hit in store.search_text("router gamma", limit=5)}
    assert {one.hit.id for one in found if one.lexical is not None} == set(words)
    assert len(found) > 5
    for one in found:
        assert one.cosine is not None
        assert np.isclose(one.cosine, cosines[one.hit.id], atol=1e-5)
        assert one.lexical is None or np.isclose(one.lexical, words[one.hit.id])
