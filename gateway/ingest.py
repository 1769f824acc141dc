"""Ingest: a file's records into the log, and what became of each.

Nothing is lost: a valid record is published, one that was meant as our own contract goes onto the log as it came and is refused
there, and any other bad record becomes a dead letter of its own; so does one that is larger than a broker takes from producers.
Whoever runs the stages — this process, or a running ``up`` — then works until the records are through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from gateway.composition import layout
from schemas.codec import MAX_VALUE_BYTES
from schemas.dead_letters import DeadLetter
from schemas.events import ToolExecution
from schemas.identity import content_id
from schemas.settings import Settings
from schemas.topics import RECORDS_REJECTED, TOOLS_EXECUTED
from schemas.types import moment
from stores.episodes import EpisodeStore
from streams.dead_letters import dead_letter_record, read_dead_letter
from streams.embedded.tallies import StageTally
from streams.log import LogAppender, LogReader
from streams.publisher import Publisher
from streams.sources import FORMATS, Item, Rejected, read_file
from workers.stage import Position

BATCH = 500


@dataclass(slots=True)
class Published:
    """What went into the log. ``rejected`` are records of a foreign format that were dead-lettered on the way; ``spans`` are
    where the published ones stand: for each partition, first offset and end of each unbroken row."""

    records: int = 0
    published: int = 0
    spans: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)

    def add(self, positions: Sequence[Position]) -> None:
        """Records were published."""
        self.published += len(positions)
        for position in positions:
            spans = self.spans.setdefault(position.partition, [])
            if spans and spans[-1][1] == position.offset:
                spans[-1] = (spans[-1][0], position.offset + 1)
            else:
                spans.append((position.offset, position.offset + 1))

    def holds(self, partition: int, offset: int) -> bool:
        """Whether the record at a place was published by us."""
        return any(first <= offset < end for first, end in self.spans.get(partition, ()))


def publish_file(
    log: LogAppender, path: Path, format_name: str, pool: Path | None, on_progress: Callable[[int], None] = lambda records: None
) -> Published:
    """Publish a file's records in order.

    Raises:
        SourceError: unknown format, or a pool description that is missing or wrong.
        OSError: a file cannot be read.
    """
    return publish_items(log, read_file(path, format_name, pool), path.name, FORMATS[format_name].own_contract, on_progress)


def publish_items(
    log: LogAppender,
    items: Iterable[Item],
    origin: str,
    own_contract: bool = False,
    on_progress: Callable[[int], None] = lambda records: None,
) -> Published:
    """Publish items in batches; ``origin`` names where they come from in dead letters."""
    publisher = Publisher(log, source="ingest")
    done = Published()
    for batch in batches(items, BATCH):
        events: list[ToolExecution] = []
        for item in batch:
            if isinstance(item, ToolExecution):
                events.append(item)
            elif own_contract and len(item.raw) <= MAX_VALUE_BYTES:
                done.add(publisher.publish_many(events))
                events = []
                done.add([publisher.publish_raw(TOOLS_EXECUTED, None, item.raw)])
            else:
                log.append([dead_letter_record(_letter(item, origin))])
                done.rejected[item.reason] += 1
        done.add(publisher.publish_many(events))
        done.records += len(batch)
        on_progress(done.records)
    return done


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of up to ``size`` items, in order."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _letter(item: Rejected, origin: str) -> DeadLetter:
    return DeadLetter(
        id=content_id("dead-letter", origin, item.line_no, item.raw.hex()),
        topic=f"file:{origin}",
        partition=0,
        offset=item.line_no,
        timestamp_ms=0,
        stage="ingest",
        reason=item.reason,
        detail=item.detail[:2000],
        error_class="Rejected",
        first_failed_at=moment(0)[0],
        value=item.raw,
    )


def outcome(published: Published, before: dict[str, StageTally], after: dict[str, StageTally]) -> dict[str, object]:
    """The account of an ingest: ``records == processed + duplicates + rejected`` (law 5)."""
    reasons = Counter(published.rejected)
    for stage in ("embed", "episodes"):
        reasons += Counter(after.get(stage, StageTally()).reasons) - Counter(before.get(stage, StageTally()).reasons)

    def grown(stage: str, name: str) -> int:
        return int(getattr(after.get(stage, StageTally()), name) - getattr(before.get(stage, StageTally()), name))

    return {
        "records": published.records,
        "processed": grown("episodes", "processed"),
        "duplicates": grown("episodes", "duplicates"),
        "rejected": sum(reasons.values()),
        "reasons": dict(sorted(reasons.items())),
    }


class Onlooker:
    """Who published, and sees what others' workers made of it. Made before anything is published.

    Refusals are found in the log, by the place of each record. What is new and what was there before, only the episode store tells
    apart, by how many it has more: None where it is not in this data folder.
    """

    def __init__(self, settings: Settings, log: LogReader) -> None:
        self._folder = layout(settings).episodes
        self._log = log
        self._letters_from = log.end_offsets(RECORDS_REJECTED.name)
        self._episodes = self._count()

    def account(self, published: Published) -> dict[str, object]:
        """The account of an ingest, once all has been read. Others' episodes of the same time count in, as they do in tallies."""
        reasons = Counter(published.rejected)
        for letter in self._letters():
            if letter.topic == TOOLS_EXECUTED.name and published.holds(letter.partition, letter.offset):
                reasons[letter.reason] += 1
        rejected = sum(reasons.values())
        after = self._count()
        new = None if after is None else min(after - (self._episodes or 0), published.records - rejected)
        return {
            "records": published.records,
            "processed": published.records - rejected if new is None else new,
            "duplicates": None if new is None else published.records - rejected - new,
            "rejected": rejected,
            "reasons": dict(sorted(reasons.items())),
        }

    def _count(self) -> int | None:
        if not self._folder.is_dir():
            return None
        with EpisodeStore.open(self._folder) as store:
            return store.count()

    def _letters(self) -> Iterator[DeadLetter]:
        for partition, offset in self._letters_from.items():
            while records := self._log.read(RECORDS_REJECTED.name, partition, offset, BATCH):
                offset = records[-1].offset + 1
                yield from (letter for record in records if (letter := read_dead_letter(record)) is not None)
