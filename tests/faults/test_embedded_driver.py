"""kill -9 at every step of the commit protocol: what comes out equals an undisturbed run, nothing lost, nothing twice."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streams.embedded.driver import EmbeddedDriver
from streams.embedded.log import EmbeddedLog
from tests.support.streams import Store, contents, fill, outcomes, pipeline, ticking

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
STEPS = [
    ("episodes", "handled"), ("episodes", "in-transaction"), ("episodes", "committed"),
    ("sums", "handled"), ("sums", "in-transaction"), ("sums", "committed"), ("sums", "snapshot"),
    ("store", "handled"), ("store", "in-transaction"), ("store", "committed"),
    ("store", "relay-in-transaction"), ("store", "relay-appended"), ("store", "relay-marked"),
]  # fmt: skip


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with input that no stage has read."""
    path = tmp_path_factory.mktemp("filled") / "log.db"
    with EmbeddedLog(path, clock_ms=ticking()) as log:
        fill(log, 60)
    return path


def finish(folder: Path) -> tuple[object, object, object, int]:
    """Run to the end; everything that must come out the same."""
    store = Store(folder / "store.db")
    with EmbeddedLog(folder / "log.db", clock_ms=ticking()) as log:
        with EmbeddedDriver(log, pipeline(store), batch_records=8, checkpoint_records=10) as driver:
            driver.run_until_idle()
        result = contents(log), outcomes(log), store.contents(), store.left()
    store.close()
    return result


def kill_runs(folders: list[Path], kills: list[list[tuple[str, str, int]]]) -> list[list[int]]:
    """Let children work on each folder's log and be killed; how each ended."""
    scenarios = [
        {"log": str(folder / "log.db"), "store": str(folder / "store.db"), "kills": kill}
        for folder, kill in zip(folders, kills, strict=True)
    ]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.kill_runs"], input=json.dumps(scenarios), capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    ends: list[list[int]] = json.loads(done.stdout)
    assert all(end in (0, -9) for run in ends for end in run), done.stderr
    return ends


def copies(filled: Path, tmp_path: Path, count: int) -> list[Path]:
    folders = [tmp_path / str(n) for n in range(count)]
    for folder in folders:
        folder.mkdir()
        shutil.copy(filled, folder / "log.db")
    return folders


def test_a_kill_at_each_step_changes_nothing(filled: Path, tmp_path: Path) -> None:
    """Twice at each step, the second time in the run that resumes from the first."""
    undisturbed, *folders = copies(filled, tmp_path, len(STEPS) + 1)
    expected = finish(undisturbed)
    ends = kill_runs(folders, [[(stage, point, 2), (stage, point, 1)] for stage, point in STEPS])
    for (stage, point), folder, end in zip(STEPS, folders, ends, strict=True):
        assert end == [-9, -9], f"{stage} never came to {point}"
        assert finish(folder) == expected, f"killed at {stage} {point}"


def test_kills_at_random_steps_change_nothing(filled: Path, tmp_path: Path) -> None:
    """Runs that are killed again and again, each time after some more steps of any stage."""
    random.seed(20260101)
    undisturbed, *folders = copies(filled, tmp_path, 5)
    expected = finish(undisturbed)
    kills = [[("*", "*", random.randint(1, 25)) for _ in range(8)] for _ in folders]
    ends = kill_runs(folders, kills)
    assert sum(end == -9 for run in ends for end in run) > 15
    for folder in folders:
        assert finish(folder) == expected
