"""A small observed pipeline for tests, and readers of what it exports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from gateway.composition import Layout, open_sinks, stage_slots
from gateway.metrics.collector import Part
from gateway.metrics.meter import Meter
from gateway.metrics.observe import Observation
from gateway.metrics.stores_part import InsightsPart
from schemas.settings import Settings
from streams.embedded.driver import EmbeddedDriver
from streams.embedded.log import EmbeddedLog
from streams.embedded.worker import StageSlot
from tests.support.sqlite import HashEmbedder
from tests.support.streams import Store, pipeline


class Probe(NamedTuple):
    """An observed driver over a log of its own."""

    log: EmbeddedLog
    driver: EmbeddedDriver
    meter: Meter
    observation: Observation

    def value(self, name: str, **labels: str) -> float | None:
        """One sample's value; None where there is none."""
        return self.observation.registry.get_sample_value(name, labels)


@contextmanager
def probe(folder: Path, *, slots: Sequence[StageSlot] | None = None, parts: Sequence[Part] = ()) -> Iterator[Probe]:
    """The small pipeline of ``tests.support.streams`` (stages episodes, sums, store), observed by the wall clock."""
    meter = Meter()
    store = Store(folder / "store.db")
    with EmbeddedLog(folder / "log.db") as log:
        with EmbeddedDriver(log, slots or pipeline(store), batch_records=32, on_progress=meter.take) as driver:
            yield Probe(log, driver, meter, Observation(log, driver, meter, parts))
        store.close()


@contextmanager
def brain(folder: Path, *, relayed: bool = True) -> Iterator[tuple[Probe, InsightsPart]]:
    """The real stages and both stores, with an embedder that needs no model; its writer's outbox relayed or not."""
    settings, embedder, meter = Settings(data_dir=folder), HashEmbedder(), Meter()
    where = Layout(folder)
    with EmbeddedLog(settings.log_path) as log, open_sinks(where, embedder) as sinks:
        slots = stage_slots(settings, embedder, sinks)
        if not relayed:
            slots = [replace(slot, relay=None) for slot in slots]
        part = InsightsPart(where.insights)
        with EmbeddedDriver(log, slots, on_progress=meter.take) as driver:
            yield Probe(log, driver, meter, Observation(log, driver, meter, [part])), part
        part.close()


def series(registry: CollectorRegistry) -> dict[str, set[tuple[str, ...]]]:
    """Every sample name that a registry gives, with the sets of its labels' names."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for family in registry.collect():
        for sample in family.samples:
            found.setdefault(sample.name, set()).add(tuple(sample.labels))
    return found
