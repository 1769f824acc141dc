"""Forgetting an episode: nothing that it said is left in rows, indexes, versions or memory, and nothing brings it back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from schemas.episodes import Episode, Forgotten, tombstone
from stores.episodes import Effect, EpisodeFilter, EpisodeStore, WritableEpisodeStore
from stores.episodes.candidates import CandidateSearch
from stores.episodes.mirror import EpisodeMirror
from stores.recall.filters import RecallFilters
from stores.recall.sources import Question
from stores.recall.stored import EpisodeSource
from tests.support.episodes import DIMENSION, EMBEDDER, INFO, START, At, batch, episode

SECRET = "zanzibar"
EVERYTHING = EpisodeFilter(retracted=True, pending=True)


def secret() -> Episode:
    return episode(5, f"the {SECRET} desk sold through router gamma", agent_id=f"{SECRET}-agent", error=SECRET, status="failed")


def gone() -> Episode:
    return tombstone(secret(), Forgotten(by="operator", reason="asked to", ts=START))


def on_disk(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def filled(folder: Path, reached: object = None) -> WritableEpisodeStore:
    """Two closed segments and an open one; the secret is in the first."""
    hook = {"reached": reached} if reached else {}
    store = WritableEpisodeStore.open(folder, INFO, segment_rows=20, **hook)
    for first in (0, 20, 40):
        more = [(At(first + n), secret() if first + n == 5 else episode(first + n)) for n in range(20 if first < 40 else 5)]
        store.record(more)
    return store


def test_nothing_of_it_is_left_anywhere(tmp_path: Path) -> None:
    folder = tmp_path / "episodes"
    with filled(folder) as store:
        assert on_disk(folder)
        assert store.record([(At(100), gone())]) == [Effect.UPDATED]
        assert on_disk(folder) == []
        assert store.search_text(SECRET, EVERYTHING) == []
        assert store.count() == 45
        left = store.get(secret().id)
        assert left is not None
        assert left.forgotten is not None
        assert SECRET not in left.to_wire().decode()
        assert not left.learnable
        others = [one for one in range(45) if one != 5]
        assert all(store.get(episode(one).id) == episode(one) for one in others[::7])
        assert store.search_text("probe number 7")[0].id == episode(7).id
    with EpisodeStore.open(folder) as reader:
        assert reader.count() == 45


def test_its_records_do_not_bring_it_back(tmp_path: Path) -> None:
    with filled(tmp_path / "episodes") as store:
        store.record([(At(100), gone())])
        again = [(At(5), secret()), (At(101), secret()), (At(102), episode(5, status="pending")), (At(103), gone())]
        assert store.record(again) == [Effect.REPLAYED] + [Effect.DUPLICATE] * 3
        assert store.record([(At(100), gone())]) == [Effect.REPLAYED]
        assert on_disk(tmp_path / "episodes") == []


def test_a_rebuild_never_shows_it(tmp_path: Path) -> None:
    with filled(tmp_path / "one") as store, WritableEpisodeStore.open(tmp_path / "again", INFO) as again:
        store.record([(At(100), gone())])
        whole = [(At(n), secret() if n == 5 else episode(n)) for n in range(45)] + [(At(100), gone())]
        again.record(whole)
        assert list(again.fingerprint_parts()) == list(store.fingerprint_parts())
        assert on_disk(tmp_path / "again") == []


def test_a_reader_and_its_mirror_follow(tmp_path: Path) -> None:
    folder = tmp_path / "episodes"
    with filled(folder) as store, EpisodeStore.open(folder) as reader:
        source = EpisodeSource(reader, mirrored=True)
        asked = Question(f"{SECRET} desk", EMBEDDER.embed([f"{SECRET} desk"])[0], RecallFilters(), 50)
        assert any(SECRET in one.memory.text for one in source.find(asked).candidates)
        store.record([(At(100), gone())])
        found = source.find(asked).candidates
        assert found
        assert all(SECRET not in one.memory.text for one in found)
        assert not any(SECRET in str(value) for value in source.held())


def test_what_is_still_searched_is_still_found(tmp_path: Path) -> None:
    folder = tmp_path / "episodes"
    with filled(folder) as store, EpisodeStore.open(folder) as reader:
        mirror = EpisodeMirror(DIMENSION)
        (vector,) = EMBEDDER.embed(["probe number"])
        before = {one.hit.id for one in reader.candidates("probe", vector, limit=100, mirror=mirror)}
        store.record([(At(100), gone())])
        store.record(batch(200, 3, offset=200))
        after = {one.hit.id for one in reader.candidates("probe", vector, limit=100, mirror=mirror)}
        assert after == before - {secret().id} | {episode(n).id for n in (200, 201, 202)}


def test_a_search_that_began_before_leaves_nothing_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "episodes"
    with filled(folder) as store, EpisodeStore.open(folder) as reader:
        source = EpisodeSource(reader, mirrored=True)
        asked = Question(f"{SECRET} desk", EMBEDDER.embed([f"{SECRET} desk"])[0], RecallFilters(), 50)
        read = CandidateSearch._read

        def slow(search: CandidateSearch, rows: Mapping[str, list[int]], columns: Sequence[str]) -> object:
            tables = read(search, rows, columns)
            if not store.get(secret().id).forgotten:  # once the content is read, it is forgotten and somebody else asks
                store.record([(At(100), gone())])
                source.find(asked)
            return tables

        monkeypatch.setattr(CandidateSearch, "_read", slow)
        source.find(asked)
        assert store.get(secret().id).forgotten
        assert len(source.held()) > 10
        assert not any(SECRET in str(value) for value in source.held())


def test_whoever_reads_meanwhile_gets_an_answer(tmp_path: Path) -> None:
    folder = tmp_path / "episodes"
    (vector,) = EMBEDDER.embed(["probe number"])
    with filled(folder) as store, EpisodeStore.open(folder) as reader:
        mirror = EpisodeMirror(DIMENSION)
        questions: dict[str, Callable[[], object]] = {
            "words": lambda: reader.search_text("probe"),
            "vector": lambda: reader.search_vector(vector),
            "candidates": lambda: reader.candidates("probe", vector),
            "mirrored": lambda: reader.candidates("probe", vector, mirror=mirror),
            "latest": reader.latest,
            "facets": reader.facets,
            "keys": reader.keys,
            "get": lambda: reader.get(episode(44).id),
            "brief": lambda: reader.brief([episode(1).id, episode(44).id]),
            "of key": lambda: reader.of_key(episode(1).key, 50),
            "count": reader.count,
            "stats": reader.stats,
            "fingerprint": lambda: list(reader.fingerprint_parts()),
            "traces": lambda: reader.traces(episode(1).id, "probe"),
        }
        done = threading.Event()

        def ask(question: Callable[[], object]) -> int:
            asked = 0
            while not done.is_set():
                assert question() is not None
                asked += 1
            return asked

        with ThreadPoolExecutor(len(questions)) as pool:
            asking = {name: pool.submit(ask, question) for name, question in questions.items()}
            try:
                for number in range(20, 26):  # each has its table written anew
                    store.record([(At(200 + number), tombstone(episode(number), Forgotten(by="o", reason="r", ts=START)))])
            finally:
                done.set()
            assert all(future.result() for future in asking.values())


@pytest.mark.parametrize("step", ["judged", "replaced", "purged"])
def test_a_writer_that_was_killed_finishes_it(tmp_path: Path, step: str) -> None:
    class Killed(BaseException):
        pass

    told: list[str] = []

    def reached(name: str) -> None:
        told.append(name)
        if name == step and "armed" in told:
            raise Killed

    folder = tmp_path / "episodes"
    store = filled(folder, reached)
    told.append("armed")
    with pytest.raises(Killed):
        store.record([(At(100), gone())])
    told.clear()
    store._lock.release(in_order=False)  # as the system does when a process dies
    with WritableEpisodeStore.open(folder, INFO, segment_rows=20) as again:
        again.record([(At(100), gone())])
        assert on_disk(folder) == []
        assert again.count() == 45
        assert len(list(folder.glob("*.lance"))) == 3
