"""What ``bench.kafka`` measures in processes of their own: ``python -m bench.kafka_parts WHAT ARGUMENT``, settings on stdin.

Each prints one JSON document. ``pipeline`` and ``slow`` also follow a file through which their parent talks to them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from gateway.kafka import INPUTS, open_slots, readers
from gateway.process import settle_for_stores
from schemas.settings import Settings
from schemas.topics import BY_NAME, MEMORY_USED, Topic
from streams.batch import decoded
from streams.embedded.worker import Progress, StageSlot
from streams.kafka.app import create_app, run_app, run_until_idle
from streams.kafka.client import client_arguments
from streams.kafka.log import as_record
from streams.kafka.standing import Standing
from workers.stage import Delivery, Outcome

OUTBOX = 256


def one_worker(settings: Settings, role: str) -> dict[str, float]:
    """A worker over all that its topics hold: records a CPU second after its first batch, sends and commits included."""
    counted: list[tuple[float, int]] = []

    def note(progress: Progress) -> None:
        counted.append((time.process_time(), progress.tally.received))

    with open_slots(settings, [role]) as slots:
        asyncio.run(run_until_idle(create_app(settings, slots, on_progress=note), settings, readers([role])))
    spent = counted[-1][0] - counted[0][0]
    records = sum(records for _, records in counted[1:])
    return {"rate": records / spent if spent else 0.0, "records": records}


def one_bare(settings: Settings, role: str) -> dict[str, float]:
    """The same stage over a bare loop, a store's outbox emptied but not sent."""
    with open_slots(settings, [role]) as slots:
        rate, records = asyncio.run(bare_loop(settings, slots[0], role))
        return {"rate": rate, "records": records}


async def bare_loop(settings: Settings, slot: StageSlot, role: str) -> tuple[float, int]:
    """Fetch, decode, handle: records a CPU second after the first batch."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    tps = [TopicPartition(topic.name, number) for topic in INPUTS[role] for number in range(topic.partitions)]
    consumer = AIOKafkaConsumer(**client_arguments(settings), enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    stages: dict[Any, Any] = {tp: slot.factory(tp.partition) if slot.factory else slot.stage for tp in tps}
    outbox = slot.relay.outbox if slot.relay else None
    try:
        consumer.assign(tps)
        await consumer.seek_to_beginning(*tps)
        left = sum((await consumer.end_offsets(tps)).values())
        began, total = 0.0, 0
        while left > 0:
            for tp, records in (await consumer.getmany(timeout_ms=200, max_records=settings.batch_records)).items():
                fed = [decoded(BY_NAME[tp.topic], as_record(record)) for record in records]
                deliveries: list[Delivery] = [one.delivery for one in fed if one.delivery is not None]
                stages[tp].handle(deliveries)
                while outbox is not None and (rows := outbox.pending(0, OUTBOX)):
                    outbox.mark_sent(rows[-1][0])
                left -= len(records)
                if began:
                    total += len(records)
                began = began or time.process_time()
        return (total / (time.process_time() - began) if total else 0.0), total
    finally:
        await consumer.stop()


def one_until_idle(settings: Settings, role: str) -> dict[str, float]:
    """A worker until its group has read all."""
    with open_slots(settings, [role]) as slots:
        asyncio.run(run_until_idle(create_app(settings, slots), settings, readers([role])))
    return {}


# --- latency: a whole pipeline, and when each effect stood in its store


def one_pipeline(settings: Settings, talk: str) -> dict[str, float]:
    """All workers until the parent writes ``stop`` to the file; a line for each episode and operation that is in its store."""
    effects = Path(talk).with_suffix(".effects").open("w", encoding="utf-8")

    def note(progress: Progress) -> None:
        now = time.time()
        if progress.stage == "episodes":
            write(effects, [("episode", one.message.event.event_id, now) for one in progress.deliveries])
        elif progress.stage == "writer":
            write(effects, [("operation", getattr(one.message, "op_id", ""), now) for one in progress.deliveries])

    async def work(slots: Sequence[StageSlot]) -> None:
        stop = asyncio.Event()
        looking = asyncio.create_task(stop_when_told(Path(talk), stop))
        await run_app(create_app(settings, slots, on_progress=note), settings, stop)
        await looking

    with effects, open_slots(settings) as slots:
        asyncio.run(work(slots))
    return {}


def write(file: TextIO, effects: Sequence[tuple[str, str, float]]) -> None:
    """Lines of effects, at once on disk for the parent."""
    file.writelines(f"{kind} {name} {now:.6f}\n" for kind, name, now in effects if name)
    file.flush()


async def stop_when_told(path: Path, stop: asyncio.Event) -> None:
    """Set the event when the parent says ``stop``."""
    while said(path) != "stop":
        await asyncio.sleep(0.2)
    stop.set()


def said(path: Path) -> str:
    """The parent's last word."""
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


# --- memory: records that wait


class SlowSink:
    """A sink whose store takes nothing at first, then takes everything, with one long pause halfway."""

    name = "slow"
    inputs: tuple[Topic, ...] = (MEMORY_USED,)
    outputs: tuple[Topic, ...] = ()

    def __init__(self, go: threading.Event, pause_at: int, pause_s: float) -> None:
        self._go = go
        self._pause_at = pause_at
        self._pause_s = pause_s
        self.taken = 0

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        """Count."""
        self._go.wait()
        if self.taken < self._pause_at <= self.taken + len(batch):
            time.sleep(self._pause_s)
        self.taken += len(batch)
        return Outcome(processed=len(batch))


def one_slow(settings: Settings, argument: str) -> dict[str, float]:
    """Resident memory (MB) of a worker before anything came, while records piled up before its full store, while it worked them
    off, and at the end. ``argument``: the file to talk by, and how many records will come."""
    talk, expected = argument.rsplit(":", 1)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    go = threading.Event()
    sink = SlowSink(go, int(expected) // 2, 7.0)
    phases: dict[str, list[float]] = {"before": [], "waiting": [], "working": []}

    async def work() -> float:
        stop = asyncio.Event()
        standings: dict[str, Standing] = {}
        app = create_app(settings, [StageSlot(sink)], standings=standings)
        running = asyncio.create_task(run_app(app, settings, stop))
        began = 0.0
        while sink.taken < int(expected):
            if standings["slow"].partitions is not None:
                Path(talk).with_suffix(".ready").touch()
            word = said(Path(talk))
            phases["working" if word == "go" else "waiting" if word == "published" else "before"].append(resident_mb())
            if word == "go" and not go.is_set():
                began = time.monotonic()
                go.set()
            await asyncio.sleep(0.5)
            if running.done():
                running.result()
        taken = time.monotonic() - began
        await asyncio.sleep(1.0)
        phases["end"] = [resident_mb()]
        stop.set()
        await running
        return taken

    seconds = asyncio.run(work())
    found = {f"{name}_{how.__name__}": how(seen) for name, seen in phases.items() for how in (min, max)}
    return {"seconds": seconds, "taken": sink.taken, **found}


def one_agent(settings: Settings, records: str) -> dict[str, float]:
    """Resident memory (MB) of the embed worker, an agent, over the first ``records`` of what waits."""
    seen: list[float] = []
    taken = 0

    async def work(slots: Sequence[StageSlot]) -> None:
        stop = asyncio.Event()

        def note(progress: Progress) -> None:
            nonlocal taken
            taken += progress.tally.received
            seen.append(resident_mb())
            if taken >= int(records):
                stop.set()

        await run_app(create_app(settings, slots, on_progress=note), settings, stop)

    with open_slots(settings, ["embed"]) as slots:
        asyncio.run(work(slots))
    fifth = len(seen) // 5
    return {"first": seen[0], "fifth": max(seen[: fifth + 1]), "most": max(seen), "last": seen[-1], "taken": taken}


def resident_mb() -> float:
    """This process's resident memory."""
    import psutil

    return float(psutil.Process().memory_info().rss) / 2**20


ONE = {
    "worker": one_worker,
    "bare": one_bare,
    "until-idle": one_until_idle,
    "pipeline": one_pipeline,
    "slow": one_slow,
    "agent": one_agent,
}


def main() -> None:
    """One measurement."""
    what, argument = sys.argv[1:3]
    settle_for_stores()
    print(json.dumps(ONE[what](Settings(**json.loads(sys.stdin.read())), argument)))


if __name__ == "__main__":
    main()
