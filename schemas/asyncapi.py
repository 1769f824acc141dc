"""The AsyncAPI document: topics, keys, headers and payloads, which is all that a producer or consumer in any language needs.

``python -m schemas.asyncapi`` writes ``asyncapi.json`` beside this file, ``--check`` only compares. Payloads refer to the JSON
Schemas in ``json/``. The checkpoint topic is not in it: what it holds is for our own workers.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.codec import FROM_OUTSIDE
from schemas.export import file_name
from schemas.topics import CHECKPOINTS, RECORDS_REJECTED, TOPICS, Cleanup, Topic

FILE = Path(__file__).parent / "asyncapi.json"
KEYS = {
    "tool-execution": "`tool:chain:pair` of the execution, UTF-8; order is kept within a key",
    "episode": "`tool:chain:pair` of the execution",
    "window-closed": "the tool",
    "signal": "the stream that the alarm is about",
    "insight-operation": "the insight's id",
    "insight-update": "the insight's id; the last update of each is kept",
    "memory-used": "the agent's id",
    "portfolio-valuation": "the portfolio's name; `|simulated` is added to a simulated one's",
    "portfolio-standing": "the portfolio, as in its valuations; the last standing of each is kept",
    "model-said": "the record key or insight that a language model was asked about",
    "dead-letter": "the key of the rejected record, which may be missing",
}
"""What the record key is, by what the topic carries."""
ABOUT = (
    "An event-driven memory for DeFi trading agents. Values are UTF-8 JSON without any framing. Records are partitioned by "
    "`toPositive(murmur2(key)) % partitions`, Kafka's default for Java clients. A record's identity is in its value; a repeated "
    "record is a duplicate and does nothing. Records that do not fit their schema go to the topic of rejected records as they came."
)
DEAD_LETTER_HEADERS = {
    "dlq-topic": "where the rejected record stands",
    "dlq-partition": "its partition",
    "dlq-offset": "its offset",
    "dlq-timestamp": "when it arrived, Unix ms",
    "dlq-stage": "the stage that refused it",
    "dlq-reason": "why, as a stable code",
    "dlq-error": "the class of the error",
    "dlq-attempt": "how often it was sent",
}


def document() -> dict[str, Any]:
    """The document, AsyncAPI 3.0."""
    shown = [topic for topic in TOPICS if topic != CHECKPOINTS]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "DeFi Brain",
            "version": "1.0.0",
            "description": ABOUT,
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {topic.carries: _channel(topic) for topic in shown},
        "operations": {_verb(topic): _operation(topic) for topic in shown},
        "components": {
            "messages": {topic.carries: _message(topic) for topic in shown},
            "messageTraits": {"cloudevents": {"headers": _headers()}},
        },
    }


def rendered() -> str:
    """The file's text."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def _verb(topic: Topic) -> str:
    return f"{'publish' if topic.carries in FROM_OUTSIDE else 'follow'}-{topic.carries}"


def _operation(topic: Topic) -> dict[str, Any]:
    """What an outsider does with the topic; the brain's own side is the other one."""
    action = "send" if topic.carries in FROM_OUTSIDE else "receive"
    return {"action": action, "channel": {"$ref": f"#/channels/{topic.carries}"}}


def _channel(topic: Topic) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if topic.cleanup is not Cleanup.KEEP:
        settings["cleanup.policy"] = str(topic.cleanup).split(",")
    settings["retention.ms"] = -1 if topic.retention_ms is None else topic.retention_ms
    return {
        "address": topic.name,
        "messages": {topic.carries: {"$ref": f"#/components/messages/{topic.carries}"}},
        "bindings": {"kafka": {"topic": topic.name, "partitions": topic.partitions, "topicConfiguration": settings}},
    }


def _message(topic: Topic) -> dict[str, Any]:
    own = {"headers": _properties(DEAD_LETTER_HEADERS)} if topic == RECORDS_REJECTED else {}
    return {
        "name": topic.carries,
        **own,
        "contentType": "application/json",
        "traits": [{"$ref": "#/components/messageTraits/cloudevents"}],
        "payload": {
            "schemaFormat": "application/schema+json;version=2020-12",
            "schema": {"$ref": f"./json/{file_name(topic.carries)}"},
        },
        "bindings": {"kafka": {"key": {"type": "string", "description": KEYS[topic.carries]}}},
    }


def _headers() -> dict[str, Any]:
    """CloudEvents 1.0, binary mode. None of them has to be there; what they say is never taken for the value's own."""
    described = {
        "ce_id": "the record's identity, as in its value",
        "ce_source": "who sent it",
        "ce_type": "what it is: `defi-brain.<contract>.v1`",
        "ce_specversion": "1.0",
        "ce_time": "event time, RFC 3339",
        "ce_dataschema": "`urn:defi-brain:<contract>:1`",
        "content-type": "application/json",
        "traceparent": "W3C trace context, handed on",
    }
    return _properties(described)


def _properties(described: dict[str, str]) -> dict[str, Any]:
    """Headers as a schema."""
    return {"type": "object", "properties": {name: {"type": "string", "description": text} for name, text in described.items()}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the file; 1 when ``--check`` finds it out of date."""
    parser = argparse.ArgumentParser(prog="python -m schemas.asyncapi", description="The AsyncAPI document")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the file is out of date")
    if not parser.parse_args(arguments).check:
        FILE.write_text(rendered(), encoding="utf-8")
        return 0
    if FILE.exists() and FILE.read_text(encoding="utf-8") == rendered():
        return 0
    sys.stderr.write("asyncapi.json is out of date; run python -m schemas.asyncapi\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
