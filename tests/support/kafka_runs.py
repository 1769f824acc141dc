"""Runs the small pipeline of ``tests/support/streams.py`` on Kafka in processes of their own, some of which end themselves.

``python -m tests.support.kafka_runs`` reads a JSON object a line from standard input, ``{"settings", "store", "stages", "kill"}``.
For each it forks a child that runs those stages until all is read, or kills itself when the step ``kill`` (stage, point, nth; ``*``
for any) comes, and answers with how the child ended: ``-9`` killed, ``0`` done. A fork, because importing costs more than a run.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schemas.settings import Settings
from streams.embedded.worker import StageSlot
from streams.kafka.app import create_app, run_app, run_until_idle
from streams.kafka.member import Hook
from streams.relay import Relay
from tests.support.kafka import stages_of
from tests.support.kill_runs import Killer
from tests.support.streams import Episodes, Store, Sums

ROOT = Path(__file__).parents[2]
ALL = "episodes,sums,store"
STEPS = [
    ("episodes", "handled"), ("episodes", "sent"),
    ("sums", "handled"), ("sums", "sent"), ("sums", "committed"), ("sums", "snapshot"),
    ("store", "handled"), ("store", "committed"), ("store", "relay-sent"), ("store", "relay-marked"),
]  # fmt: skip


def slots_of(stages: str, store: str) -> list[StageSlot]:
    """The slots of the named stages, separated by commas."""
    slots = []
    for stage in stages.split(","):
        if stage == "episodes":
            slots.append(StageSlot(Episodes()))
        elif stage == "sums":
            slots.append(StageSlot(factory=Sums))
        else:
            sink = Store(store)
            slots.append(StageSlot(sink, relay=Relay(sink, batch=3)))
    return slots


async def work(settings: Settings, store: str, stages: str, reached: Hook) -> None:
    """Run the stages until all is read."""
    slots = slots_of(stages, store)
    await run_until_idle(create_app(settings, slots, reached=reached), settings, stages_of(slots), poll_s=0.1)


async def serve(settings: Settings, store: str, stages: str) -> None:
    """Run the stages until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await run_app(create_app(settings, slots_of(stages, store)), settings, stop)


def child(job: dict[str, Any]) -> int:
    """How a forked child ended."""
    pid = os.fork()
    if pid == 0:
        try:
            settings = Settings(**job["settings"])
            kill = job.get("kill")
            asyncio.run(work(settings, job["store"], job["stages"], Killer(*kill) if kill else lambda stage, point: None))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


class Runs:
    """The process that forks; ``run`` gives how a child ended."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.kafka_runs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def run(
        self, store: Path, kill: tuple[str, str, int] | None = None, stages: str = "episodes,sums,store", **more: object
    ) -> int:
        """Run stages in a child until all is read or it is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        plain = {**self._settings.plain(), **more}
        self._process.stdin.write(json.dumps({"settings": plain, "store": str(store), "stages": stages, "kill": kill}) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def worker(settings: Settings, store: Path, stages: str, **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs stages until it is told to stop (SIGTERM, at the latest at the end of the block)."""
    plain = json.dumps({**settings.plain(), **more})
    command = [sys.executable, "-m", "tests.support.kafka_runs", plain, str(store), stages]
    with store.with_name(f"worker-{time.monotonic_ns()}.log").open("wb") as told:  # a pipe that nobody reads would fill up
        process = subprocess.Popen(command, stderr=told, cwd=ROOT)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(timeout=60)
        finally:
            process.kill()


def main() -> None:
    """Fork children as asked, or serve."""
    if len(sys.argv) > 1:
        asyncio.run(serve(Settings(**json.loads(sys.argv[1])), sys.argv[2], sys.argv[3]))
        return
    for line in sys.stdin:
        print(child(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
