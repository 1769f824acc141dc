"""The cache: each distinct text once, in this process and the next, and never another model's or a damaged vector."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.embedding import CachedEmbedder
from tests.support.episodes import WordEmbedder


def embedded(inner: WordEmbedder) -> list[str]:
    return [text for call in inner.calls for text in call]


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), max_size=5))
def test_each_distinct_text_is_embedded_once_and_the_vectors_are_the_inner_ones(batches: list[list[str]]) -> None:
    inner, reference = WordEmbedder(), WordEmbedder()
    cached = CachedEmbedder(inner, None)
    for batch in batches:
        assert cached.embed(batch).tobytes() == reference.embed(batch).tobytes()
    asked = [text for batch in batches for text in dict.fromkeys(batch)]
    assert embedded(inner) == list(dict.fromkeys(asked))
    assert cached.misses == len(set(asked))
    assert cached.hits + cached.misses == len(asked)


def test_vectors_survive_the_process(tmp_path: Path) -> None:
    first = CachedEmbedder(WordEmbedder(), tmp_path / "vectors.db")
    made = first.embed(["one", "two"])
    first.close()
    inner = WordEmbedder()
    second = CachedEmbedder(inner, tmp_path / "vectors.db")
    assert second.embed(["two", "one", "two"]).tobytes() == made[[1, 0, 1]].tobytes()
    assert inner.calls == []
    assert (second.hits, second.misses) == (2, 0)


def test_a_caller_may_write_into_what_it_got() -> None:
    cached = CachedEmbedder(WordEmbedder(), None)
    cached.embed(["one"])[0] = 7.0
    assert np.linalg.norm(cached.embed(["one"])[0]) == pytest.approx(1.0)


def test_models_share_a_file_but_never_a_vector(tmp_path: Path) -> None:
    CachedEmbedder(WordEmbedder(name="first"), tmp_path / "vectors.db").embed(["one"])
    inner = WordEmbedder(name="second")
    CachedEmbedder(inner, tmp_path / "vectors.db").embed(["one"])
    assert embedded(inner) == ["one"]


def test_a_question_is_not_a_document() -> None:
    inner = WordEmbedder()
    cached = CachedEmbedder(inner, None)
    cached.embed(["one"])
    cached.embed_query(["one"])
    cached.embed_query(["one"])
    assert embedded(inner) == ["one", "one"]


def test_memory_is_bounded(tmp_path: Path) -> None:
    inner = WordEmbedder()
    cached = CachedEmbedder(inner, None, memory=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        cached.embed([text])
    assert embedded(inner) == ["a", "b", "c", "b"]


def test_the_file_is_bounded_and_the_oldest_leave(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    cached = CachedEmbedder(WordEmbedder(), path, limit=10)
    cached.embed([f"text {n}" for n in range(25)])
    cached.close()
    inner = WordEmbedder()
    CachedEmbedder(inner, path).embed(["text 0", "text 14", "text 15", "text 24"])
    assert embedded(inner) == ["text 0", "text 14"]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE vectors SET vector = substr(vector, 1, 8)",
        "UPDATE vectors SET vector = zeroblob(length(vector))",
        "UPDATE vectors SET crc = crc + 1",
        "UPDATE vectors SET vector = printf('%.*c', length(vector), 'x')",
    ],
)
def test_a_damaged_row_is_made_again(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "vectors.db"
    first = CachedEmbedder(WordEmbedder(), path)
    made = first.embed(["one"])
    first.close()
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    for expected_calls in (1, 0):
        inner = WordEmbedder()
        again = CachedEmbedder(inner, path)
        assert again.embed(["one"]).tobytes() == made.tobytes()
        assert len(inner.calls) == expected_calls
        again.close()


def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    path.write_bytes(b"this is no database, and long enough to be looked at" * 50)
    CachedEmbedder(WordEmbedder(), path).embed(["one"])
    assert (tmp_path / "vectors.db.damaged").read_bytes().startswith(b"this is no database")
    inner = WordEmbedder()
    CachedEmbedder(inner, path).embed(["one"])
    assert inner.calls == []


def test_a_database_that_breaks_while_it_is_open_costs_only_time(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    cached = CachedEmbedder(WordEmbedder(), path, memory=1)
    made = cached.embed([f"text {n}" for n in range(200)])
    cached.close()
    cached = CachedEmbedder(WordEmbedder(), path, memory=1)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(bytes(content))
    again = cached.embed([f"text {n}" for n in range(200)])
    assert again.tobytes() == made.tobytes()
    assert cached.embed(["text 7"]).tobytes() == made[7:8].tobytes()


def test_a_folder_that_cannot_be_written_leaves_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("not a folder")
    with caplog.at_level(logging.WARNING):
        cached = CachedEmbedder(inner := WordEmbedder(), tmp_path / "file" / "vectors.db")
    assert "in memory only" in caplog.text
    cached.embed(["one"])
    cached.embed(["one"])
    assert embedded(inner) == ["one"]


def test_threads_share_a_cache(tmp_path: Path) -> None:
    cached = CachedEmbedder(WordEmbedder(), tmp_path / "vectors.db")
    reference = WordEmbedder().embed([f"text {n}" for n in range(20)])
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: cached.embed([f"text {n % 20}"])[0].tobytes(), range(100)))
    assert results == [reference[n % 20].tobytes() for n in range(100)]


WRITER = """
import sys
from pathlib import Path
from stores.embedding import CachedEmbedder
from tests.support.episodes import WordEmbedder
cached = CachedEmbedder(WordEmbedder(), Path(sys.argv[1]))
print("ready", flush=True)
n = 0
while True:
    cached.embed([f"text {n % 500} {k}" for k in range(4)])
    n += 1
    if n == 20:
        print("going", flush=True)
"""


@pytest.mark.faults
def test_processes_share_a_file_and_one_may_be_killed(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    root = Path(__file__).parents[2]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path)], cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert [writer.stdout.readline() for _ in range(2)] == ["ready\n", "going\n"]
    mine = CachedEmbedder(WordEmbedder(), path)
    shared = [f"text {n} {k}" for n in range(10) for k in range(4)]
    before = mine.embed(shared)
    for writer in writers:
        writer.kill()
        writer.wait()
        assert writer.stdout is not None
        writer.stdout.close()
    mine.close()
    inner = WordEmbedder()
    after = CachedEmbedder(inner, path)
    assert after.embed(shared).tobytes() == before.tobytes() == WordEmbedder().embed(shared).tobytes()
    assert inner.calls == []
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_what_is_forgotten_is_in_neither_memory_nor_file(tmp_path: Path) -> None:
    inner = WordEmbedder()
    with_file = CachedEmbedder(inner, tmp_path / "vectors.db")
    kept, gone = with_file.embed(["kept", "gone"])
    with_file.embed_query(["gone"])
    with_file.forget(["gone", "never seen"])
    misses = with_file.misses
    again = CachedEmbedder(inner, tmp_path / "vectors.db")
    assert np.array_equal(again.embed(["kept"])[0], kept)
    assert again.misses == 0
    assert np.array_equal(with_file.embed(["gone"])[0], gone)
    assert with_file.misses == misses + 1
    with_file.forget(["gone"])
    with_file.close()
    again.close()
    assert gone.astype("<f4").tobytes() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
