"""Record headers: CloudEvents 1.0, binary mode, as the Kafka protocol binding has them (``ce_`` and the attribute's name)."""

from __future__ import annotations

from datetime import UTC, datetime

from schemas.topics import Topic
from schemas.types import iso
from streams.record import Headers, Record

CONTENT_TYPE = b"application/json"
SOURCE = "defi-brain"
MAJOR = "1"


def event_type(topic: Topic) -> str:
    """The ``ce_type`` of what a topic carries.

    >>> from schemas.topics import TOOLS_EXECUTED
    >>> event_type(TOOLS_EXECUTED)
    'defi-brain.tool-execution.v1'
    """
    return f"defi-brain.{topic.carries}.v{MAJOR}"


def event_headers(topic: Topic, message_id: str, ts_ms: int, *, source: str, traceparent: str | None = None) -> Headers:
    """The headers of a message: its id, who sent it, what it is, when it happened (event time) and the schema it keeps to.

    ``source`` is the stage or the publisher; ``traceparent`` a W3C trace context to hand on.
    """
    headers: list[tuple[str, bytes]] = [
        ("ce_id", message_id.encode()),
        ("ce_source", f"/{SOURCE}/{source}".encode()),
        ("ce_type", event_type(topic).encode()),
        ("ce_specversion", b"1.0"),
        ("ce_time", moment_of(ts_ms).encode()),
        ("ce_dataschema", f"urn:defi-brain:{topic.carries}:{MAJOR}".encode()),
        ("content-type", CONTENT_TYPE),
    ]
    if traceparent is not None:
        headers.append(("traceparent", traceparent.encode()))
    return tuple(headers)


def moment_of(ts_ms: int) -> str:
    """Unix milliseconds as RFC 3339 in UTC.

    >>> moment_of(1_651_833_550_758)
    '2022-05-06T10:39:10.758000Z'
    """
    seconds, rest = divmod(ts_ms, 1000)
    return iso(datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000))


def message_id_of(record: Record) -> str | None:
    """The ``ce_id`` of a record, where its producer gave one."""
    return record.header("ce_id")
