"""Topic ids: what tells a topic from another one of the same name that took its place.

aiokafka asks for metadata in a version that has no topic ids, so the request is spelled out here in version 10 (KIP-516); the
broker answers it from Kafka 2.8 on.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any
from uuid import UUID

from streams.log import LogError, UnknownTopic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiokafka.client import AIOKafkaClient

_ZERO = UUID(int=0)


def _request(topics: Sequence[str]) -> Any:
    from aiokafka.protocol.api import Request, RequestStruct, Response
    from aiokafka.protocol.types import (
        AbstractType,
        Boolean,
        CompactArray,
        CompactString,
        Int16,
        Int32,
        Schema,
        TaggedFields,
    )

    class Uuid(AbstractType):  # type: ignore[misc]
        @classmethod
        def encode(cls, value: UUID) -> bytes:
            return value.bytes

        @classmethod
        def decode(cls, data: BytesIO) -> UUID:
            return UUID(bytes=data.read(16))

    text = CompactString("utf-8")
    partition = (
        ("error_code", Int16),
        ("partition", Int32),
        ("leader", Int32),
        ("leader_epoch", Int32),
        ("replicas", CompactArray(Int32)),
        ("isr", CompactArray(Int32)),
        ("offline", CompactArray(Int32)),
        ("tags", TaggedFields),
    )

    class MetadataResponse10(Response):  # type: ignore[misc]
        API_KEY = 3
        API_VERSION = 10
        SCHEMA = Schema(
            ("throttle_time_ms", Int32),
            ("brokers", CompactArray(("node_id", Int32), ("host", text), ("port", Int32), ("rack", text), ("tags", TaggedFields))),
            ("cluster_id", text),
            ("controller_id", Int32),
            (
                "topics",
                CompactArray(
                    ("error_code", Int16),
                    ("topic", text),
                    ("topic_id", Uuid),
                    ("is_internal", Boolean),
                    ("partitions", CompactArray(*partition)),
                    ("operations", Int32),
                    ("tags", TaggedFields),
                ),
            ),
            ("cluster_operations", Int32),
            ("tags", TaggedFields),
        )

    class MetadataRequest10(RequestStruct):  # type: ignore[misc]
        API_KEY = 3
        API_VERSION = 10
        FLEXIBLE_VERSION = True
        RESPONSE_TYPE = MetadataResponse10
        SCHEMA = Schema(
            ("topics", CompactArray(("topic_id", Uuid), ("topic", text), ("tags", TaggedFields))),
            ("allow_auto_topic_creation", Boolean),
            ("include_cluster_operations", Boolean),
            ("include_topic_operations", Boolean),
            ("tags", TaggedFields),
        )

    class MetadataRequest(Request[MetadataRequest10]):  # type: ignore[misc]
        API_KEY = 3

        def build(self, request_struct_class: type[Any]) -> Any:
            return request_struct_class([(_ZERO, name, {}) for name in topics], False, False, False, {})

    return MetadataRequest()


async def topic_ids(client: AIOKafkaClient, topics: Sequence[str]) -> dict[str, UUID]:
    """The id of each topic.

    Raises:
        UnknownTopic: the cluster does not have one of them.
        LogError: the broker is too old to know topic ids.
    """
    try:
        answer = await client.send(client.get_random_node(), _request(topics))
    except NotImplementedError:
        raise LogError("the broker is too old: topic ids need Kafka 2.8 or later") from None
    found: dict[str, UUID] = {}
    for error, name, topic_id, *_ in answer.topics:
        if error:
            raise UnknownTopic(f"the cluster has no topic {name}: run `defi-brain topics apply`")
        found[name] = topic_id
    return found
