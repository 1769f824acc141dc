"""The small pipeline on Kafka on a thread of the test's own process, watched; and a stranger who joins one of its groups."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gateway.metrics.cluster import ClusterWatch
from gateway.metrics.meter import Meter
from gateway.metrics.observe import Observation
from schemas.settings import Settings
from schemas.topics import EPISODES_RECORDED
from streams.embedded.worker import StageSlot
from streams.kafka.app import create_app, run_app
from streams.kafka.log import KafkaLog
from streams.kafka.member import consumer_arguments
from streams.kafka.standing import Standing
from tests.support.kafka import stages_of

PATIENCE_S = 60.0


def within(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns that runs on another thread's loop."""
    return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_S)


@contextmanager
def workers_on_kafka(
    settings: Settings, slots: Sequence[StageSlot], clock: Callable[[], float]
) -> Iterator[tuple[KafkaLog, asyncio.AbstractEventLoop, Observation]]:
    """Run the slots until the end of the block; the cluster's log, the loop that they run on, and what is seen of them."""
    standings: dict[str, Standing] = {}
    watch = ClusterWatch(settings, stages_of(slots), standings, clock)
    meter = Meter(watch.take)
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def work() -> None:
        await run_app(create_app(settings, slots, on_progress=meter.take, standings=standings), settings, stop)

    thread = threading.Thread(target=lambda: loop.run_until_complete(work()))
    thread.start()
    watch.start()
    try:
        with KafkaLog(settings) as log:
            yield log, loop, Observation(watch, watch, meter, [watch], unready=watch.unready)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_S)
        watch.close()
        loop.close()


class Stranger:
    """A consumer that has joined the group of the stage ``store`` and reads nothing."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._consumer = within(loop, self._join(settings))

    @staticmethod
    async def _join(settings: Settings) -> Any:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(EPISODES_RECORDED.name, **consumer_arguments(settings, "store"))
        await consumer.start()
        while not consumer.assignment():
            await asyncio.sleep(0.05)
        return consumer

    def leave(self) -> None:
        """Leave the group."""
        within(self._loop, self._consumer.stop())
