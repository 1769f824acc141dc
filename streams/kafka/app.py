"""The pipeline on Kafka as one Faust application: ``create_app`` makes it, ``run_app`` runs it until it is told to stop.

Which driver a stage gets follows from what it is: a stateful stage is a fold, one that owns a store a sink (both read with
``getmany``, as services of the application), any other an agent. A process may run all stages or only some; folds and agents
share their partitions with other processes, a sink has its store for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from schemas.settings import Settings
from streams.embedded.driver import StageFailed
from streams.embedded.worker import Progress, StageSlot
from streams.kafka.agents import Agent
from streams.kafka.client import faust_credentials, group_of, require_extra, servers_of
from streams.kafka.folds import Fold
from streams.kafka.lag import Reads, lags
from streams.kafka.log import require_cluster
from streams.kafka.member import MAX_POLL_S, Hook, Member, Surroundings
from streams.kafka.sinks import Sink
from streams.kafka.standing import Standing
from streams.log import OwnsOffsets
from workers.stage import Stage

if TYPE_CHECKING:
    import faust

COMMIT_EVERY_S = 1.0
BUFFERED_RECORDS = 1024


class Failure:
    """The first failure of an application's stages."""

    def __init__(self) -> None:
        self.error: StageFailed | None = None
        self.happened = asyncio.Event()

    def tell(self, stage: str, cause: BaseException) -> None:
        """Note what stage failed and why; only the first counts."""
        if self.error is None:
            self.error = StageFailed(stage, cause)
            self.error.__cause__ = cause
            self.happened.set()


def create_app(
    settings: Settings,
    slots: Sequence[StageSlot],
    *,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    reached: Hook = lambda stage, step: None,
    standings: dict[str, Standing] | None = None,
) -> faust.App:
    """A Faust application with a stage for each slot. ``on_progress`` hears of every batch; ``reached`` is for tests; what each
    stage holds is noted in ``standings``.

    The application's ``failure`` tells when a stage could not go on.

    Raises:
        LogError: the settings name no Kafka broker, or a secret cannot be read.
        ValueError: two agents, which would have to share one consumer group.
    """
    require_extra()
    around = Surroundings(settings, on_progress, reached, {} if standings is None else standings)
    stateless = [slot for slot in slots if slot.stage is not None and not _is_sink(slot.stage)]
    if len(stateless) > 1:
        raise ValueError("one application has one agent: each needs a consumer group of its own")
    role = stateless[0].stage.name if stateless and stateless[0].stage else "members"
    app = _faust_app(settings, role)
    app.failure = Failure()
    for slot in slots:
        batch = slot.batch or settings.batch_records
        if slot.factory is not None:
            _add_service(app, Fold(slot.factory, around, batch))
        elif slot.stage is not None and _is_sink(slot.stage):
            _add_service(app, Sink(slot.stage, slot.relay.outbox if slot.relay else None, around, batch))
        elif slot.stage is not None:
            _add_agent(app, Agent(slot.stage, around, batch, app.failure.tell))
    app.producer_only = not stateless  # without an agent Faust's own consumer has nothing to read
    return app


async def run_app(app: faust.App, settings: Settings, stop: asyncio.Event) -> None:
    """Run an application until ``stop`` is set.

    Raises:
        LogError, LogMismatch: the cluster cannot be reached, or has other topics than ours.
        StageFailed: a stage could not go on; the others finished the batch they were at.
    """
    await require_cluster(settings)
    await app.start()
    waits = [asyncio.create_task(stop.wait()), asyncio.create_task(app.failure.happened.wait()), asyncio.create_task(_gone(app))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await _stop(app)
    if app.failure.error is not None:
        raise app.failure.error


async def run_until_idle(app: faust.App, settings: Settings, stages: Sequence[Reads], poll_s: float = 0.25) -> None:
    """Run an application until ``stages`` (its own or also other processes') have read all there is.

    Raises:
        LogError, LogMismatch, StageFailed: see :func:`run_app`.
    """
    stop = asyncio.Event()

    async def watch() -> None:
        while any(lag.records for lag in await lags(settings, stages)):
            await asyncio.sleep(poll_s)
        stop.set()

    watching = asyncio.create_task(watch())
    watching.add_done_callback(lambda task: stop.set())
    try:
        await run_app(app, settings, stop)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    if not watching.cancelled() and watching.exception() is not None:
        raise watching.exception() or RuntimeError


async def _gone(app: faust.App) -> None:
    """Until Faust itself gives up; what it says becomes the failure."""
    await app.wait_until_stopped()
    app.failure.tell("faust", app.crash_reason or RuntimeError("the application ended by itself"))


async def _stop(app: faust.App) -> None:
    """Stop in order. Where an agent failed, its records stay unacknowledged for ever: Faust must not wait for them.

    Only what was acknowledged is committed, so they will be read again.
    """
    if app.failure.error is not None and not app.producer_only:
        app.consumer._unacked_messages.clear()
    await app.stop()


def _is_sink(stage: Stage) -> bool:
    return isinstance(stage, OwnsOffsets) or not stage.outputs


def _faust_app(settings: Settings, role: str) -> Any:
    import faust

    static = f"{role}-{settings.kafka_instance}" if settings.kafka_instance else None
    return faust.App(
        group_of(settings, role),
        broker=[f"kafka://{server}" for server in servers_of(settings)],
        broker_credentials=faust_credentials(settings),
        autodiscover=False,
        datadir=str(settings.data_dir / "faust"),
        # Raw bytes in, our own producer out; topics are provisioned, never declared in passing.
        key_serializer="raw",
        value_serializer="raw",
        topic_allow_declare=False,
        topic_disable_leader=True,
        table_standby_replicas=0,
        web_enabled=False,
        worker_redirect_stdouts=False,
        # Waiting for what is in hand keeps a record from being committed unprocessed when partitions move.
        stream_wait_empty=True,
        stream_buffer_maxsize=BUFFERED_RECORDS,
        broker_max_poll_records=min(500, settings.batch_records * 2),
        broker_commit_interval=COMMIT_EVERY_S,
        broker_session_timeout=settings.kafka_session_s,
        broker_heartbeat_interval=settings.kafka_session_s / 6,
        broker_request_timeout=max(90.0, settings.kafka_session_s + 10),
        broker_max_poll_interval=MAX_POLL_S,
        broker_rebalance_timeout=MAX_POLL_S,
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=static,
    )


def _add_agent(app: Any, agent: Agent) -> None:
    import mode

    class Closing(mode.Service):  # type: ignore[misc]
        """Closes the agent's clients when the application ends."""

        async def on_stop(self) -> None:
            await agent.close()

    topics = [topic.name for topic in agent.stage.inputs]
    topic = app.topic(*topics, key_serializer="raw", value_serializer="raw", key_type=bytes, value_type=bytes)

    async def work(stream: Any) -> None:
        await agent.work(stream)

    async def on_assigned(_: Any, assigned: Any, **__: Any) -> None:
        agent.assigned([(tp.topic, tp.partition) for tp in assigned if tp.topic in topics])

    async def on_revoked(_: Any, revoked: Any, **__: Any) -> None:
        agent.revoked()

    app.on_partitions_assigned.connect(on_assigned)
    app.on_partitions_revoked.connect(on_revoked)
    app.agent(topic, name=agent.stage.name, concurrency=1)(work)
    app.service(Closing)


def _add_service(app: Any, member: Member) -> None:
    import mode

    class MemberService(mode.Service):  # type: ignore[misc]
        """A member's life inside the application's."""

        async def on_start(self) -> None:
            self._running = asyncio.create_task(self._run())

        async def _run(self) -> None:
            try:
                await member.run()
            except Exception as error:
                app.failure.tell(member.name, error)

        async def on_stop(self) -> None:
            member.stop()
            await self._running

    app.service(MemberService)
