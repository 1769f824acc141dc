"""Trace contexts: what is valid, whose child, the same again after a crash; and one trace from the producer to the update."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import ToolExecution
from schemas.topics import EPISODES_RECORDED, INSIGHTS_UPDATED, OPERATIONS, TOOLS_EXECUTED, Topic
from streams.embedded.log import EmbeddedLog
from streams.publisher import Publisher
from streams.stages.writer import InsightOutbox
from streams.tracing import Context, child, handed_on, parsed, root
from tests.support.events import swap
from tests.support.gateway import running_brain
from tests.support.sqlite import add, at

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
_hex = st.text("0123456789abcdef", min_size=1)
contexts = st.builds(
    Context,
    st.text("0123456789abcdef", min_size=32, max_size=32).filter(lambda one: one.strip("0") != ""),
    st.text("0123456789abcdef", min_size=16, max_size=16).filter(lambda one: one.strip("0") != ""),
    st.integers(0, 255),
)


@given(contexts)
def test_a_context_reads_back(context: Context) -> None:
    assert parsed(context.text) == context


@pytest.mark.parametrize(
    "text",
    [None, "", "00", GIVEN.upper(), GIVEN + "-x", "01" + GIVEN[2:], GIVEN.replace("4bf9", "4bg9"), f"00-{'0' * 32}-{'1' * 16}-01",
     f"00-{'1' * 32}-{'0' * 16}-01", GIVEN + "\n"],
)  # fmt: skip
def test_what_is_not_valid_starts_no_trace(text: str | None) -> None:
    assert parsed(text) is None
    assert handed_on(text, "embed") is None


@given(st.text(string.printable))
def test_any_text_harms_nothing(text: str) -> None:
    assert handed_on(text, "embed") is None or parsed(text) is not None


@given(contexts, st.sampled_from(["embed", "distil", "writer"]))
def test_a_child_is_of_its_trace_and_always_the_same(context: Context, stage: str) -> None:
    first, again = child(context, stage), child(context, stage)
    assert first == again
    assert (first.trace_id, first.flags) == (context.trace_id, context.flags)
    assert first.span_id != context.span_id
    assert child(context, stage + "x").span_id != first.span_id
    assert handed_on(context.text, stage) == first.text


@given(st.lists(st.text(), min_size=200, max_size=200, unique=True))
def test_a_share_of_the_records_is_followed(names: list[str]) -> None:
    followed = [name for name in names if root(name, 0.5)]
    assert 60 <= len(followed) <= 140
    assert all(root(name, 1.0) is not None and root(name, 0.0) is None for name in names)
    assert set(followed) <= {name for name in names if root(name, 0.9)}


def headers(log: EmbeddedLog, topic: Topic) -> list[Context]:
    """The contexts of a topic's records."""
    records = [record for partition in range(log.partitions(topic.name)) for record in log.read(topic.name, partition, 0, 1000)]
    return [context for record in records if (context := parsed(record.header("traceparent"))) is not None]


def test_a_trace_goes_from_the_producer_to_the_update(tmp_path: Path) -> None:
    """What an execution becomes is its child; what an operation does to an insight is the operation's; nothing else has a trace."""
    given_one, given_two = parsed(GIVEN), parsed(GIVEN.replace("4bf9", "4bfa"))
    assert given_one is not None
    assert given_two is not None
    with running_brain(tmp_path) as brain:
        publisher = Publisher(brain.log)
        publisher.publish(ToolExecution.model_validate(swap(event_id="traced", ts_executed=at(0).isoformat())), traceparent=GIVEN)
        publisher.publish(ToolExecution.model_validate(swap(event_id="plain", ts_executed=at(0).isoformat())))
        publisher.publish(add("insight", text="Something."), traceparent=given_two.text)
        publisher.publish(add("other", text="Something else."))
        brain.settle()
        assert headers(brain.log, TOOLS_EXECUTED) == [given_one]
        assert headers(brain.log, EPISODES_RECORDED) == [child(given_one, "embed")]
        assert headers(brain.log, OPERATIONS) == [given_two]
        assert headers(brain.log, INSIGHTS_UPDATED) == [child(given_two, InsightOutbox.name)]
