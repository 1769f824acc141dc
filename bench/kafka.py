"""What Kafka costs and gives: each stage against the same work on a bare loop, latency, scaling, memory, in one run.

``python -m bench.kafka [--events N] [--rounds R] [--waiting W]`` starts a broker of its own on loopback and prints, as medians over
rounds that take turns:

- for each stage, records per second of one core (CPU seconds of the process after its first batch) as a worker runs it, beside the
  same stage over a bare ``getmany`` loop: fetch, decode, handle, and nothing else;
- embedding without its cache with one worker and with two, one thread each: events/s by the log's own times;
- latency from publishing an event to its episode standing in the store, all workers in one process, at half of what they can do;
- resident memory of the embed worker while ``W`` records wait.

Each measurement runs in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.kafka.broker import LocalBroker
from gateway.kafka import INPUTS, WORKERS, open_slots, run_workers
from schemas.events import ToolExecution
from schemas.settings import Settings
from schemas.topics import BY_NAME, EPISODES_RECORDED
from streams.batch import decoded
from streams.embedded.worker import Progress
from streams.kafka.app import create_app, run_until_idle
from streams.kafka.client import client_arguments
from streams.kafka.lag import Reads
from streams.kafka.log import KafkaLog, as_record
from streams.kafka.topics import apply_topics
from streams.publisher import Publisher
from streams.sources.market import simulate
from workers.stage import Delivery

SEED = 3


class Reader:
    """A worker's name and inputs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs = INPUTS[name]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything, or one measurement in this process (``--one``)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--waiting", type=int, default=200_000)
    parser.add_argument("--one", nargs=2, metavar=("WHAT", "ARGUMENT"))
    parser.add_argument("--settings")
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(ONE[given.one[0]](Settings(**json.loads(given.settings)), given.one[1])))
        return
    with tempfile.TemporaryDirectory() as folder:
        broker = LocalBroker(Path(folder) / "broker")
        try:
            everything(broker.up(), Path(folder), given.events, given.rounds, given.waiting)
        finally:
            broker.kill()


def everything(address: str, folder: Path, events: int, rounds: int, waiting: int) -> None:
    """All measurements on one broker."""
    base = Settings(
        broker=f"kafka://{address}", data_dir=folder / "first", kafka_app="bench", kafka_session_s=6.0, batch_records=64
    )
    asyncio.run(apply_topics(base))
    publish(base, events)
    run_workers(base, until_idle=True)
    print(f"{events} simulated events, {rounds} rounds, medians; records a second of one core")
    rates = {}
    for role in WORKERS:
        worker, bare = [], []
        for _ in range(rounds):
            worker.append(spawn(base, folder, "worker", role)["rate"])
            bare.append(spawn(base, folder, "bare", role)["rate"])
        rates[role] = statistics.median(worker)
        ratio = statistics.median(one / other if other else 0.0 for one, other in zip(worker, bare, strict=True))
        if not rates[role]:
            print(f"{role:<9} too few records to measure: take more --events")
            continue
        print(f"{role:<9} worker {rates[role]:8.0f}   bare loop {statistics.median(bare):8.0f}   {ratio:5.2f} of bare")
    scaling(base, folder, min(events, 1500), rounds)
    half = 0.5 / sum(1 / rate for role, rate in rates.items() if rate and role != "writer")
    found = spawn(base, folder, "latency", f"{half:.0f}")
    print(f"latency at {half:.0f} events/s: p50 {found['p50_ms']:.0f} ms, p95 {found['p95_ms']:.0f} ms, n {found['n']:.0f}")
    found = spawn(base, folder, "memory", str(waiting))
    print(f"{waiting} records waiting: {found['first_mb']:.0f} MB resident at first, at most {found['last_mb']:.0f} MB later")


def scaling(base: Settings, folder: Path, events: int, rounds: int) -> None:
    """Events/s of one and of two embed workers without the cache."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for workers in rates:
            settings = renewed(base, folder, embedding_cache=False, model_threads=1, batch_records=32)
            before = ends(settings, EPISODES_RECORDED.name)
            publish(settings, events, start=now_offset())
            processes = [start(settings, "embed", "until-idle") for _ in range(workers)]
            for process in processes:
                process.communicate()
            rates[workers].append(log_rate(settings, before))
    one, two = (statistics.median(rates[workers]) for workers in (1, 2))
    print(f"embed without cache: 1 worker {one:.1f} events/s, 2 workers {two:.1f} events/s, {two / one:.2f} ×")


def now_offset() -> int:
    """A number that makes events of this call different from all earlier ones."""
    return uuid.uuid4().int % 10**9


def publish(settings: Settings, events: int, start: int = 0) -> list[str]:
    """Publish a simulated market; ids get a prefix so that each call's events are new."""
    made = [item for item in simulate(SEED, events) if isinstance(item, ToolExecution)]
    if start:
        made = [event.model_copy(update={"event_id": f"{start}-{event.event_id}", "tx_hash": None}) for event in made]
    with KafkaLog(settings) as log:
        publisher = Publisher(log)
        for first in range(0, len(made), 500):
            publisher.publish_many(made[first : first + 500])
    return [event.event_id for event in made]


def ends(settings: Settings, topic: str) -> dict[int, int]:
    """The ends of a topic's partitions."""
    with KafkaLog(settings) as log:
        return log.end_offsets(topic)


def log_rate(settings: Settings, before: dict[int, int]) -> float:
    """Episodes a second between the first and the last that were appended since ``before``."""
    times = []
    with KafkaLog(settings) as log:
        for partition, offset in before.items():
            while records := log.read(EPISODES_RECORDED.name, partition, offset, 1000):
                times += [record.timestamp_ms for record in records]
                offset = records[-1].offset + 1
    return len(times) / ((max(times) - min(times)) / 1000)


def renewed(base: Settings, folder: Path, **changes: Any) -> Settings:
    """Settings with new consumer groups, which start at the end of what was read, and a new data folder."""
    name = f"bench-{uuid.uuid4().hex[:6]}"
    settings = base.model_copy(update={"kafka_app": name, "data_dir": folder / name, **changes})
    with KafkaLog(settings) as log:
        from streams.kafka.client import group_of

        for role in WORKERS:
            for topic in INPUTS[role]:
                log.commit(group_of(settings, role), {(topic.name, p): end for p, end in log.end_offsets(topic.name).items()})
    return settings


def start(settings: Settings, what: str, argument: str) -> subprocess.Popen[str]:
    """A measurement in a process of its own."""
    command = [sys.executable, "-m", "bench.kafka", "--one", what, argument, "--settings", json.dumps(settings.plain())]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def spawn(base: Settings, folder: Path, what: str, argument: str) -> dict[str, float]:
    """Run a measurement and read what it found."""
    name = f"bench-{uuid.uuid4().hex[:6]}"
    settings = (
        base.model_copy(update={"kafka_app": name, "data_dir": folder / name})
        if what in ("worker", "bare")
        else renewed(base, folder)
    )
    process = start(settings, what, argument)
    out, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(errors[-3000:])
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def one_worker(settings: Settings, role: str) -> dict[str, float]:
    """A worker over all that its topics hold."""
    counted: list[tuple[float, int]] = []

    def note(progress: Progress) -> None:
        counted.append((time.process_time(), progress.tally.received))

    with open_slots(settings, [role]) as slots:
        readers: list[Reads] = [Reader(role)]
        asyncio.run(run_until_idle(create_app(settings, slots, on_progress=note), settings, readers))
    spent = counted[-1][0] - counted[0][0]
    return {"rate": sum(records for _, records in counted[1:]) / spent if spent else 0.0}


def one_bare(settings: Settings, role: str) -> dict[str, float]:
    """The same stage over a bare loop."""
    with open_slots(settings, [role]) as slots:
        return {"rate": asyncio.run(bare_loop(settings, slots[0], role))}


async def bare_loop(settings: Settings, slot: Any, role: str) -> float:
    """Fetch, decode, handle."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    tps = [TopicPartition(topic.name, number) for topic in INPUTS[role] for number in range(topic.partitions)]
    consumer = AIOKafkaConsumer(**client_arguments(settings), enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    stages = {tp: slot.factory(tp.partition) if slot.factory else slot.stage for tp in tps}
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
                left -= len(records)
                if began:
                    total += len(records)
                began = began or time.process_time()
        return total / (time.process_time() - began) if total else 0.0
    finally:
        await consumer.stop()


def one_embed(settings: Settings, _: str) -> dict[str, float]:
    """An embed worker until its group has read all."""
    with open_slots(settings, ["embed"]) as slots:
        readers: list[Reads] = [Reader("embed")]
        asyncio.run(run_until_idle(create_app(settings, slots), settings, readers))
    return {}


def one_latency(settings: Settings, rate: str) -> dict[str, float]:
    """All workers in this process; events at a steady rate."""
    sent: dict[str, float] = {}
    took: list[float] = []
    ready = threading.Event()

    def note(progress: Progress) -> None:
        now = time.time()
        if progress.stage == "episodes":
            ready.set()
        if progress.stage == "episodes":
            took.extend(now - sent[one.message.event.event_id] for one in progress.deliveries if one.message.event.event_id in sent)

    def pace() -> None:
        start = now_offset()
        made = [item for item in simulate(SEED, max(200, int(float(rate) * 20))) if isinstance(item, ToolExecution)]
        with KafkaLog(settings) as log:
            publisher = Publisher(log)
            publisher.publish(made[0].model_copy(update={"event_id": f"{start}-first", "tx_hash": None}))
            ready.wait(60)
            began = time.time()
            for number, event in enumerate(made):
                due = began + number / float(rate)
                time.sleep(max(0.0, due - time.time()))
                sent[f"{start}-{number}"] = time.time()
                publisher.publish(event.model_copy(update={"event_id": f"{start}-{number}", "tx_hash": None}))

    async def work(slots: Any) -> None:
        app = create_app(settings, slots, on_progress=note)
        pacing = asyncio.get_running_loop().run_in_executor(None, pace)
        from streams.kafka.app import run_app

        stop = asyncio.Event()
        pacing.add_done_callback(lambda _: asyncio.get_running_loop().call_later(5.0, stop.set))
        await run_app(app, settings, stop)
        await pacing

    with open_slots(settings) as slots:
        asyncio.run(work(slots))
    cuts = statistics.quantiles(took, n=100)
    return {"p50_ms": cuts[49] * 1000, "p95_ms": cuts[94] * 1000, "n": float(len(took))}


def one_memory(settings: Settings, waiting: str) -> dict[str, float]:
    """Resident memory of an embed worker with ``waiting`` records before it: at its first batch, and at most over 20,000 more."""
    made = [item for item in simulate(SEED, 2000) if isinstance(item, ToolExecution)]
    with KafkaLog(settings) as log:
        publisher = Publisher(log)
        records = [publisher._record(event, None) for event in made]
        for _ in range(int(waiting) // len(records)):
            log.append(records)
    seen: list[float] = []

    async def work(slots: Any) -> None:
        from streams.kafka.app import run_app

        stop = asyncio.Event()

        def note(progress: Progress) -> None:
            seen.append(resident_mb())
            if len(seen) * settings.batch_records > 20_000:
                stop.set()

        await run_app(create_app(settings, slots, on_progress=note), settings, stop)

    with open_slots(settings, ["embed"]) as slots:
        asyncio.run(work(slots))
    return {"first_mb": seen[0], "last_mb": max(seen), "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def resident_mb() -> float:
    """This process's resident memory."""
    import psutil

    return float(psutil.Process().memory_info().rss) / 2**20


ONE = {"worker": one_worker, "bare": one_bare, "embed": one_embed, "latency": one_latency, "memory": one_memory}

if __name__ == "__main__":
    main()
