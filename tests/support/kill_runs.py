"""Runs the test pipeline in children that end themselves with SIGKILL at a named step; started by ``tests/faults``.

Reads a JSON list of scenarios from standard input: ``{"log", "store", "kills": [[stage, point, nth], ...]}``. For each kill it
forks a child that works on the log until that step comes for the n-th time; stage and point ``*`` match any. Writes, as JSON, how
each child ended: ``-9`` for killed, ``0`` for done before it came to that. A fork, because importing the program costs more than
a run.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from streams.embedded.driver import EmbeddedDriver
from streams.embedded.log import EmbeddedLog
from tests.support.streams import Store, pipeline, ticking


class Killer:
    """A hook that ends the process, hard, when a step comes for the n-th time."""

    def __init__(self, stage: str, point: str, nth: int) -> None:
        self._stage, self._point, self._left = stage, point, nth

    def __call__(self, stage: str, point: str) -> None:
        if self._stage in ("*", stage) and self._point in ("*", point):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def work(log_path: str, store_path: str, killer: Killer) -> None:
    """Run the pipeline until it is idle or killed."""
    store = Store(store_path)
    with EmbeddedLog(log_path, clock_ms=ticking()) as log:
        slots = pipeline(store)
        with EmbeddedDriver(log, slots, batch_records=8, checkpoint_records=10, reached=killer) as driver:
            driver.run_until_idle()
    store.close()


def child(log_path: str, store_path: str, kill: tuple[str, str, int]) -> int:
    """How the child ended."""
    pid = os.fork()
    if pid == 0:
        try:
            work(log_path, store_path, Killer(*kill))
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def main() -> None:
    """Run the scenarios."""
    scenarios = json.load(sys.stdin)
    ends = [[child(one["log"], one["store"], tuple(kill)) for kill in one["kills"]] for one in scenarios]
    json.dump(ends, sys.stdout)


if __name__ == "__main__":
    main()
