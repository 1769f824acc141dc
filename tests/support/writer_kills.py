"""Runs the insight writer in children that end themselves with SIGKILL at a named step; started by ``tests/faults/test_writer.py``.

Reads a JSON list of ``[path, step, batch]`` from standard input and forks a child for each, which handles the batches in order
until that step of that batch comes. Writes, as JSON, how each child ended: ``-9`` for killed. A fork, because importing the program
costs more than a run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from stores.sqlite import WritableInsightStore
from streams.stages.writer import InsightWriter
from tests.support.sqlite import MODEL, HashEmbedder, cut, in_log, workload

BATCHES = cut(in_log(workload(seed=11, count=120)), 30)


def run_and_die(path: Path, step: str, batch: int) -> None:
    """Handle the batches in order and end the process at a step of one of them."""
    number = 0

    def die(name: str) -> None:
        if (name, number) == (step, batch):
            os.kill(os.getpid(), signal.SIGKILL)

    with WritableInsightStore.open(path, MODEL) as store:
        writer = InsightWriter(store, HashEmbedder(), step=die)
        for number, records in enumerate(BATCHES):  # noqa: B007 (the hook reads it)
            writer.handle(records)


def main() -> None:
    """Run the scenarios."""
    ends = []
    for path, step, batch in json.load(sys.stdin):
        pid = os.fork()
        if pid == 0:
            run_and_die(Path(path), step, batch)
            os._exit(0)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    print(json.dumps(ends))


if __name__ == "__main__":
    main()
