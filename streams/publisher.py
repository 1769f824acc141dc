"""Publisher: messages into the log, checked against their contract before they are sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from schemas.base import Contract
from schemas.codec import decode
from schemas.episodes import Episode
from schemas.events import ToolExecution
from schemas.identity import content_id
from schemas.model_said import ModelSaid
from schemas.portfolio import PortfolioValuation
from schemas.settings import Settings
from schemas.topics import EPISODES_RECORDED, MEMORY_USED, MODEL_SAID, OPERATIONS, PORTFOLIO_VALUED, TOOLS_EXECUTED, Topic
from schemas.usage import MemoryUsed
from streams.embedded.log import EmbeddedLog
from streams.headers import event_headers
from streams.kafka.log import KafkaLog
from streams.log import LogAppender, NewRecord
from streams.record import Headers
from workers.clock import milliseconds
from workers.stage import Position

Message = Contract | Mapping[str, Any]


class Publisher:
    """Publishes tool executions, insight operations, uses of the memory, valuations of portfolios and what language models said,
    which is what outsiders may publish (law 2).

    Takes a log, or the settings that name one (it opens the log then, and closes it). ``source`` becomes the ``ce_source`` header.
    Every method returns when the records are on disk.

    Raises:
        LogError: the settings name a Kafka cluster that cannot be reached.
    """

    def __init__(self, log: LogAppender | Settings, *, source: str = "publisher") -> None:
        self._owned: EmbeddedLog | KafkaLog | None = None
        self._log: LogAppender
        if isinstance(log, Settings):
            self._log = self._owned = KafkaLog(log) if log.on_kafka else EmbeddedLog(log.log_path)
        else:
            self._log = log
        self._source = source

    def publish(self, message: Message, *, traceparent: str | None = None) -> Position:
        """Publish one message: a contract, or its fields (with an ``op_id``: an insight operation; with a ``use_id``: a use; with a
        ``portfolio`` and no ``tool``: a valuation; else: a tool execution).

        Raises:
            ContractError: it is not what its contract says; nothing was sent.
        """
        return self.publish_many([message], traceparent=traceparent)[0]

    def publish_many(self, messages: Iterable[Message], *, traceparent: str | None = None) -> list[Position]:
        """Publish several messages in order, all or nothing.

        Raises:
            ContractError: one of them is not what its contract says; none was sent.
        """
        return self._log.append([self._record(message, traceparent) for message in messages])

    def publish_raw(self, topic: Topic | str, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Position:
        """Append a record as it is, unchecked: for replays, and for tests of what the pipeline does with garbage."""
        return self._log.append([NewRecord(str(topic), key, value, headers)])[0]

    def close(self) -> None:
        """Close the log, where the publisher opened it."""
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _record(self, message: Message, traceparent: str | None) -> NewRecord:
        """Decoded once as the reader will: a contract changed by ``model_copy`` was never checked, and the size counts too."""
        topic = _topic_of(message)
        sent = message.to_wire() if isinstance(message, Contract) else _plain_json(message)
        checked = decode(topic.carries, sent)
        value = sent if isinstance(message, Contract) else checked.to_wire()
        key, message_id, moment = _address(checked)
        headers = event_headers(topic, message_id, milliseconds(moment), source=self._source, traceparent=traceparent)
        return NewRecord(topic.name, key.encode(), value, headers)


def _topic_of(message: Message) -> Topic:
    if isinstance(message, Contract):
        if isinstance(message, Episode) and message.forgotten is not None:
            return EPISODES_RECORDED
        for topic in (TOOLS_EXECUTED, OPERATIONS, MEMORY_USED, PORTFOLIO_VALUED, MODEL_SAID):
            if message.wire_name == topic.carries:
                return topic
        raise TypeError(f"a {type(message).__name__} is made by the pipeline; publish what happened or what is wanted")
    if "op_id" in message:
        return OPERATIONS
    if "portfolio" in message and "tool" not in message:
        return PORTFOLIO_VALUED
    return MEMORY_USED if "use_id" in message else TOOLS_EXECUTED


def _address(message: Any) -> tuple[str, str, datetime]:
    """Record key, message id and event time."""
    if isinstance(message, ToolExecution):
        return message.key, message.event_id, message.ts_executed
    if isinstance(message, MemoryUsed):
        return message.agent_id, message.use_id, message.ts
    if isinstance(message, PortfolioValuation):
        return message.key, message.valuation_id, message.ts
    if isinstance(message, Episode):
        return message.key, content_id("forgotten", message.id), message.ts
    if isinstance(message, ModelSaid):
        return message.subject, message.said_id, message.ts
    return message.insight_id, message.op_id, message.ts


def _plain_json(fields: Mapping[str, Any]) -> bytes:
    """Exact whatever the size of integers; what is not JSON (half characters, NaN) is left for the contract to refuse."""
    return json.dumps(dict(fields), default=str, ensure_ascii=False).encode("utf-8", "surrogatepass")
