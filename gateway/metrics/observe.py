"""Puts the meter, the parts and the port together around a running driver."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from gateway.metrics import catalogue
from gateway.metrics.collector import BrainCollector, Part, Sample
from gateway.metrics.health import Health, judge, look
from gateway.metrics.log_part import LogPart, WatchedLog
from gateway.metrics.meter import Meter
from gateway.metrics.server import MetricsServer
from schemas.errors import BrainError
from schemas.settings import Settings

LOGGER = logging.getLogger(__name__)


class InfoPart:
    """What is running."""

    name = "info"

    def __init__(self, model: str, sqlite: str) -> None:
        self._labels = (_version(), model, sqlite)

    def samples(self) -> Iterator[Sample]:
        """One sample that only has labels."""
        yield Sample(catalogue.INFO, self._labels, 1)


def _version() -> str:
    try:
        return version("defi-brain")
    except PackageNotFoundError:
        return "unknown"


def make_registry(parts: Sequence[Part]) -> CollectorRegistry:
    """A registry of its own over the parts and the process: nothing is global, so a process may have several."""
    registry = CollectorRegistry()
    registry.register(BrainCollector(parts))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class Working(Protocol):
    """Whatever runs stages."""

    def in_process(self) -> Mapping[str, int]:
        """Records in hand by stage, for each stage that it runs."""
        ...


class Observation:
    """A driver under observation: its registry, and its health. ``unready`` gives what else speaks against being ready."""

    def __init__(
        self,
        log: WatchedLog,
        driver: Working,
        meter: Meter,
        parts: Sequence[Part] = (),
        *,
        stall_s: float = 60.0,
        behind_s: float = 60.0,
        clock: Callable[[], float] = time.time,
        unready: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._log = log
        self._driver = driver
        self._meter = meter
        self._clock = clock
        self._stall_s = stall_s
        self._behind_s = behind_s
        self._unready = unready
        log_part = LogPart(log, driver.in_process, meter.last_commits, meter.started_s, clock)
        self.registry = make_registry((log_part, meter, *parts))

    def health(self) -> Health:
        """How it is now. Raises what the log raises when it cannot be read."""
        stages = look(self._log.lags(), self._driver.in_process(), self._meter.last_commits(), self._meter.started_s, self._clock())
        found = judge(stages, stall_s=self._stall_s, behind_s=self._behind_s)
        more = self._unready()
        return replace(found, ready=False, problems=(*found.problems, *more)) if more else found


@contextmanager
def serve(observation: Observation, settings: Settings) -> Iterator[MetricsServer | None]:
    """The metrics port of the settings, open within the block; None where they want none.

    Raises:
        BrainError: the address cannot be had.
    """
    if not settings.metrics_port:
        yield None
        return
    with MetricsServer(observation.registry, observation.health, settings.metrics_port, settings.metrics_host) as server:
        yield server


@contextmanager
def watched_alone(settings: Settings, parts: Sequence[Part]) -> Iterator[MetricsServer | None]:
    """The metrics port of a process that runs no stage: it answers questions, or it does not answer at all.

    Where another process of the same settings has the port, this one goes without, and says so in its log.
    """
    if not settings.metrics_port:
        yield None
        return
    with ExitStack() as stack:
        server: MetricsServer | None = None
        try:
            opened = MetricsServer(make_registry(parts), _well, settings.metrics_port, settings.metrics_host)
            server = stack.enter_context(opened)
        except BrainError as error:
            LOGGER.warning("no metrics of this process: %s", error)
        yield server


def _well() -> Health:
    return Health(alive=True, ready=True, problems=(), stages={})
