"""Provisioning against a broker: what is made, found wrong, corrected and refused."""

from __future__ import annotations

import asyncio

import pytest

from schemas.settings import Settings
from schemas.topics import CHECKPOINTS, EPISODES_RECORDED, INSIGHTS_UPDATED, SIGNALS_RAISED, TOOLS_EXECUTED, TOPICS
from streams.kafka.log import KafkaLog
from streams.kafka.topics import admin_client, apply, apply_topics, check_topics, configuration
from streams.log import LogError, LogMismatch
from tests.support.kafka import fresh_topics

pytestmark = pytest.mark.kafka


async def _delete(settings: Settings, name: str) -> None:
    async with admin_client(settings) as admin:
        await admin.delete_topics([name])


async def _alter(settings: Settings, name: str, values: dict[str, str]) -> None:
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    async with admin_client(settings) as admin:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, values)])


async def _own_values(settings: Settings, name: str) -> dict[str, str]:
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    async with admin_client(settings) as admin:
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    return {entry[0]: entry[1] for entry in answer.resources[0][4] if entry[3] == 1}


def test_a_provisioned_cluster_has_no_findings_and_apply_does_nothing(kafka: Settings) -> None:
    assert asyncio.run(check_topics(kafka)) == []
    assert asyncio.run(apply_topics(kafka)) == []
    assert asyncio.run(_own_values(kafka, INSIGHTS_UPDATED.name)) == configuration(INSIGHTS_UPDATED)


def test_a_missing_topic_is_found_and_made(kafka: Settings) -> None:
    asyncio.run(_delete(kafka, SIGNALS_RAISED.name))
    assert [(finding.topic, finding.problem) for finding in asyncio.run(check_topics(kafka))] == [
        (SIGNALS_RAISED.name, "is missing")
    ]
    with pytest.raises(LogMismatch, match=r"lacks brain\.signals\.raised\.v1: run `defi-brain topics apply`"):
        KafkaLog(kafka)
    assert asyncio.run(apply_topics(kafka)) == [f"{SIGNALS_RAISED.name}: created with 4 partitions"]
    assert asyncio.run(check_topics(kafka)) == []


def test_other_settings_are_found_and_corrected_and_the_operators_own_are_kept(kafka: Settings) -> None:
    asyncio.run(_alter(kafka, EPISODES_RECORDED.name, {"retention.ms": "1000", "flush.messages": "777"}))
    problems = {finding.problem for finding in asyncio.run(check_topics(kafka))}
    assert "retention.ms is 1000, not -1" in problems
    assert "message.timestamp.type is CreateTime, not LogAppendTime" in problems
    asyncio.run(apply_topics(kafka))
    assert asyncio.run(check_topics(kafka)) == []
    assert asyncio.run(_own_values(kafka, EPISODES_RECORDED.name)) == {**configuration(EPISODES_RECORDED), "flush.messages": "777"}


def test_a_wrong_partition_count_is_refused_and_nothing_is_changed(kafka: Settings) -> None:
    from aiokafka.admin import NewTopic

    async def replace() -> None:
        async with admin_client(kafka) as admin:
            await admin.delete_topics([TOOLS_EXECUTED.name, CHECKPOINTS.name])
            await admin.create_topics([NewTopic(TOOLS_EXECUTED.name, 3, 1)])
            while TOOLS_EXECUTED.name not in await admin.list_topics():
                await asyncio.sleep(0.05)

    asyncio.run(replace())
    findings = asyncio.run(check_topics(kafka))
    assert [(finding.topic, finding.can_apply) for finding in findings] == [(TOOLS_EXECUTED.name, False), (CHECKPOINTS.name, True)]
    with pytest.raises(LogMismatch, match="has 3 partitions, not 4"):
        asyncio.run(apply_topics(kafka))
    with pytest.raises(LogMismatch, match="has 3 partitions, not 4"):
        KafkaLog(kafka)
    assert asyncio.run(check_topics(kafka)) == findings


def test_two_that_apply_at_once_do_no_harm(kafka: Settings) -> None:
    async def both() -> None:
        async with admin_client(kafka) as one, admin_client(kafka) as other:
            await one.delete_topics([topic.name for topic in TOPICS])
            while set(await one.list_topics()) & {topic.name for topic in TOPICS}:
                await asyncio.sleep(0.05)
            await asyncio.gather(apply(one), apply(other))

    asyncio.run(both())
    assert asyncio.run(check_topics(kafka)) == []


def test_the_log_id_changes_when_a_topic_is_replaced(kafka: Settings) -> None:
    with KafkaLog(kafka) as log, KafkaLog(kafka) as same:
        first = log.log_id
        assert same.log_id == first
    fresh_topics(kafka)
    with KafkaLog(kafka) as log:
        assert log.log_id != first


def test_a_cluster_that_is_not_there_is_named(kafka: Settings) -> None:
    elsewhere = kafka.model_copy(update={"broker": "kafka://127.0.0.1:1"})
    with pytest.raises(LogError, match=r"the cluster at 127\.0\.0\.1:1 cannot be reached"):
        KafkaLog(elsewhere)
