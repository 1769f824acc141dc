"""Seeing records through: working until every stage has read what is in the log, or waiting for those who work already.

Who works here also organises what was learned (``gateway/organiser.py``), once everything is read, and lets the stages read that as
well. Others who work already have an organiser beside them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from gateway.cli.live import Live
from gateway.cli.output import Progress
from gateway.process import settle_for_stores
from schemas.errors import BrainError
from schemas.settings import Settings
from schemas.topics import TOOLS_EXECUTED

if TYPE_CHECKING:
    from gateway.ingest import Published
    from gateway.kafka import AnyLog
    from streams.embedded.log import EmbeddedLog
    from streams.embedded.tallies import StageTally
    from streams.embedded.worker import Progress as Step
    from streams.kafka.log import KafkaLog

PATIENCE_S = 60.0
"""How long a running pipeline may stand still before a command stops waiting for it."""


class Pipeline(Protocol):
    """A log's pipeline, made before anything is published: what it has done by then is not counted."""

    def catch_up(self) -> None:
        """Until what others published before has been read as well: it would count as ours."""
        ...

    def see_through(self) -> Live:
        """Until every stage has read what is in the log now."""
        ...

    def account(self, published: Published) -> dict[str, object]:
        """What became of what was published."""
        ...


def pipeline_of(settings: Settings, log: AnyLog) -> Pipeline:
    """The pipeline of whichever log it is."""
    from streams.embedded.log import EmbeddedLog
    from streams.kafka.log import KafkaLog

    if isinstance(log, KafkaLog):
        return OnKafka(settings, log)
    assert isinstance(log, EmbeddedLog)
    return Embedded(settings, log)


class Embedded:
    """The embedded log's: the stages run here, unless an ``up`` runs them."""

    def __init__(self, settings: Settings, log: EmbeddedLog) -> None:
        self._settings = settings
        self._log = log
        self._before = log.tallies()

    def catch_up(self) -> None:
        """See :class:`Pipeline`."""
        if (
            sum(self._log.end_offsets(TOOLS_EXECUTED.name).values()) > sum(self._log.stage_offsets("embed").values())
            or self._waiting()
        ):
            self.see_through()
            self._before = self._log.tallies()

    def see_through(self) -> Live:
        """See :class:`Pipeline`."""
        from gateway.composition import open_pipeline
        from gateway.organiser import organise_once
        from streams.log import DriverBusy

        live = Live()
        settle_for_stores()
        try:
            with open_pipeline(self._settings, live.take) as pipeline:
                pipeline.driver.run_until_idle()
                if organise_once(self._settings, pipeline.log):
                    pipeline.driver.run_until_idle()
        except DriverBusy:
            wait_for_others(self._waiting, self._pause, f"the running pipeline (process {self._log.driver_pid()})")
        live.clear()
        return live

    def account(self, published: Published) -> dict[str, object]:
        """See :class:`Pipeline`; by the counts that the log keeps."""
        from gateway.ingest import outcome

        return outcome(published, self._before, self._log.tallies())

    def _waiting(self) -> int:
        return sum(lag.records for lag in self._log.lags() if lag.kind == "stage")

    def _pause(self) -> None:
        self._log.wait(self._log.changes(), 0.1)


class OnKafka:
    """A cluster's: all workers run here, unless some run already: then all must, and they are waited for."""

    def __init__(self, settings: Settings, log: KafkaLog) -> None:
        from gateway.ingest import Onlooker
        from gateway.kafka import ensure_unwritten, running_elsewhere

        self._settings = settings
        self._log = log
        self._others = running_elsewhere(settings)
        if not self._others:
            ensure_unwritten(settings)  # before anything is published
        self._onlooker = Onlooker(settings, log)
        self._tallies: dict[str, StageTally] = {}

    def catch_up(self) -> None:
        """See :class:`Pipeline`. What others' workers make of a record is looked up by its place, so they are not waited for."""
        if not self._others and self._waiting():
            self.see_through()
            self._tallies.clear()

    def see_through(self) -> Live:
        """See :class:`Pipeline`."""
        from gateway.kafka import run_workers
        from gateway.organiser import organise_once
        from streams.embedded.tallies import StageTally

        live = Live()
        settle_for_stores()
        if self._others:
            wait_for_others(self._waiting, lambda: time.sleep(0.2), f"the running workers ({', '.join(self._others)} among them)")
            return live

        def take(step: Step) -> None:
            self._tallies.setdefault(step.stage, StageTally()).add(step.tally)
            live.take(step)

        unwatched = self._settings.model_copy(update={"metrics_port": 0})
        run_workers(unwatched, on_progress=take, until_idle=True)
        if organise_once(self._settings, self._log):
            run_workers(unwatched, on_progress=take, until_idle=True)
        live.clear()
        return live

    def account(self, published: Published) -> dict[str, object]:
        """See :class:`Pipeline`; by what the workers here counted, or by what others left in the log and in the store."""
        from gateway.ingest import outcome

        return self._onlooker.account(published) if self._others else outcome(published, {}, self._tallies)

    def _waiting(self) -> int:
        from gateway.kafka import readers

        return sum(lag.records for lag in self._log.lags(readers()))


def wait_for_others(waiting: Callable[[], int], pause: Callable[[], None], who: str) -> None:
    """Until those who run the stages have read everything; they may stop in between, which is an error.

    A stage that reads without writing moves its lag and nothing else, so the lags are what is watched.
    """
    progress = Progress()
    before, moved_at = -1, time.monotonic()
    while left := waiting():
        progress.show(f"waiting for {who}: {left} records to go")
        if left != before:
            before, moved_at = left, time.monotonic()
        elif time.monotonic() - moved_at > PATIENCE_S:
            raise BrainError(
                f"{who}: nothing has moved for {PATIENCE_S:.0f} s; {left} records wait",
                hint="see defi-brain status; the records are safe and are taken up when it goes on",
            )
        pause()
    progress.clear()
