"""The episode store: what is written is found, once, by every reader, whatever is asked and in whatever order it came."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from stores.episodes import Effect, EpisodeFilter, EpisodeStore, EpisodeStoreError, WritableEpisodeStore
from stores.episodes.layout import HEADER
from tests.support.episodes import ADDRESS, DIMENSION, EMBEDDER, INFO, At, batch, episode

ROOT = Path(__file__).parents[2]
SOON = timedelta(milliseconds=1)
EVERYTHING = EpisodeFilter(retracted=True, pending=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritableEpisodeStore]:
    with WritableEpisodeStore.open(tmp_path / "episodes", INFO, segment_rows=50, keep=SOON) as opened:
        yield opened


def fingerprint(store: EpisodeStore) -> list[bytes]:
    return list(store.fingerprint_parts())


# --- writing


def test_an_episode_comes_back_as_it_was(store: WritableEpisodeStore) -> None:
    kept = episode(7, "paid 0.30 % in Zürich, 支付\x00", regime="calm", agent_id="x", extra_field={"kept": [1, 2**256 - 1]})
    assert store.record([(At(0), kept)]) == [Effect.INSERTED]
    assert store.get(kept.id) == kept
    assert store.find(kept.id[:8]) == kept
    assert store.get(episode(8).id) is None


def test_an_id_is_kept_once_within_and_across_batches(store: WritableEpisodeStore) -> None:
    one, two = episode(1), episode(2)
    assert store.record([(At(0), one), (At(1), one), (At(2), two)]) == [Effect.INSERTED, Effect.DUPLICATE, Effect.INSERTED]
    assert store.record([(At(3), two), (At(0, partition=1), one)]) == [Effect.DUPLICATE] * 2
    assert store.count() == 2


def test_a_batch_that_is_delivered_again_is_told_from_duplicates(store: WritableEpisodeStore) -> None:
    log = [(At(0), episode(1, status="pending")), (At(1), episode(1)), (At(2), episode(1)), (At(3), episode(2))]
    assert store.record(log) == [Effect.INSERTED, Effect.UPDATED, Effect.DUPLICATE, Effect.INSERTED]
    assert store.record(log) == [Effect.REPLAYED, Effect.REPLAYED, Effect.DUPLICATE, Effect.REPLAYED]
    assert store.count() == 2


def test_pending_becomes_final_and_may_be_retracted(store: WritableEpisodeStore) -> None:
    pending, final = episode(1, "pending words", status="pending"), episode(1, "final words")
    removed = episode(1, "retracted words", removed=True)
    store.record([(At(0), pending), *batch(2, 10, offset=1)])
    assert store.search_text("pending", limit=5) == []
    assert [hit.id for hit in store.search_text("pending", EpisodeFilter(pending=True), limit=5)] == [pending.id]
    assert store.record([(At(20), final)]) == [Effect.UPDATED]
    assert store.get(final.id) == final
    assert [hit.status for hit in store.search_text("final", limit=5)] == ["success"]
    assert store.search_text("pending", EVERYTHING, limit=5) == []
    store.compact()
    assert store.record([(At(21), removed)]) == [Effect.UPDATED]
    assert store.search_text("retracted final", limit=5) == []
    assert [hit.retracted for hit in store.search_text("retracted", EpisodeFilter(retracted=True), limit=5)] == [True]
    assert store.get(final.id) == removed
    assert store.count() == 11


def test_an_update_reaches_an_older_segment(store: WritableEpisodeStore) -> None:
    store.record([(At(0), episode(0, status="pending")), *batch(1, 60)])
    store.record(batch(61, 60))
    store.compact()
    assert store.stats().segments == 3
    assert store.record([(At(200), episode(0, "settled at last")), (At(201), episode(5))]) == [Effect.UPDATED, Effect.DUPLICATE]
    assert [hit.reflection for hit in store.search_text("settled", limit=3)] == ["settled at last"]
    assert store.count() == 121


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"model": "other/16"}, "made by other/16"),
        ({"vector": b"\x00" * 4 * DIMENSION}, "norm 0"),
        ({"vector": np.full(DIMENSION, np.nan, "<f4").tobytes()}, "norm nan"),
        ({"vector": np.full(DIMENSION, 1.0, "<f4").tobytes()}, "norm 4"),
        ({"vector": b""}, "0 bytes"),
        ({"vector": np.ones(DIMENSION * 2, "<f4").tobytes()}, "128 bytes"),
    ],
)
def test_a_bad_vector_is_refused_with_its_whole_batch(store: WritableEpisodeStore, fields: dict[str, object], fault: str) -> None:
    bad = episode(1, **fields)  # type: ignore[arg-type]
    assert fault in (store.fault(bad) or "")
    with pytest.raises(ValueError, match=fault):
        store.record([(At(0), episode(0)), (At(1), bad)])
    assert store.count() == 0


def test_nothing_to_record(store: WritableEpisodeStore) -> None:
    assert store.record([]) == []
    assert store.count() == 0
    assert store.search_text("anything") == []
    assert fingerprint(store) == []


# --- one writer, one model, one log


def test_only_one_process_writes(store: WritableEpisodeStore, tmp_path: Path) -> None:
    with pytest.raises(EpisodeStoreError, match=r"process \d+ writes the episodes"):
        WritableEpisodeStore.open(tmp_path / "episodes", INFO)
    store.close()
    WritableEpisodeStore.open(tmp_path / "episodes", INFO).close()


def test_another_models_store_is_refused(store: WritableEpisodeStore, tmp_path: Path) -> None:
    store.close()
    for info in (("other/16", DIMENSION), (INFO[0], 8)):
        with pytest.raises(EpisodeStoreError, match="were embedded by words/16"):
            WritableEpisodeStore.open(tmp_path / "episodes", info)
        with pytest.raises(EpisodeStoreError, match="were embedded by words/16"):
            EpisodeStore.open(tmp_path / "episodes", info)
    assert EpisodeStore.open(tmp_path / "episodes").model_id == INFO[0]


def test_another_logs_store_is_refused(store: WritableEpisodeStore, tmp_path: Path) -> None:
    store.bind("log-1")
    store.bind("log-1")
    store.close()
    with WritableEpisodeStore.open(tmp_path / "episodes", INFO) as again, pytest.raises(EpisodeStoreError, match="another log"):
        again.bind("log-2")


def test_no_store_and_a_header_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(EpisodeStoreError, match="there are no episodes"):
        EpisodeStore.open(tmp_path)
    (tmp_path / HEADER).write_text('{"format": 2, "model_id": "m", "dimension": 3}')
    with pytest.raises(EpisodeStoreError, match="format"):
        EpisodeStore.open(tmp_path)


def test_a_missing_table_says_what_to_do(store: WritableEpisodeStore, tmp_path: Path) -> None:
    store.record(batch(0, 3))
    store.close()
    (tmp_path / "episodes" / "episodes-000001.lance").rename(tmp_path / "gone")
    with pytest.raises(EpisodeStoreError, match="episodes-000001") as caught:
        EpisodeStore.open(tmp_path / "episodes").count()
    assert "from the log" in (caught.value.hint or "")


def test_the_store_knows_how_far_it_is(store: WritableEpisodeStore) -> None:
    assert store.next_offsets() == {}
    store.record([(At(4), episode(1)), (At(9, partition=2), episode(2)), (At(5), episode(1))])
    assert store.next_offsets() == {0: 5, 2: 10}
    store.record(batch(10, 60, offset=100))
    store.record([(At(300), episode(1, removed=True))])
    assert store.next_offsets() == {0: 301, 2: 10}


# --- finding


def test_an_address_and_a_hash_are_words(store: WritableEpisodeStore) -> None:
    digest = "0x" + "cd" * 32
    store.record([(At(0), episode(0, f"swap in {ADDRESS}, transaction {digest}")), *batch(1, 5, offset=1)])
    for word in (ADDRESS, ADDRESS.upper().replace("0X", "0x"), digest):
        assert [hit.id for hit in store.search_text(word)] == [episode(0).id]
        store.compact()


def test_words_are_taken_as_they_are(store: WritableEpisodeStore) -> None:
    texts = ["sold USDS", "sold USD", "did not fail", "did fail at 0.30 %"]
    store.record([(At(n), episode(n, text)) for n, text in enumerate(texts)])
    assert [hit.reflection for hit in store.search_text("usds")] == ["sold USDS"]
    assert [hit.reflection for hit in store.search_text("usd")] == ["sold USD"]
    assert [hit.reflection for hit in store.search_text("not")] == ["did not fail"]
    assert [hit.reflection for hit in store.search_text("30")] == ["did fail at 0.30 %"]


NASTY = [
    "", " ", "\x00", "the", "'", '"', "a'b\"c", "Alice')) OR true--", "(((", "swap AND", "+a -b ^2 ~x *", "中文", "\\",
    "a\x00number", "x" * 100_000, "word " * 20_000, "🙂", "\ud800", "%_", "-", "number:1", "NOT number",
]  # fmt: skip


@pytest.mark.parametrize("text", NASTY)
def test_any_text_is_a_valid_question(store_of_thirty: EpisodeStore, text: str) -> None:
    hits = store_of_thirty.search_text(text, limit=5)
    both = store_of_thirty.search(text, EMBEDDER, limit=5)
    assert all(hit.reflection for hit in hits)
    assert len(both) == 5


@pytest.fixture(scope="module")
def store_of_thirty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EpisodeStore]:
    folder = tmp_path_factory.mktemp("thirty") / "episodes"
    with WritableEpisodeStore.open(folder, INFO, segment_rows=12) as store:
        for first in range(0, 30, 6):
            store.record(batch(first, 6))
        yield store


def test_vector_search_is_exact_over_all_segments(store_of_thirty: EpisodeStore) -> None:
    everything = {n: EMBEDDER.embed([f"probe number {n} went well"])[0] for n in range(30)}
    query = EMBEDDER.embed(["probe number 17 went badly"])[0]
    expected = sorted(everything, key=lambda n: -float(everything[n] @ query))
    hits = store_of_thirty.search_vector(query, limit=30)
    assert [hit.id for hit in hits[:5]] == [episode(n).id for n in expected[:5]]
    assert hits[0].score == pytest.approx(float(everything[expected[0]] @ query), abs=1e-5)
    assert len(hits) == 30


def test_both_legs_count(store_of_thirty: EpisodeStore) -> None:
    for recipe in ("zscore_sum", "rrf"):
        hits = store_of_thirty.search("number 23", EMBEDDER, limit=3, recipe=recipe)
        assert hits[0].id == episode(23).id
        assert len(hits) == 3
    with pytest.raises(ValueError, match="recipes are"):
        store_of_thirty.search("number 23", EMBEDDER, recipe="magic")


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_limit_out_of_bounds_is_refused(store_of_thirty: EpisodeStore, limit: int) -> None:
    with pytest.raises(ValueError, match="limit"):
        store_of_thirty.search_text("number", limit=limit)


@pytest.mark.parametrize("vector", [np.zeros(DIMENSION), np.full(DIMENSION, np.nan), np.ones(3)])
def test_a_query_vector_that_is_none_is_refused(store_of_thirty: EpisodeStore, vector: np.ndarray) -> None:
    with pytest.raises(ValueError, match="query vector"):
        store_of_thirty.search_vector(vector)


def test_an_id_prefix_must_be_one_and_unambiguous(store_of_thirty: EpisodeStore) -> None:
    assert store_of_thirty.find(episode(3).id) == episode(3)
    for prefix in ("", "zz", "' OR 1=1 --", episode(3).id + "0"):
        assert store_of_thirty.find(prefix) is None


# --- the same whatever the order


def test_the_fingerprint_depends_on_the_episodes_alone(tmp_path: Path) -> None:
    records = [(At(n), episode(n)) for n in range(40)] + [(At(40), episode(7, "changed", removed=True))]
    prints = []
    for seed, size, rows in ((0, 41, 1000), (1, 5, 12), (2, 7, 20)):
        order = records[:40]
        random.Random(seed).shuffle(order)
        order = [(At(n), one) for n, (_, one) in enumerate([*order, records[40]])]
        with WritableEpisodeStore.open(tmp_path / str(seed), INFO, segment_rows=rows) as store:
            for start in range(0, len(order), size):
                store.record(order[start : start + size])
            if seed == 1:
                store.compact()
            prints.append(fingerprint(store))
    assert prints[0] == prints[1] == prints[2]
    assert len(prints[0]) == 40
    with WritableEpisodeStore.open(tmp_path / "other", INFO) as store:
        store.record([*records[:40], (At(40), episode(7, "changed otherwise", removed=True))])
        assert sum(one != other for one, other in zip(fingerprint(store), prints[0], strict=True)) == 1


# --- other processes

READER = """
import json, sys
from pathlib import Path
from stores.episodes import EpisodeStore
from stores.episodes.engine import lean_import
lean_import()
with EpisodeStore.open(Path(sys.argv[1])) as store:
    for line in sys.stdin:
        print(json.dumps([store.count(), [hit.id for hit in store.search_text(line.strip(), limit=3)]]), flush=True)
"""


def test_a_reader_in_another_process_sees_each_commit_at_once(store: WritableEpisodeStore, tmp_path: Path) -> None:
    command = [sys.executable, "-c", READER, str(tmp_path / "episodes")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None

        def ask(question: str) -> list[object]:
            reader.stdin.write(question + "\n")  # type: ignore[union-attr]
            reader.stdin.flush()  # type: ignore[union-attr]
            return list(json.loads(reader.stdout.readline()))  # type: ignore[union-attr]

        assert ask("number 3") == [0, []]
        store.record(batch(0, 10))
        assert ask("3") == [10, [episode(3).id]]
        store.record(batch(10, 60))
        assert ask("66") == [70, [episode(66).id]]
        store.record(batch(70, 5))
        store.compact()
        assert ask("71") == [75, [episode(71).id]]
        reader.stdin.close()
        assert reader.wait() == 0


# --- upkeep


def test_compaction_bounds_fragments_and_disk(tmp_path: Path) -> None:
    with WritableEpisodeStore.open(tmp_path / "episodes", INFO, keep=SOON) as store:
        sizes = []
        for cycle in range(6):
            for n in range(8):
                store.record(batch(100 * cycle + 10 * n, 10))
            store.compact()
            store.compact()
            sizes.append((store.stats().fragments, store.stats().disk_bytes / store.count()))
        assert all(fragments <= 2 for fragments, _ in sizes)
        assert sizes[-1][1] < 1.5 * sizes[0][1]


def test_compaction_comes_by_itself_and_changes_nothing(tmp_path: Path) -> None:
    steps: list[str] = []
    with WritableEpisodeStore.open(tmp_path / "episodes", INFO, keep=SOON, reached=steps.append) as store:
        for n in range(30):
            store.record(batch(2 * n, 2))
        expected = fingerprint(store)
    assert "optimized" in steps
    with EpisodeStore.open(tmp_path / "episodes") as reader:
        assert fingerprint(reader) == expected
        assert reader.stats().fragments < 30
        assert [hit.id for hit in reader.search_text("number 41", limit=1)] == [episode(41).id]


def test_appends_and_updates_go_on_during_compaction(tmp_path: Path) -> None:
    with WritableEpisodeStore.open(tmp_path / "episodes", INFO, segment_rows=150, keep=SOON) as store:
        store.record([(At(n), episode(n, status="pending")) for n in range(40)])
        for n in range(30):
            store.record([*batch(100 + 10 * n, 10), (At(900 + n), episode(n))])
        assert store.count() == 340
        assert len({json.loads(line)["id"] for line in fingerprint(store)}) == 340
        assert len(store.search_text("number", limit=1000)) == 330


def test_a_compaction_that_fails_is_reported_and_tried_again_later(
    store: WritableEpisodeStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store.record(batch(0, 3))

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("disk full")

    monkeypatch.setattr("stores.episodes.segment.Segment.optimize", fail)
    store.compact()
    assert "could not be compacted" in caplog.text
    assert store.record(batch(3, 3)) == [Effect.INSERTED] * 3
    assert store.count() == 6
