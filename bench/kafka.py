"""What Kafka costs and gives. ``python -m bench.kafka [MODE…]`` starts a broker of its own on loopback and measures, all or:

- ``stages``: for each stage, records per second of one core (CPU seconds of the process after its first batch) as a worker runs it,
  beside the same stage over a bare ``getmany`` loop: fetch, decode, handle, and nothing else; medians over rounds that take turns;
- ``writer``: the same for the insight writer with ``--operations`` operations, which a market of that length does not give;
- ``scaling``: embedding without its cache with one worker and with two, one thread each: events/s by the log's own times;
- ``latency``: all workers in one process, no embedding cache. First what they can do: a backlog, events/s after its first tenth.
  Then events at ``--share`` of that, evenly spaced for ``--seconds`` after ten of warming up, and two directives a second:
  from just before an event is published to its episode standing in the episode store, and from a directive to the insight store;
- ``waiting``: resident memory of a worker whose store takes nothing while ``--waiting`` records pile up before it, then takes them
  all, with a pause of seven seconds halfway; and of the embed worker over the first 20,000 of as many events.

Each measurement runs in a process of its own (``bench/kafka_parts.py``). A word of warning: broker and workers share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from bench.kafka_common import Measuring, ends, fresh, market, measured, publish, renewed
from deploy.kafka.broker import LocalBroker
from gateway.kafka import INPUTS, WORKERS, run_workers
from schemas.claims import Category
from schemas.events import ToolExecution
from schemas.operations import AddInsight, DownvoteInsight, SubmitDirective, UpvoteInsight
from schemas.settings import Settings
from schemas.topics import EPISODES_RECORDED
from schemas.usage import MemoryUsed
from streams.kafka.log import KafkaLog
from streams.kafka.topics import apply_topics
from streams.log import NewRecord
from streams.publisher import Publisher
from workers.ledger import Operation
from workers.stage import Position

WARM_EVENTS, WARM_S = 100, 10.0
LONG_MARKET = 100_000
INSIGHTS = 200
AGENT_RECORDS = 20_000
START = datetime(2026, 1, 1, tzinfo=UTC)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the modes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modes", nargs="*", metavar="MODE", help=f"{', '.join(MODES)}; default: all")
    parser.add_argument("--events", type=int, default=6000, help="length of the market for `stages`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--operations", type=int, default=20_000)
    parser.add_argument("--backlog", type=int, default=1500, help="events by which `latency` and `scaling` measure capacity")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--waiting", type=int, default=1_000_000)
    given = parser.parse_args(arguments)
    if unknown := set(given.modes) - set(MODES):
        parser.error(f"no such mode: {', '.join(sorted(unknown))}")
    for mode in given.modes or MODES:
        with tempfile.TemporaryDirectory() as folder:
            broker = LocalBroker(Path(folder) / "broker")
            try:
                base = Settings(
                    broker=f"kafka://{broker.up()}", data_dir=Path(folder) / "first", kafka_app="bench", kafka_session_s=6.0
                )
                asyncio.run(apply_topics(base))
                began = time.monotonic()
                MODES[mode](base, Path(folder), given)
                print(f"  ({mode} took {time.monotonic() - began:.0f} s)", flush=True)
            finally:
                broker.kill()


# --- a stage's records a second of one core


def stages(base: Settings, folder: Path, given: argparse.Namespace) -> None:
    """Every stage over a market, but the writer."""
    base = base.model_copy(update={"batch_records": 64})
    publish(base, market(given.events))
    run_workers(base, until_idle=True)
    print(f"stages: {given.events} simulated events, {given.rounds} rounds, medians; records a second of one core")
    for role in sorted(WORKERS, key=lambda role: role == "embed"):  # last: what it writes again are duplicates for the others
        if role != "writer" and sum(sum(ends(base, topic.name).values()) for topic in INPUTS[role]) > 500:
            compare(base, folder, role, given.rounds)


def writer(base: Settings, folder: Path, given: argparse.Namespace) -> None:
    """The insight writer over votes on some insights."""
    with KafkaLog(base) as log:
        publisher = Publisher(log)
        made = operations(given.operations)
        while batch := list(islice(made, 1000)):
            publisher.publish_many(batch)
    print(f"writer: {given.operations} votes on {INSIGHTS} insights, {given.rounds} rounds, medians; records a second of one core")
    compare(base, folder, "writer", given.rounds)


def compare(base: Settings, folder: Path, role: str, rounds: int) -> None:
    """A worker and a bare loop, in turns."""
    worker, bare = [], []
    for _ in range(rounds):
        worker.append(measured(fresh(base, folder), "worker", role))
        bare.append(measured(fresh(base, folder), "bare", role))
    ratio = statistics.median(one["rate"] / other["rate"] for one, other in zip(worker, bare, strict=True))
    mine, theirs = (statistics.median(one["rate"] for one in found) for found in (worker, bare))
    print(
        f"  {role:<9} worker {mine:8.0f}   bare loop {theirs:8.0f}   {ratio:5.2f} of bare   ({worker[0]['records']:.0f} records)",
        flush=True,
    )


def operations(votes: int) -> Iterator[Operation]:
    """New insights, then votes on them in turn, three for each one against."""
    said: dict[str, Any] = {"author": "bench", "reason": "measured"}
    for n in range(INSIGHTS):
        yield AddInsight(
            op_id=f"add-{n}", insight_id=f"insight-{n}", ts=START, text=f"Pool {n} is best between {n % 24} and {n % 24 + 2} UTC",
            category=Category.GENERAL, key=f"swap:1:pool-{n}", label=f"pool {n}", **said,
        )  # fmt: skip
    for n in range(votes):
        vote = DownvoteInsight if n % 4 == 3 else UpvoteInsight
        yield vote(op_id=f"vote-{n}", insight_id=f"insight-{n % INSIGHTS}", ts=START + timedelta(seconds=n), **said)


# --- one and two embed workers


def scaling(base: Settings, folder: Path, given: argparse.Namespace) -> None:
    """Events/s of one and of two embed workers without the cache."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(given.rounds):
        for workers in rates:
            settings = renewed(base, folder, embedding_cache=False, model_threads=1, batch_records=32)
            before = ends(settings, EPISODES_RECORDED.name)
            publish(settings, market(given.backlog))
            processes = [Measuring(settings, "until-idle", "embed") for _ in range(workers)]
            for process in processes:
                process.answer()
            rates[workers].append(log_rate(settings, before))
    one, two = (statistics.median(rates[workers]) for workers in (1, 2))
    print(f"scaling: embed without cache: 1 worker {one:.1f} events/s, 2 workers {two:.1f} events/s, {two / one:.2f} ×")


def log_rate(settings: Settings, before: dict[int, int]) -> float:
    """Episodes a second between the first and the last that were appended since ``before``."""
    times = []
    with KafkaLog(settings) as log:
        for partition, offset in before.items():
            while records := log.read(EPISODES_RECORDED.name, partition, offset, 1000):
                times += [record.timestamp_ms for record in records]
                offset = records[-1].offset + 1
    return len(times) / ((max(times) - min(times)) / 1000)


# --- latency at a share of what the pipeline can do


class Effects:
    """The lines that a pipeline's process writes of what stands in its stores."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.at: dict[str, float] = {}

    def wait(self, wanted: set[str], seconds: float, process: Measuring) -> None:
        """Until all of these have had their effect."""
        deadline = time.monotonic() + seconds
        while not wanted <= self.at.keys():
            if process.ended or time.monotonic() > deadline:
                raise RuntimeError(f"{len(wanted - self.at.keys())} of {len(wanted)} had no effect in {seconds:.0f} s")
            time.sleep(0.05)
            self._take()

    def _take(self) -> None:
        if not self._path.exists():
            return
        with self._path.open(encoding="utf-8") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind("\n") + 1]
        self._read += len(whole.encode())
        for line in whole.splitlines():
            _, name, at = line.split()
            self.at.setdefault(name, float(at))


def latency(base: Settings, folder: Path, given: argparse.Namespace) -> None:
    """Capacity, then a share of it."""
    settings = base.model_copy(update={"embedding_cache": False})
    talk = folder / "talk"
    effects = Effects(talk.with_suffix(".effects"))
    events = market(LONG_MARKET)
    process = Measuring(settings, "pipeline", str(talk))
    try:
        with KafkaLog(settings) as log:
            publisher = Publisher(log)
            warm = list(islice(events, WARM_EVENTS))
            publisher.publish_many(warm)
            effects.wait({event.event_id for event in warm}, 120, process)
            able = capacity(publisher, list(islice(events, given.backlog)), effects, process)
            rate = able * given.share
            print(f"latency: the pipeline does {able:.1f} events/s; {rate:.1f}/s are offered", flush=True)
            sent, directives = offer(publisher, events, rate, given.seconds)
            effects.wait({name for name, _ in (*sent, *directives)}, 120, process)
        for what, times in (("event to episode store", sent), ("directive to insight store", directives)):
            told(what, [effects.at[name] - at for name, at in times])
    finally:
        talk.write_text("stop")
        process.answer()


def capacity(publisher: Publisher, events: list[ToolExecution], effects: Effects, process: Measuring) -> float:
    """Events/s that are worked off of a backlog, after its first tenth."""
    publisher.publish_many(events)
    effects.wait({event.event_id for event in events}, 600, process)
    times = sorted(effects.at[event.event_id] for event in events)
    first = len(times) // 10
    return (len(times) - first) / (times[-1] - times[first])


def offer(
    publisher: Publisher, events: Iterator[ToolExecution], rate: float, seconds: float
) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """Publish evenly; ids and times of the events and directives after warming up. Who is late publishes at once."""
    sent, directives = [], []
    began = time.time()
    until = began + WARM_S + seconds
    number = 0
    while (due := began + number / rate) < until:
        time.sleep(max(0.0, due - time.time()))
        event = next(events)
        at = time.time()
        publisher.publish(event)
        if at > began + WARM_S:
            sent.append((event.event_id, at))
        number += 1
        if int(number / rate * 2) > int((number - 1) / rate * 2):
            op_id = f"bench-{uuid.uuid4().hex}"
            at = time.time()
            publisher.publish(
                SubmitDirective(
                    op_id=op_id, insight_id=op_id, ts=datetime.fromtimestamp(at, UTC), author="bench", reason="measured",
                    text=f"Directive {op_id}", feedback_type="market_context",
                )
            )  # fmt: skip
            if at > began + WARM_S:
                directives.append((op_id, at))
    print(f"  offered {number / (time.time() - began):.1f} events/s over {time.time() - began:.0f} s", flush=True)
    return sent, directives


def told(what: str, seconds: list[float]) -> None:
    """Quantiles, and the median of the last fifth beside that of the first: a queue that grows shows there."""
    cuts = statistics.quantiles(seconds, n=100)
    fifth = len(seconds) // 5
    first, last = statistics.median(seconds[:fifth]), statistics.median(seconds[-fifth:])
    print(
        f"  {what}: p50 {cuts[49] * 1000:.0f} ms, p95 {cuts[94] * 1000:.0f} ms, p99 {cuts[98] * 1000:.0f} ms, "
        f"n {len(seconds)}; median of the first fifth {first * 1000:.0f} ms, of the last {last * 1000:.0f} ms",
        flush=True,
    )


# --- memory


def waiting(base: Settings, folder: Path, given: argparse.Namespace) -> None:
    """A store that takes nothing, and records that pile up before it."""
    talk = folder / "talk"
    process = Measuring(base, "slow", f"{talk}:{given.waiting}")
    use = MemoryUsed(use_id="use", agent_id="agent", ts=START, recalled=("a" * 36, "b" * 36), used=("a" * 36,), ended="success")
    with KafkaLog(base) as log:
        (record,) = records_of([use])
        first = max(1, given.waiting // 1000)
        while not talk.with_suffix(".ready").exists() and not process.ended:
            time.sleep(0.1)
        time.sleep(2.0)  # some looks at a worker that is up and has nothing to do
        append(log, [record], first)
        talk.write_text("published")
        append(log, [record], given.waiting - first)
    time.sleep(10.0)  # everything stands in the log; the worker holds its first batch, its partitions paused
    talk.write_text("go")
    found = process.answer()
    print(f"waiting: {found['taken']:.0f} records before a store that takes nothing, then {found['seconds']:.0f} s to take them")
    print(
        f"  resident MB: before {found['before_max']:.0f}, "
        f"while they waited {found['waiting_min']:.0f} to {found['waiting_max']:.0f}, "
        f"while they were taken {found['working_min']:.0f} to {found['working_max']:.0f}, at the end {found['end_max']:.0f}",
        flush=True,
    )
    settings = renewed(base, folder)
    with KafkaLog(settings) as log:
        append(log, records_of(list(market(2000))), given.waiting)
    found = measured(settings, "agent", str(min(AGENT_RECORDS, given.waiting)))
    print(
        f"  embed worker, {given.waiting} events before it, over the first {found['taken']:.0f}: resident MB "
        f"{found['first']:.0f} at the first batch, at most {found['fifth']:.0f} in the first fifth "
        f"and {found['most']:.0f} in all, {found['last']:.0f} at the end",
        flush=True,
    )


def append(log: KafkaLog, records: Sequence[NewRecord], count: int) -> None:
    """Append records over and over, over all partitions."""
    for first in range(0, count, 5000):
        log.append([records[n % len(records)] for n in range(first, min(first + 5000, count))])


class Gathering:
    """A log that keeps what is appended to it."""

    def __init__(self) -> None:
        self.records: list[NewRecord] = []

    def append(self, batch: Sequence[NewRecord]) -> list[Position]:
        """Keep."""
        self.records += batch
        return [Position(record.topic, 0, n) for n, record in enumerate(batch)]


def records_of(messages: Sequence[ToolExecution | MemoryUsed]) -> list[NewRecord]:
    """Messages as the publisher sends them."""
    gathering = Gathering()
    Publisher(gathering).publish_many(messages)
    return gathering.records


MODES = {"stages": stages, "writer": writer, "scaling": scaling, "latency": latency, "waiting": waiting}

if __name__ == "__main__":
    main()
