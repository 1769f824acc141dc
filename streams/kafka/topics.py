"""Provisioning: the topics of ``schemas/topics.py`` on a cluster, made and checked explicitly, never guessed at.

The partition count is the one thing that is never changed: event order and the partitioner depend on it, so a topic that has
another count is refused and has to be replaced by hand. Everything else is settings of the topic and can be brought in line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schemas.codec import FROM_OUTSIDE
from schemas.settings import Settings
from schemas.topics import CHECKPOINTS, RECORDS_REJECTED, TOPICS, Cleanup, Topic
from streams.kafka.client import client_arguments, require_extra
from streams.kafka.tokens import ensure_token
from streams.log import LogError, LogMismatch

if TYPE_CHECKING:
    from aiokafka.admin import AIOKafkaAdminClient

INPUT_MAX_BYTES = 1_048_588
"""What producers may send in one record: Kafka's own default."""
INTERNAL_MAX_BYTES = 8 * 1024 * 1024
"""Topics that only the pipeline writes to: an episode holds its event and more."""
LETTER_MAX_BYTES = 16 * 1024 * 1024
"""A dead letter holds its record's bytes, whichever topic that stood in, in base64: one that could not be written would stop a
stage for good."""
CHECKPOINT_MAX_BYTES = 48 * 1024 * 1024
"""A checkpoint is the state of one partition, compressed."""

VISIBLE_WITHIN_S = 30.0
"""How long a topic that was made may take to be known to the brokers."""

_UNKNOWN_TOPIC = 3
_OWN_SETTING = 1
"""The source code that Kafka gives a setting made on the topic itself."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with one topic. ``can_apply`` says whether ``apply`` may put it right."""

    topic: str
    problem: str
    can_apply: bool


def configuration(topic: Topic) -> dict[str, str]:
    """A topic's settings.

    >>> configuration(CHECKPOINTS)["cleanup.policy"]
    'compact'
    """
    policy = "delete" if topic.cleanup is Cleanup.KEEP else str(topic.cleanup)
    settings = {
        "cleanup.policy": policy,
        # The log's own time of arrival: what is future-dated is judged against it, so no producer may set it.
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(_max_bytes(topic)),
    }
    if topic.cleanup is Cleanup.KEEP:
        settings |= {"retention.ms": "-1", "retention.bytes": "-1"}
    elif topic.retention_ms is not None:
        settings["retention.ms"] = str(topic.retention_ms)
    if topic.cleanup is Cleanup.COMPACT:
        settings |= {"segment.bytes": str(128 * 1024 * 1024), "min.cleanable.dirty.ratio": "0.1"}
    return settings


def _max_bytes(topic: Topic) -> int:
    if topic.carries in FROM_OUTSIDE:
        return INPUT_MAX_BYTES
    return {CHECKPOINTS: CHECKPOINT_MAX_BYTES, RECORDS_REJECTED: LETTER_MAX_BYTES}.get(topic, INTERNAL_MAX_BYTES)


async def examine(admin: AIOKafkaAdminClient, topics: Sequence[Topic] = TOPICS) -> list[Finding]:
    """What differs from the table: missing topics, wrong partition counts, other settings."""
    described = {found["topic"]: found for found in await admin.describe_topics([topic.name for topic in topics])}
    findings: list[Finding] = []
    there: list[Topic] = []
    for topic in topics:
        found = described.get(topic.name)
        if found is None or found["error_code"] == _UNKNOWN_TOPIC:
            findings.append(Finding(topic.name, "is missing", True))
        elif found["error_code"]:
            raise LogError(f"the cluster will not describe {topic.name}: error {found['error_code']}; see the ACL table")
        elif len(found["partitions"]) != topic.partitions:
            problem = f"has {len(found['partitions'])} partitions, not {topic.partitions}: event order depends on it; replace it"
            findings.append(Finding(topic.name, problem, False))
        else:
            there.append(topic)
    actual = await _settings_of(admin, there)
    for topic in there:
        wrong = {k: v for k, v in configuration(topic).items() if not _same(actual[topic.name].get(k, ("",))[0], v)}
        findings += [Finding(topic.name, f"{k} is {actual[topic.name].get(k, ('?',))[0]}, not {v}", True) for k, v in wrong.items()]
    return findings


async def apply(admin: AIOKafkaAdminClient, topics: Sequence[Topic] = TOPICS, replication: int = 1) -> list[str]:
    """Make what is missing and correct settings; what was done, one line each. Settings that others made are left alone.

    Raises:
        LogMismatch: a topic has a wrong partition count; nothing is changed.
    """
    findings = await examine(admin, topics)
    _refuse(findings)
    done: list[str] = []
    for topic in topics:
        problems = [finding.problem for finding in findings if finding.topic == topic.name]
        if "is missing" in problems:
            await _create(admin, topic, replication)
            done.append(f"{topic.name}: created with {topic.partitions} partition{'s' if topic.partitions > 1 else ''}")
        elif problems:
            await _correct(admin, topic)
            done += [f"{topic.name}: {problem}; corrected" for problem in problems]
    await _until_visible(admin, topics)
    return done


async def require(admin: AIOKafkaAdminClient, topics: Sequence[Topic] = TOPICS) -> None:
    """Refuse a cluster that lacks a topic or has one with another partition count.

    Raises:
        LogMismatch: the message names the topics and what to do.
    """
    findings = await examine(admin, topics)
    _refuse(findings)
    missing = [finding.topic for finding in findings if finding.problem == "is missing"]
    if missing:
        raise LogMismatch(f"the cluster lacks {', '.join(missing)}: run `defi-brain topics apply`")


async def check_topics(settings: Settings) -> list[Finding]:
    """``defi-brain topics check``: an empty list is a cluster as it should be."""
    async with admin_client(settings) as admin:
        return await examine(admin)


async def apply_topics(settings: Settings) -> list[str]:
    """``defi-brain topics apply``: what was done, one line each; see :func:`apply`."""
    async with admin_client(settings) as admin:
        return await apply(admin, replication=settings.kafka_replication)


@asynccontextmanager
async def admin_client(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    """``async with admin_client(settings) as admin``. Raises LogError when the cluster cannot be reached."""
    require_extra()
    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.errors import KafkaError

    arguments = client_arguments(settings)
    await ensure_token(arguments.get("sasl_oauth_token_provider"))
    admin = AIOKafkaAdminClient(**arguments)
    try:
        await admin.start()
    except KafkaError as error:
        await admin.close()
        raise LogError(
            f"the cluster at {','.join(arguments['bootstrap_servers'])} cannot be reached: {error}",
            hint="does it run, and do the broker's address and the kafka_* settings fit it?",
        ) from None
    try:
        yield admin
    finally:
        await admin.close()


def _refuse(findings: Sequence[Finding]) -> None:
    wrong = [finding for finding in findings if not finding.can_apply]
    if wrong:
        raise LogMismatch("; ".join(f"{finding.topic} {finding.problem}" for finding in wrong))


def _same(actual: str, wanted: str) -> bool:
    """Whether two values of a setting mean the same; lists have no order."""
    return set(str(actual).split(",")) == set(wanted.split(","))


async def _create(admin: AIOKafkaAdminClient, topic: Topic, replication: int) -> None:
    from aiokafka.admin import NewTopic
    from aiokafka.errors import TopicAlreadyExistsError, for_code

    new = NewTopic(topic.name, topic.partitions, replication, topic_configs=configuration(topic))
    answer = await admin.create_topics([new])
    for _, code, message in answer.topic_errors:
        error = for_code(code)
        if code and error is not TopicAlreadyExistsError:  # another process was first
            raise LogError(f"{topic.name} could not be created: {message or error.__name__}")


async def _until_visible(admin: AIOKafkaAdminClient, topics: Sequence[Topic]) -> None:
    """Wait until the broker that answers us knows every topic: the controller tells brokers of a new one a little later."""
    names = {topic.name for topic in topics}
    async with asyncio.timeout(VISIBLE_WITHIN_S):
        while names - set(await admin.list_topics()):
            await asyncio.sleep(0.05)


async def _settings_of(admin: AIOKafkaAdminClient, topics: Sequence[Topic]) -> dict[str, dict[str, tuple[str, int]]]:
    """Each topic's settings as (value, source)."""
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    if not topics:
        return {}
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in topics])
    settings: dict[str, dict[str, tuple[str, int]]] = {}
    for answer in answers:
        for code, message, _, name, entries in answer.resources:
            if code:
                raise LogError(f"the settings of {name} cannot be read: {message}; see the ACL table")
            settings[name] = {entry[0]: (entry[1], entry[3]) for entry in entries}
    return settings


async def _correct(admin: AIOKafkaAdminClient, topic: Topic) -> None:
    """Set our settings; the request replaces all of a topic's own settings, so others' are sent along."""
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    current = (await _settings_of(admin, [topic]))[topic.name]
    kept = {name: value for name, (value, source) in current.items() if source == _OWN_SETTING}
    wanted: dict[str, Any] = {**kept, **configuration(topic)}
    for answer in await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic.name, wanted)]):
        for code, message, *_ in answer.resources:
            if code:
                raise LogError(f"the settings of {topic.name} could not be changed: {message}")
