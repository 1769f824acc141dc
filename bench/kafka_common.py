"""What the measurements on Kafka share: markets, settings, and processes that answer."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from gateway.kafka import INPUTS, WORKERS
from schemas.events import ToolExecution
from schemas.settings import Settings
from streams.kafka.client import group_of
from streams.kafka.log import KafkaLog
from streams.publisher import Publisher
from streams.sources.market import simulate

SEED = 3


def market(events: int) -> Iterator[ToolExecution]:
    """A simulated market whose ids no other call gives."""
    prefix = uuid.uuid4().hex[:8]
    for event in simulate(SEED, events):
        yield event.model_copy(update={"event_id": f"{prefix}-{event.event_id}", "tx_hash": None})


def publish(settings: Settings, events: Iterator[ToolExecution]) -> None:
    """Publish all of them."""
    with KafkaLog(settings) as log:
        publisher = Publisher(log)
        while batch := list(islice(events, 500)):
            publisher.publish_many(batch)


def ends(settings: Settings, topic: str) -> dict[int, int]:
    """The ends of a topic's partitions."""
    with KafkaLog(settings) as log:
        return log.end_offsets(topic)


def fresh(base: Settings, folder: Path, **changes: Any) -> Settings:
    """Settings with consumer groups that have read nothing, and a new data folder."""
    name = f"bench-{uuid.uuid4().hex[:6]}"
    return base.model_copy(update={"kafka_app": name, "data_dir": folder / name, **changes})


def renewed(base: Settings, folder: Path, **changes: Any) -> Settings:
    """Settings with consumer groups that have read all there is, and a new data folder."""
    settings = fresh(base, folder, **changes)
    with KafkaLog(settings) as log:
        for role in WORKERS:
            for topic in INPUTS[role]:
                log.commit(group_of(settings, role), {(topic.name, p): end for p, end in log.end_offsets(topic.name).items()})
    return settings


class Measuring:
    """A measurement in a process of its own. What it complains about goes to a file: a pipe that nobody reads would fill up."""

    def __init__(self, settings: Settings, what: str, argument: str) -> None:
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the answer
        command = [sys.executable, "-m", "bench.kafka_parts", what, argument]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(settings.plain()))
        self.process.stdin.close()
        self.process.stdin = None

    @property
    def ended(self) -> bool:
        """Whether it has ended, well or not."""
        return self.process.poll() is not None

    def answer(self) -> dict[str, float]:
        """What it found, when it has ended."""
        out, _ = self.process.communicate()
        with self._errors as errors:
            errors.seek(0)
            complaints = errors.read()
        if self.process.returncode:
            raise RuntimeError(complaints[-3000:])
        found: dict[str, float] = json.loads(out.splitlines()[-1])
        return found


def measured(settings: Settings, what: str, argument: str) -> dict[str, float]:
    """Run a measurement and read what it found."""
    return Measuring(settings, what, argument).answer()
