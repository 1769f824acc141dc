"""Helpers for tests of the log, the driver and what stands on them: a small pipeline with every kind of stage.

``episodes`` (stateless) turns executions into episodes and refuses some; ``sums`` (stateful) folds a running checksum a key and
raises a signal every third record, so that its output depends on every record before; ``store`` (a sink that owns its offsets)
keeps episodes and signals in SQLite and announces each signal through an outbox.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

import orjson

from schemas.claims import Category
from schemas.episodes import Episode, episode_id
from schemas.events import ToolExecution
from schemas.identity import content_id
from schemas.insights import Insight, InsightUpdate
from schemas.signals import DriftSignal
from schemas.topics import EPISODES_RECORDED, INSIGHTS_UPDATED, SIGNALS_RAISED, TOOLS_EXECUTED, TOPICS
from streams.embedded.log import EmbeddedLog
from streams.embedded.worker import StageSlot
from streams.log import LogMismatch, LogReader, Partition
from streams.publisher import Publisher
from streams.record import Record
from streams.relay import Relay
from workers.stage import Delivery, Emission, Outcome, Refusal

START = datetime(2026, 1, 1, tzinfo=UTC)
GARBAGE: tuple[tuple[bytes | None, str], ...] = (
    (None, "null_value"),
    (b"{not json", "not_json"),
    (b"\xff\xfe", "not_utf8"),
    (b'{"tool":"a","x":NaN}', "not_finite"),
    (b"\x00\x00\x00\x00\x01{}", "confluent_framed"),
    (b"[1]", "not_object"),
    (b"x" * 1_000_001, "too_large"),
    (b'{"schema_version":"2.0"}', "unknown_version"),
)


def read_all(log: LogReader, topic: str) -> list[Record]:
    """Every record of a topic, partition by partition, in order."""
    records: list[Record] = []
    for partition, end in sorted(log.end_offsets(topic).items()):
        offset = log.start_offsets(topic)[partition]
        while offset < end and (got := log.read(topic, partition, offset, 1000)):
            records += got
            offset = got[-1].offset + 1
    return records


def execution(n: int, *, key: int = 0, refuse: bool = False) -> ToolExecution:
    """The n-th execution of one of several keys; ``refuse`` makes the pipeline's first stage refuse it."""
    return ToolExecution(
        event_id=f"event-{n}",
        tool="probe",
        agent_id="tester",
        status="failed" if refuse else "success",
        ts_executed=START.timestamp() + 60 * n,
        pair=f"pair-{key}",
        features={"n": float(n)},
    )


def update(insight: str, revision: int) -> InsightUpdate:
    """An insight update of some revision."""
    return InsightUpdate(
        insight=Insight(
            id=insight, text=f"{insight} holds", category=Category.GENERAL, confidence="0.6", revision=revision, key="k",
            label="k", created_ts=START, validated_ts=START, author="tester",
        ),
        revision=revision, operation_id=f"{insight}-{revision}", kind="EDIT", reason="test", ts=START,
    )  # fmt: skip


def fill(log: EmbeddedLog, count: int = 120, *, keys: int = 7, garbage: bool = True) -> int:
    """Publish executions, every 17th one refused later, with garbage and a repeated event in between; how many records."""
    publisher = Publisher(log)
    published = len(publisher.publish_many(execution(n, key=n % keys, refuse=n % 17 == 16) for n in range(count)))
    published += len(publisher.publish_many([execution(3, key=3), execution(4, key=4)]))
    if garbage:
        for n, (value, _) in enumerate(GARBAGE):
            publisher.publish_raw(TOOLS_EXECUTED, f"bad-{n}".encode(), value, (("ce_id", b"\xff"),))
            published += 1 + len(publisher.publish_many([execution(count + n, key=n % keys)]))
    return published


class Episodes:
    """Stateless: an episode for each execution that did not fail."""

    name = "episodes"
    inputs = (TOOLS_EXECUTED,)
    outputs = (EPISODES_RECORDED,)

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        emissions, refusals = [], []
        for delivery in batch:
            event: ToolExecution = delivery.message
            if event.status == "failed":
                refusals.append(Refusal(delivery.position, "failed_event", event.event_id))
                continue
            episode = Episode(
                id=episode_id(event), key=event.key, label="probe", event=event, metrics={"n": event.features["n"]},
                reflection=f"probe {event.event_id}", sentence="probe", vector=b"\x00\x00\x80\x3f", model="none", importance=0.0,
            )  # fmt: skip
            emissions.append(Emission(EPISODES_RECORDED, event.key, episode, episode.id, int(event.ts_executed.timestamp() * 1000)))
        return Outcome(emissions, refusals, processed=len(emissions), counts={"seen": len(batch)})


class Sums:
    """Stateful: a running checksum a key; every third record of a key raises a signal that holds it."""

    name = "sums"
    inputs = (EPISODES_RECORDED,)
    outputs = (SIGNALS_RAISED,)

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.state: dict[str, list[int]] = {}
        self.seen: dict[str, bool] = {}

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        emissions, duplicates = [], 0
        for delivery in batch:
            episode: Episode = delivery.message
            assert delivery.position.partition == self.partition
            if episode.id in self.seen:
                duplicates += 1
                continue
            self.seen[episode.id] = True
            entry = self.state.setdefault(episode.key, [0, 0])
            entry[0] += 1
            entry[1] = crc32(episode.id.encode(), entry[1])
            if entry[0] % 3 == 0:
                emissions.append(self._signal(episode, entry))
        return Outcome(emissions, processed=len(batch) - duplicates, duplicates=duplicates)

    def _signal(self, episode: Episode, entry: list[int]) -> Emission:
        signal = DriftSignal(
            id=content_id("signal", episode.key, entry[0]), level="pair", stream=episode.key, key=episode.key, metric="n",
            ts=episode.ts, episode_id=episode.id, mean_before=0.0, mean_after=float(entry[1]), width=entry[0], delta=0.1,
        )  # fmt: skip
        return Emission(SIGNALS_RAISED, episode.key, signal, signal.id, int(episode.ts.timestamp() * 1000))

    def snapshot(self) -> bytes:
        return orjson.dumps({"partition": self.partition, "state": self.state, "seen": self.seen})

    def restore(self, state: bytes) -> None:
        plain = orjson.loads(state)
        if plain["partition"] != self.partition:
            raise ValueError("the state of another partition")
        self.state, self.seen = plain["state"], plain["seen"]


class Store:
    """A sink, its store and its outbox in one SQLite file: effects and offsets commit together."""

    name = "store"
    inputs = (EPISODES_RECORDED, SIGNALS_RAISED)
    outputs = (INSIGHTS_UPDATED,)

    def __init__(self, path: Path | str, *, owns_offsets: bool = True) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.executescript(
            """
            PRAGMA synchronous=FULL;
            CREATE TABLE IF NOT EXISTS meta (log_id TEXT PRIMARY KEY);
            CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, topic TEXT, partition INTEGER, offset INTEGER);
            CREATE TABLE IF NOT EXISTS offsets (topic TEXT, partition INTEGER, next INTEGER, PRIMARY KEY (topic, partition));
            CREATE TABLE IF NOT EXISTS outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, insight TEXT, revision INTEGER);
            CREATE TABLE IF NOT EXISTS revisions (insight TEXT PRIMARY KEY, revision INTEGER);
            """
        )
        self._owns_offsets = owns_offsets

    def bind(self, log_id: str) -> None:
        self._db.execute("INSERT INTO meta SELECT ? WHERE NOT EXISTS (SELECT 1 FROM meta)", (log_id,))
        if self._db.execute("SELECT log_id FROM meta").fetchone() != (log_id,):
            raise LogMismatch("the store was filled from another log")

    def next_offsets(self) -> Mapping[Partition, int] | None:
        if not self._owns_offsets:
            return None
        return {(topic, partition): offset for topic, partition, offset in self._db.execute("SELECT * FROM offsets")}

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        duplicates = 0
        self._db.execute("BEGIN IMMEDIATE")
        for delivery in batch:
            at, item = delivery.position, delivery.message
            row = self._db.execute("SELECT topic, partition, offset FROM items WHERE id = ?", (item.id,)).fetchone()
            if row is not None:
                duplicates += row != (at.topic, at.partition, at.offset)
                continue
            self._db.execute("INSERT INTO items VALUES (?, ?, ?, ?)", (item.id, at.topic, at.partition, at.offset))
            if at.topic == SIGNALS_RAISED.name:
                self._announce(item.key)
        self._db.executemany(
            "INSERT INTO offsets VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET next = max(next, excluded.next)",
            [(delivery.position.topic, delivery.position.partition, delivery.position.offset + 1) for delivery in batch],
        )
        self._db.execute("COMMIT")
        return Outcome(processed=len(batch) - duplicates, duplicates=duplicates)

    def _announce(self, insight: str) -> None:
        self._db.execute("INSERT INTO revisions VALUES (?, 1) ON CONFLICT DO UPDATE SET revision = revision + 1", (insight,))
        self._db.execute("INSERT INTO outbox (insight, revision) SELECT * FROM revisions WHERE insight = ?", (insight,))

    def pending(self, after: int, limit: int) -> list[tuple[int, Emission]]:
        rows = self._db.execute("SELECT * FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit)).fetchall()
        return [
            (seq, Emission(INSIGHTS_UPDATED, insight, update(insight, revision), f"{insight}-{revision}", 0))
            for seq, insight, revision in rows
        ]

    def mark_sent(self, upto: int) -> None:
        self._db.execute("DELETE FROM outbox WHERE seq <= ?", (upto,))

    def contents(self) -> list[tuple[str, str, int, int]]:
        return self._db.execute("SELECT * FROM items ORDER BY id").fetchall()

    def left(self) -> int:
        """Announcements not marked as sent."""
        (count,) = self._db.execute("SELECT count(*) FROM outbox").fetchone()
        return int(count)

    def close(self) -> None:
        self._db.close()


def pipeline(store: Store, *, factory: Callable[[int], Sums] = Sums, threaded: bool = True) -> list[StageSlot]:
    """The three stages as slots."""
    return [
        StageSlot(Episodes(), threaded=threaded),
        StageSlot(factory=factory),
        StageSlot(store, threaded=threaded, relay=Relay(store, batch=3)),
    ]


def contents(log: EmbeddedLog) -> dict[tuple[str, bytes | None], list[tuple[bytes | None, tuple[tuple[str, bytes], ...]]]]:
    """Every topic's records by key, in order: what must not depend on batches, threads or crashes."""
    found: dict[tuple[str, bytes | None], list[tuple[bytes | None, tuple[tuple[str, bytes], ...]]]] = defaultdict(list)
    for topic in TOPICS:
        for record in read_all(log, topic.name):
            found[topic.name, record.key].append((record.value, record.headers))
    return dict(found)


def outcomes(log: EmbeddedLog) -> dict[str, object]:
    """Tallies as plain values."""
    return {stage: sorted(tally.rows()) for stage, tally in log.tallies().items()}


def ticking(start: int = 1_767_225_600_000) -> Callable[[], int]:
    """A clock that stands still: records and dead letters are equal from run to run."""
    return lambda: start
