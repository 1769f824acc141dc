"""Stages without state as Faust agents: a batch is handled, its outcomes stand in the log, and only then is it acknowledged.

What Faust does to the careless, and what is done here instead:

- An exception in an agent acknowledges the record. So nothing leaves the body: bad records become dead letters, and when the stage
  or the cluster fails the agent tells the application, which ends, and holds its records unacknowledged until it does.
- A hole in the acknowledgements does not hold the offset back. So there are no holes: every record of a batch is acknowledged, in
  order, or the process ends; one agent a partition, scaled by partitions.
- A codec that fails acknowledges, too. So the stream is raw bytes and decoding is ours.
- Work in the event loop misses heartbeats. So the stage runs in a thread.
- Faust's producer sends record by record. So ours sends (``streams/kafka/produce.py``), which keeps the order when a send fails.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from schemas.topics import BY_NAME
from streams.batch import Fed, accounted, checked, decoded
from streams.embedded.worker import Progress
from streams.kafka.member import Surroundings
from streams.kafka.produce import producer_arguments, send_all
from streams.log import Partition
from streams.record import Record
from streams.relay import to_record
from workers.stage import Outcome, Stage

if TYPE_CHECKING:
    from aiokafka import AIOKafkaProducer

WITHIN_S = 0.02
"""How long a batch waits to fill."""


class Agent:
    """A stage's agent. ``fail`` is called once, with what the stage or the cluster raised."""

    def __init__(self, stage: Stage, around: Surroundings, batch: int, fail: Callable[[str, BaseException], None]) -> None:
        self.stage = stage
        self.standing = around.standing(stage.name)
        self._around = around
        self._batch = batch
        self._fail = fail
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"stage-{stage.name}")
        self._producer: AIOKafkaProducer | None = None

    async def work(self, stream: Any) -> None:
        """The agent's body, for ``app.agent``."""
        async for events in stream.noack_take(self._batch, within=WITHIN_S):
            try:
                await self._process([_record_of(event) for event in events])
            except Exception as error:
                self._fail(self.stage.name, error)
                await asyncio.Event().wait()  # until the application has ended
            for event in events:
                await stream.ack(event)

    def assigned(self, partitions: Collection[Partition]) -> None:
        """The group gave out its partitions: these are ours."""
        self.standing.give(partitions, self._around.clock())

    def revoked(self) -> None:
        """The group gives out its partitions anew."""
        self.standing.take(self._around.clock())

    async def close(self) -> None:
        """Close the producer."""
        if self._producer is not None:
            await self._producer.stop()
        self._executor.shutdown(wait=False)

    async def _process(self, records: Sequence[Record]) -> None:
        name = self.stage.name
        started = time.perf_counter()
        self.standing.in_hand = len(records)
        batch, outcome = await asyncio.get_running_loop().run_in_executor(self._executor, self._handle, records)
        handled = time.perf_counter()
        self._around.reached(name, "handled")
        tally, letters = accounted(name, batch, [outcome])
        await send_all(await self._out(), [*(to_record(emission, name) for emission in outcome.emissions), *letters])
        self._around.reached(name, "sent")
        deliveries = [fed.delivery for fed in batch if fed.delivery is not None]
        taken = time.perf_counter() - handled
        self.standing.in_hand = 0
        self._around.on_progress(Progress(name, tally, outcome.emissions, 0, deliveries, handled - started, taken))

    def _handle(self, records: Sequence[Record]) -> tuple[list[Fed], Outcome]:
        batch = [decoded(BY_NAME[record.topic], record) for record in records]
        deliveries = [fed.delivery for fed in batch if fed.delivery is not None]
        return batch, checked(self.stage, self.stage.handle(deliveries), deliveries) if deliveries else Outcome()

    async def _out(self) -> AIOKafkaProducer:
        from aiokafka import AIOKafkaProducer

        if self._producer is None:
            producer = AIOKafkaProducer(**producer_arguments(self._around.settings))
            await producer.start()
            self._producer = producer
        return self._producer


def _record_of(event: Any) -> Record:
    """A Faust event as the record that it is: bytes that no codec has touched."""
    message = event.message
    return Record(
        message.topic,
        message.partition,
        message.offset,
        round(message.timestamp * 1000),
        message.key,
        message.value,
        tuple(message.headers or ()),
    )
