"""What every driver does with a batch: decode it, hold the stage to its word, account for each record (law 5)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schemas.codec import ContractError, decode
from schemas.errors import BrainError
from schemas.topics import Topic
from streams.dead_letters import dead_letter, dead_letter_record, refused
from streams.embedded.tallies import StageTally
from streams.headers import message_id_of
from streams.log import NewRecord
from streams.record import Record
from workers.stage import Delivery, Outcome, Position, Stage

LOGGER = logging.getLogger(__name__)
LOGGED = 20
"""Most rejected records of a batch that have a log line of their own; all are dead-lettered and counted."""


class StageBroken(BrainError):
    """A stage did not keep to its contract: a fault of the program, not of the data."""


@dataclass(frozen=True, slots=True)
class Fed:
    """A record with what it decoded to: a delivery, or the reason why not."""

    record: Record
    delivery: Delivery | None
    error: ContractError | None


def decoded(topic: Topic, record: Record) -> Fed:
    """A record with its contract, or with why it has none."""
    try:
        message = decode(topic.carries, record.value)
    except ContractError as error:
        return Fed(record, None, error)
    position = Position(record.topic, record.partition, record.offset)
    return Fed(record, Delivery(position, record.key, message, record.timestamp_ms, record.header("traceparent")), None)


def checked(stage: Stage, outcome: Outcome, deliveries: Sequence[Delivery]) -> Outcome:
    """The outcome, if it answers for every delivery and emits only where the stage says it does.

    Raises:
        StageBroken: it does not.
    """
    answered = outcome.processed + outcome.duplicates + outcome.late + len(outcome.refusals)
    if answered != len(deliveries):
        raise StageBroken(f"{stage.name} was given {len(deliveries)} records and accounts for {answered}")
    outputs = {topic.name for topic in stage.outputs}
    for emission in outcome.emissions:
        if emission.topic.name not in outputs:
            raise StageBroken(f"{stage.name} emitted to {emission.topic}, which is not among its outputs")
    return outcome


def accounted(stage: str, batch: Sequence[Fed], outcomes: Iterable[Outcome]) -> tuple[StageTally, list[NewRecord]]:
    """The batch's counts, and a dead letter for each record that did not decode or was refused."""
    tally = StageTally(received=len(batch))
    letters: list[NewRecord] = []
    rejected: list[tuple[Record, str]] = []
    for fed in batch:
        if fed.error is not None:
            error = fed.error
            letters.append(dead_letter_record(dead_letter(fed.record, stage, error.reason, error.detail, type(error).__name__)))
            tally.put("reasons", error.reason, 1)
            rejected.append((fed.record, error.reason))
    records = {fed.delivery.position: fed.record for fed in batch if fed.delivery is not None}
    for outcome in outcomes:
        for refusal in outcome.refusals:
            record = records.pop(refusal.position)
            letters.append(dead_letter_record(refused(record, stage, refusal)))
            tally.put("reasons", refusal.reason, 1)
            rejected.append((record, refusal.reason))
        tally.processed += outcome.processed
        tally.duplicates += outcome.duplicates
        tally.late += outcome.late
        for name, count in outcome.counts.items():
            tally.put("counts", name, count)
        for emission in outcome.emissions:
            tally.put("emitted", emission.topic.name, 1)
    tally.rejected = len(letters)
    _tell(stage, rejected)
    return tally, letters


def _tell(stage: str, rejected: Sequence[tuple[Record, str]]) -> None:
    """A log line for each rejected record, with where it stands and never what it holds."""
    for record, reason in rejected[:LOGGED]:
        place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
        LOGGER.warning("rejected", extra={"stage": stage, "message_id": message_id_of(record), "reason": reason, **place})
    if len(rejected) > LOGGED:
        LOGGER.warning("%d more of this batch were rejected", len(rejected) - LOGGED, extra={"stage": stage})
