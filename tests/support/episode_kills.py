"""Writes a log of episodes into a store, in children that end themselves hard at a named step; started by ``tests/faults``.

Reads ``{"folder", "kills": [[step, nth], ...]}`` from standard input. For each kill it forks a child that goes on from where the
last one was committed, and dies by SIGKILL when that step comes for the n-th time; at ``optimizing`` it dies ``nth`` milliseconds
after the step, by an alarm that nobody handles, in the middle of LanceDB's work. The step ``-`` never comes. Writes how each child
ended. A fork, because importing LanceDB costs more than a run; the parent itself never uses it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from schemas.episodes import Episode, Forgotten, tombstone
from stores.episodes import WritableEpisodeStore
from stores.episodes.engine import lean_import
from tests.support.episodes import INFO, START, At, episode

BATCH = 7


def log(count: int = 150, seed: int = 11) -> list[tuple[At, Episode]]:
    """Episodes, a third of them pending first; some retracted, some sent twice, two forgotten."""
    draw = random.Random(seed)
    versions = [episode(n) for n in range(count)]
    for n in range(count):
        at = versions.index(episode(n))
        if n % 3 == 0:
            versions.insert(draw.randint(0, at), episode(n, "still open", status="pending"))
        if n % 11 == 0:
            versions.insert(draw.randint(at + 2, len(versions)), episode(n, "gone", removed=True))
        if n % 7 == 0:
            versions.insert(draw.randint(at + 1, len(versions)), episode(n))
    for n in (10, 140):
        gone = tombstone(episode(n), Forgotten(by="operator", reason="asked to", ts=START))
        versions.insert(versions.index(episode(n)) + 9, gone)
    return [(At(offset), one) for offset, one in enumerate(versions)]


def killer(step: str, nth: int) -> Callable[[str], None]:
    """A hook that ends the process, hard."""
    left = 1 if step == "optimizing" else nth

    def reached(name: str) -> None:
        nonlocal left
        left -= name == step
        if left == 0 and step == "optimizing":
            signal.setitimer(signal.ITIMER_REAL, nth / 1000)
        elif left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


def run(folder: Path, reached: Callable[[str], None]) -> None:
    """Go on from where the last run was committed."""
    progress = folder / "progress.json"
    state = json.loads(progress.read_text()) if progress.exists() else {"offset": 0, "answers": []}
    records = log()
    with WritableEpisodeStore.open(
        folder / "episodes", INFO, segment_rows=60, keep=timedelta(milliseconds=1), reached=reached
    ) as store:
        while state["offset"] < len(records):
            batch = records[state["offset"] : state["offset"] + BATCH]
            effects = store.record(batch)
            state["offset"] += len(batch)
            state["answers"] += ["processed" if effect != "duplicate" else "duplicate" for effect in effects]
            reached("recorded")
            temporary = folder / "progress.new"
            temporary.write_text(json.dumps(state))
            temporary.replace(progress)
            reached("committed")
            if state["offset"] % (10 * BATCH) == 0:
                store.compact()


def child(folder: Path, step: str, nth: int) -> int:
    """How the child ended."""
    pid = os.fork()
    if pid == 0:
        try:
            run(folder, killer(step, nth))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    lean_import()
    warnings.filterwarnings("ignore", message="lancedb fork support", category=RuntimeWarning)
    order = json.load(sys.stdin)
    json.dump([child(Path(order["folder"]), step, nth) for step, nth in order["kills"]], sys.stdout)
