"""kill -9 at every step of the episode store's protocol: nothing lost, nothing doubled, the same answers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stores.episodes import EpisodeStore, WritableEpisodeStore
from stores.episodes.writable import STEPS
from tests.support.episode_kills import log, run
from tests.support.episodes import INFO

ROOT = Path(__file__).parents[2]
KILLS = [
    ("purged", 1), ("judged", 2), ("added", 2), ("recorded", 1), ("replaced", 2), ("optimizing", 3), ("begun", 1), ("optimized", 1),
    ("optimizing", 9), ("committed", 4), ("added", 1), ("replaced", 1),
]  # fmt: skip


def killed(folder: Path, kills: list[tuple[str, int]]) -> list[int]:
    command = [sys.executable, "-m", "tests.support.episode_kills"]
    order = json.dumps({"folder": str(folder), "kills": kills})
    return list(json.loads(subprocess.run(command, cwd=ROOT, input=order, stdout=subprocess.PIPE, text=True, check=True).stdout))


def contents(folder: Path) -> tuple[list[bytes], list[str], int]:
    with EpisodeStore.open(folder / "episodes") as store:
        ids = [json.loads(line)["id"] for line in store.fingerprint_parts()]
        assert len(ids) == len(set(ids)) == store.count()
        found = len(store.search_text("number well", limit=1000))
        return list(store.fingerprint_parts()), json.loads((folder / "progress.json").read_text())["answers"], found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], list[str], int]:
    folder = tmp_path_factory.mktemp("undisturbed")
    run(folder, lambda step: None)
    return contents(folder)


@pytest.mark.faults
def test_a_killed_writer_goes_on_as_if_nothing_had_been(tmp_path: Path, undisturbed: tuple[list[bytes], list[str], int]) -> None:
    assert {step for step, _ in KILLS} >= set(STEPS)
    ends = killed(tmp_path, [*KILLS, ("-", 1)])
    assert ends == [-signal.SIGALRM if step == "optimizing" else -signal.SIGKILL for step, _ in KILLS] + [0]
    assert contents(tmp_path) == undisturbed
    assert len(undisturbed[1]) == len(log())


@pytest.mark.faults
def test_what_a_killed_compaction_leaves_is_removed(tmp_path: Path) -> None:
    run(tmp_path, lambda step: None)
    (table,) = (tmp_path / "episodes").glob("episodes-000002*.lance")
    data = table / "data"
    stray = data / "0123456789abcdef.lance"
    sound = sorted(data.iterdir())
    stray.write_bytes(sound[0].read_bytes())
    (tmp_path / "episodes" / "writer.lock").write_text("12345\n")
    for _ in range(2):
        with WritableEpisodeStore.open(tmp_path / "episodes", INFO) as store:
            count = store.count()
        assert not stray.exists()
        assert count == 150


@pytest.mark.faults
def test_a_store_behind_the_log_says_from_where_to_read_again(
    tmp_path: Path, undisturbed: tuple[list[bytes], list[str], int]
) -> None:
    """As after a power loss: the driver had committed what the store has lost."""
    records = log()
    with WritableEpisodeStore.open(tmp_path / "episodes", INFO) as store:
        store.record(records[:40])
        needed = store.next_offsets()[0]
        assert needed <= 40
        store.record(records[needed:])
        assert list(store.fingerprint_parts()) == undisturbed[0]
