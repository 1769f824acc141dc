"""Ingest: a file's records into the log, and what became of each.

Nothing is lost: a valid record is published, one that was meant as our own contract goes onto the log as it came and is refused
there, and any other bad record becomes a dead letter of its own. Whoever runs the stages — this process, or a running ``up`` —
then works until the records are through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from schemas.dead_letters import DeadLetter
from schemas.events import ToolExecution
from schemas.identity import content_id
from schemas.topics import TOOLS_EXECUTED
from schemas.types import moment
from streams.dead_letters import dead_letter_record
from streams.embedded.log import EmbeddedLog
from streams.embedded.tallies import StageTally
from streams.publisher import Publisher
from streams.sources import FORMATS, Item, Rejected, read_file

BATCH = 500


@dataclass(slots=True)
class Published:
    """What went into the log. ``rejected`` are records of a foreign format that were dead-lettered on the way."""

    records: int = 0
    published: int = 0
    rejected: Counter[str] = field(default_factory=Counter)


def publish_file(
    log: EmbeddedLog, path: Path, format_name: str, pool: Path | None, on_progress: Callable[[int], None] = lambda records: None
) -> Published:
    """Publish a file's records in order.

    Raises:
        SourceError: unknown format, or a pool description that is missing or wrong.
        OSError: a file cannot be read.
    """
    return publish_items(log, read_file(path, format_name, pool), path.name, FORMATS[format_name].own_contract, on_progress)


def publish_items(
    log: EmbeddedLog,
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
            elif own_contract:
                publisher.publish_many(events)
                done.published += len(events) + 1
                events = []
                publisher.publish_raw(TOOLS_EXECUTED, None, item.raw)
            else:
                log.append([dead_letter_record(_letter(item, origin))])
                done.rejected[item.reason] += 1
        publisher.publish_many(events)
        done.published += len(events)
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
