"""The insight writer killed at every step of its protocol, and a zombie that wakes up too late.

Each child process works through the same records and is killed by SIGKILL at one step of one batch. Its driver had not committed
that batch, so whoever comes next is given it again. What is left at the end must equal an undisturbed run: insights, history,
indexes, offsets, announcements; and what is said of the batch must equal what was said of it undisturbed.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from schemas.insights import OperationKind
from stores.sqlite import FencedOut, WritableInsightStore
from streams.stages.writer import STEPS, InsightWriter
from tests.support.sqlite import MODEL, HashEmbedder, everything, summed, writing
from tests.support.writer_kills import BATCHES
from workers.stage import Outcome

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
KILLS = [(step, 1 + place % 3) for place, step in enumerate(STEPS)]

Run = tuple[list[Outcome], dict[str, Any]]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    with writing(tmp_path_factory.mktemp("undisturbed") / "store.db") as store:
        writer = InsightWriter(store, HashEmbedder())
        return [writer.handle(batch) for batch in BATCHES], everything(store)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Path]:
    """A store for each kill, as the killed process left it."""
    folder = tmp_path_factory.mktemp("killed")
    paths = {kill: folder / f"{kill[0]}.db" for kill in KILLS}
    scenarios = json.dumps([(str(path), *kill) for kill, path in paths.items()])
    command = [sys.executable, "-m", "tests.support.writer_kills"]
    done = subprocess.run(command, input=scenarios, capture_output=True, text=True, cwd=ROOT, check=True)
    assert json.loads(done.stdout) == [-signal.SIGKILL] * len(KILLS)
    return paths


def test_the_records_are_worth_being_killed_for(undisturbed: Run) -> None:
    processed, duplicates, refusals, counts = summed(undisturbed[0])
    assert set(counts) == {*get_args(OperationKind), "signal.drift", "use"}
    assert processed > 40
    assert duplicates > 5
    assert {one.reason for one in refusals} == {"already_exists", "unknown_insight", "forgotten", "cannot_correct", "not_archived"}


@pytest.mark.parametrize(("step", "batch"), KILLS)
def test_killed_at(step: str, batch: int, killed: dict[tuple[str, int], Path], undisturbed: Run) -> None:
    outcomes, expected = undisturbed
    with writing(killed[step, batch]) as store:
        kept = batch + 1 if step == "committed" else batch
        assert store.next_offsets() == {
            (one.position.topic, one.position.partition): one.position.offset + 1 for records in BATCHES[:kept] for one in records
        }
        writer = InsightWriter(store, HashEmbedder())
        assert [writer.handle(records) for records in BATCHES[batch:]] == outcomes[batch:]
        assert everything(store) == expected


@pytest.mark.parametrize("step", ["planned", "committed"])
def test_a_zombie_writes_nothing(step: str, tmp_path: Path, undisturbed: Run) -> None:
    """While a writer stands still — after planning a batch, or between two — its lock is lost and an heir does all the work."""
    path = tmp_path / "store.db"
    heirs: list[WritableInsightStore] = []

    def overtaken(name: str) -> None:
        if name == step and not heirs:
            path.with_name("store.db.writer.lock").unlink()
            heirs.append(WritableInsightStore.open(path, MODEL))
            heir = InsightWriter(heirs[0], HashEmbedder())
            for records in BATCHES:
                heir.handle(records)

    with writing(path) as store:
        zombie = InsightWriter(store, HashEmbedder(), step=overtaken)
        if step == "committed":
            assert zombie.handle(BATCHES[0]) == undisturbed[0][0]
        with pytest.raises(FencedOut, match="taken over"):
            zombie.handle(BATCHES[1 if step == "committed" else 0])
        with heirs[0] as heir:
            assert everything(heir) == undisturbed[1]
