"""The independent verifier: what stands in the log and the store, compared with what was published, without asking any stage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.topics import EPISODES_RECORDED, INSIGHTS_UPDATED, SIGNALS_RAISED, TOOLS_EXECUTED
from streams.dead_letters import dead_letters
from streams.kafka.log import KafkaLog
from streams.log import LogReader
from tests.support.streams import Store, read_all


def firsts(log: LogReader, topic: str) -> dict[bytes | None, list[bytes | None]]:
    """Each key's records in order, every id once: what a reader that drops repeated ids sees."""
    seen: set[str | None] = set()
    found: dict[bytes | None, list[bytes | None]] = {}
    for record in read_all(log, topic):
        message_id = record.header("ce_id")
        if message_id not in seen:
            seen.add(message_id)
            found.setdefault(record.key, []).append(record.value)
    return found


@dataclass(frozen=True)
class Seen:
    """Everything that must come out the same whatever happened on the way."""

    episodes: dict[bytes | None, list[bytes | None]]
    signals: dict[bytes | None, list[bytes | None]]
    updates: dict[bytes | None, list[bytes | None]]
    letters: list[tuple[Any, ...]]
    items: list[str]
    unannounced: int


def everything(log: LogReader, store_path: Path) -> Seen:
    """What the log and the store hold."""
    store = Store(store_path)
    try:
        return Seen(
            firsts(log, EPISODES_RECORDED.name),
            firsts(log, SIGNALS_RAISED.name),
            firsts(log, INSIGHTS_UPDATED.name),
            sorted({(str(letter.key), letter.stage, letter.reason, letter.value) for letter in dead_letters(log)}, key=str),
            [row[0] for row in store.contents()],
            store.left(),
        )
    finally:
        store.close()


def nothing_lost(log: KafkaLog, store_path: Path) -> None:
    """Every published record became an episode in the store, a duplicate of one, or a dead letter with its own bytes."""
    store = Store(store_path)
    kept = {row[0] for row in store.contents()}
    store.close()
    letters = {(letter.partition, letter.offset): letter for letter in dead_letters(log, stage="episodes")}
    stood = {value for values in firsts(log, EPISODES_RECORDED.name).values() for value in values}
    ids = {record.header("ce_id") for record in read_all(log, EPISODES_RECORDED.name)}
    assert len(stood) == len(ids)
    assert ids <= kept
    for record in read_all(log, TOOLS_EXECUTED.name):
        letter = letters.get((record.partition, record.offset))
        if letter is not None:
            assert (letter.value, letter.key, letter.headers) == (record.value, record.key, record.headers)
            continue
        from schemas.codec import decode
        from schemas.episodes import episode_id

        assert episode_id(decode("tool-execution", record.value)) in kept
