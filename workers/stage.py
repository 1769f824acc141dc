"""What a stage is. Stages know nothing of brokers; drivers know nothing of stages but this.

A **stage** takes a batch of deliveries and returns an outcome: messages to emit, refusals, and what it counted. A
**stateful stage** is made anew for each input partition, sees that partition in order, and its state is a value: drivers
take ``snapshot()`` now and then and hand it to ``restore()`` later, in the same or another process. Its fold must depend on
nothing but the records and their order — not on how they were cut into batches — because a restart replays the records
since the last snapshot and throws the emissions away that were already committed.

A **sink** is a stage that writes a store. Its effects must be idempotent: a driver may deliver a batch again after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from schemas.base import Contract
from schemas.topics import Topic


@dataclass(frozen=True, slots=True)
class Position:
    """Where a record stands in the log."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """One decoded record. ``timestamp_ms`` is the log's own time of arrival; ``message`` the contract of the topic; ``trace`` the
    record's ``traceparent``, which decides nothing."""

    position: Position
    key: bytes | None
    message: Any
    timestamp_ms: int
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Emission:
    """A message for the log. ``message_id`` is deterministic: the same input emits the same id."""

    topic: Topic
    key: str
    message: Contract
    message_id: str
    ts_ms: int
    """Event time in Unix milliseconds; becomes the ``ce_time`` header."""
    trace: str | None = None
    """The ``traceparent`` of the record that brought it about."""


def caused(delivery: Delivery, emissions: Sequence[Emission]) -> Sequence[Emission]:
    """What a record brought about, with that record's trace."""
    return emissions if delivery.trace is None else [replace(one, trace=delivery.trace) for one in emissions]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A delivery that decoded but cannot be processed; becomes a dead letter."""

    position: Position
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch. ``processed + duplicates + late + len(refusals)`` equals the batch (law 5).

    ``late`` records were kept but not learned from.
    """

    emissions: Sequence[Emission] = ()
    refusals: Sequence[Refusal] = ()
    processed: int = 0
    duplicates: int = 0
    late: int = 0
    counts: dict[str, int] = field(default_factory=dict)


@runtime_checkable
class Stage(Protocol):
    """A named step of the pipeline over batches."""

    name: str
    inputs: tuple[Topic, ...]
    outputs: tuple[Topic, ...]

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        """Process a batch. Raises only when the stage cannot go on (a store is gone); bad records become refusals."""
        ...


@runtime_checkable
class StatefulStage(Stage, Protocol):
    """A stage whose state is a value, one instance an input partition, one input topic."""

    def snapshot(self) -> bytes:
        """The whole state."""
        ...

    def restore(self, state: bytes) -> None:
        """Take up a state that ``snapshot`` gave. Raises ValueError when it is not one of ours."""
        ...
