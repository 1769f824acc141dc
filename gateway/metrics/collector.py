"""The collector: asks each part of the brain for its samples when somebody scrapes, and not before.

A part that cannot be read (a store is locked, a folder has gone) costs its own metrics and one count of
``defi_brain_scrape_errors_total``, never the scrape.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from gateway.metrics import catalogue
from gateway.metrics.catalogue import Metric
from gateway.metrics.distribution import Shape

LOGGER = logging.getLogger(__name__)

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of a metric under its labels' values, in the order of the catalogue."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Shape


class Part(Protocol):
    """Something that has metrics."""

    name: str

    def samples(self) -> Iterable[Sample]:
        """What it is now. May raise: then the scrape goes on without it."""
        ...


class Cached:
    """A part that is read at most every ``keep_s`` seconds: for what is dear to count and slow to change."""

    def __init__(self, part: Part, keep_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = part.name
        self._part = part
        self._keep_s = keep_s
        self._clock = clock
        self._lock = threading.Lock()
        self._held: tuple[float, list[Sample]] | None = None

    def samples(self) -> list[Sample]:
        """The part's samples, or those of a moment ago."""
        with self._lock:
            now = self._clock()
            if self._held is None or now - self._held[0] >= self._keep_s:
                self._held = (now, list(self._part.samples()))
            return self._held[1]


class BrainCollector(Collector):
    """All parts, as one collector for a registry."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = tuple(parts)
        self._errors = dict.fromkeys((part.name for part in parts), 0)

    def describe(self) -> list[Family]:
        """Nothing: registering must not read the stores."""
        return []

    def collect(self) -> Iterator[Family]:
        """One family a metric, in the catalogue's order."""
        families: dict[str, Family] = {}
        for sample in self._gather():
            family = families.get(sample.metric.name)
            if family is None:
                family = families[sample.metric.name] = _family(sample.metric)
            _put(family, sample)
        yield from (families[metric.name] for metric in catalogue.METRICS if metric.name in families)

    def _gather(self) -> Iterator[Sample]:
        for part in self._parts:
            began = time.perf_counter()
            try:
                yield from list(part.samples())
            except Exception as error:  # whatever it is, the other parts can still be told
                self._errors[part.name] += 1
                LOGGER.warning("metrics of %s cannot be read: %s: %s", part.name, type(error).__name__, error)
            yield Sample(catalogue.SCRAPE_SECONDS, (part.name,), time.perf_counter() - began)
        for name, count in self._errors.items():
            yield Sample(catalogue.SCRAPE_ERRORS, (name,), count)


def _family(metric: Metric) -> Family:
    if metric.kind == "counter":
        return CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    if metric.kind == "gauge":
        return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    return HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)


def _put(family: Family, sample: Sample) -> None:
    if isinstance(family, HistogramMetricFamily):
        assert isinstance(sample.value, Shape)
        family.add_metric(sample.labels, buckets=list(sample.value.buckets), sum_value=sample.value.total)
    else:
        assert not isinstance(sample.value, Shape)
        family.add_metric(sample.labels, sample.value)
