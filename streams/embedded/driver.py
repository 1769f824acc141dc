"""The embedded driver: one process runs every stage over one log.

Stages that compute outside the interpreter or wait for a store have a thread each (``StageSlot.threaded``); the others take turns
on the thread that calls ``run``. Nothing sleeps on a guess: whoever has nothing to do waits for the log to change.

The first stage that raises stops the driver: the others finish and commit the batch they are at, then the error comes out of
``run``. Bad *records* never get that far; they are dead letters (``streams/embedded/worker.py``).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self

from schemas.errors import BrainError
from streams.embedded.feed import Feed
from streams.embedded.lease import DriverLease
from streams.embedded.log import EmbeddedLog
from streams.embedded.worker import Hook, Progress, StageSlot, StageWorker

_STOP_LOOK_S = 0.25
"""How often the driver's thread looks whether it is to stop while there is nothing to do."""
_WAIT_S = 5.0
"""How long the other threads wait at a time; the driver's thread wakes them when they are to stop."""


class StageFailed(BrainError):
    """A stage raised; the cause is chained. What was committed before is kept."""

    def __init__(self, stage: str, cause: BaseException) -> None:
        hint = getattr(cause, "hint", None) or "see the cause; the records stay in the log and are taken up at the next start"
        super().__init__(f"stage {stage} failed: {type(cause).__name__}: {cause}", hint=hint)
        self.stage = stage


class Stop(Protocol):
    """``threading.Event``, ``asyncio.Event``, or anything else that says when it is over."""

    def is_set(self) -> bool:
        """Whether to stop."""
        ...


class EmbeddedDriver:
    """Runs ``slots`` over ``log``. Takes the log's driver lease until it is closed.

    ``batch_records`` is how many records a stage takes at once; ``checkpoint_records`` how many lie between two snapshots of a
    stateful stage's partition. ``on_progress`` is called after every step that did something, by one thread at a time. ``reached``
    is called at each step of the commit protocol; it is for tests.

    Raises:
        DriverBusy: another process runs the stages of this log.
        LogMismatch: a sink's store belongs to another log.
        ValueError: two stages of one name.
    """

    def __init__(
        self,
        log: EmbeddedLog,
        slots: Sequence[StageSlot],
        *,
        batch_records: int = 256,
        checkpoint_records: int = 2000,
        on_progress: Callable[[Progress], None] | None = None,
        reached: Hook | None = None,
    ) -> None:
        self._log = log
        self._on_progress = on_progress
        self._progress_lock = threading.Lock()
        self._halt = threading.Event()
        self._failure: BaseException | None = None
        self._lease: DriverLease = log.lead()
        try:
            self._workers = [
                StageWorker(
                    slot,
                    log,
                    self._lease,
                    batch_records=batch_records,
                    checkpoint_records=checkpoint_records,
                    on_progress=self._tell,
                    reached=reached or _nothing,
                )
                for slot in slots
            ]
            twice = [name for name, count in Counter(worker.name for worker in self._workers).items() if count > 1]
            if twice:
                raise ValueError(f"two stages are called {twice[0]}: offsets and snapshots are kept by name")
        except BaseException:
            self._lease.close()
            raise
        self._feed = Feed(log, Counter(topic.name for worker in self._workers for topic in worker.inputs))

    def run_until_idle(self) -> None:
        """Work until every stage has read all there is, what other stages emit meanwhile included, and every outbox is empty.

        Raises:
            StageFailed: a stage raised.
        """
        self._run(self._idle)

    def run(self, stop: Stop) -> None:
        """Work until ``stop`` is set; records are taken as they come.

        Raises:
            StageFailed: a stage raised.
        """
        self._run(stop.is_set, even_if_busy=True)

    def in_process(self) -> dict[str, int]:
        """How many records each stage has taken and not committed yet. Any thread may ask."""
        return {worker.name: worker.in_hand for worker in self._workers}

    def close(self) -> None:
        """Let another driver in."""
        self._lease.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _run(self, over: Callable[[], bool], *, even_if_busy: bool = False) -> None:
        if self._failure is not None:
            raise BrainError("this driver has failed before; make a new one") from self._failure
        self._halt.clear()
        threads = [
            threading.Thread(target=self._own_thread, args=(worker,), name=f"stage-{worker.name}")
            for worker in self._workers
            if worker.threaded
        ]
        for thread in threads:
            thread.start()
        try:
            self._take_turns([worker for worker in self._workers if not worker.threaded], over, even_if_busy)
        except BaseException as error:
            self._failure = error  # an interrupt may have left a stage in the middle of a batch
            raise
        finally:
            self._halt.set()
            self._log.notify()
            for thread in threads:
                thread.join()
        if self._failure is not None:
            raise self._failure
        for worker in self._workers:
            worker.save()

    def _take_turns(self, workers: Sequence[StageWorker], over: Callable[[], bool], even_if_busy: bool) -> None:
        while not self._halt.is_set():
            seen = self._log.changes()
            worked = [self._step(worker) for worker in workers]
            if (even_if_busy or not any(worked)) and over():
                return
            if not any(worked) and not self._halt.is_set():
                self._log.wait(seen, _STOP_LOOK_S)

    def _own_thread(self, worker: StageWorker) -> None:
        while True:
            seen = self._log.changes()  # before the look at halt: being told to stop counts as a change
            if self._halt.is_set():
                return
            was_busy = worker.busy
            if not self._step(worker):
                if was_busy:
                    self._log.notify()  # the driver's thread may be waiting for this one to become idle
                self._log.wait(seen, _WAIT_S)

    def _step(self, worker: StageWorker) -> bool:
        try:
            return worker.step(self._feed)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            failure = StageFailed(worker.name, error)
            failure.__cause__ = error
            self._failure = self._failure or failure
            self._halt.set()
            self._log.notify()
            return False

    def _idle(self) -> bool:
        """The lags are looked at twice: a stage that was seen idle may have committed, and fed another, just before."""
        return not self._lagging() and not any(worker.busy for worker in self._workers) and not self._lagging()

    def _lagging(self) -> bool:
        mine = {worker.name for worker in self._workers}
        return any(lag.records for lag in self._log.lags() if lag.kind == "stage" and lag.consumer in mine)

    def _tell(self, progress: Progress) -> None:
        if self._on_progress is not None:
            with self._progress_lock:
                self._on_progress(progress)


def _nothing(stage: str, point: str) -> None:
    """Outside tests nothing happens at the steps."""
