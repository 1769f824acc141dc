"""The meter and the log's part: every number is what the log says, and law 5 can be read off the counters."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kafka import INPUTS
from gateway.metrics import catalogue, log_part
from gateway.metrics.distribution import Distribution
from gateway.metrics.log_part import LogPart
from gateway.metrics.meter import Meter
from schemas.base import Contract
from schemas.codec import CONTRACTS
from schemas.events import ToolExecution
from schemas.topics import EPISODES_RECORDED, TOOLS_EXECUTED, Topic
from streams.embedded.log import EmbeddedLog
from streams.embedded.tallies import StageTally
from streams.embedded.worker import Progress
from streams.publisher import Publisher
from tests.support.metrics import probe, series
from tests.support.streams import START, execution, fill
from workers.stage import Delivery, Position

STAGES = ("episodes", "sums", "store")
OUTCOMES = ("processed", "duplicates", "late", "rejected")


def test_the_counts_add_up_and_are_the_logs(tmp_path: Path) -> None:
    with probe(tmp_path) as one:
        published = fill(one.log)
        one.driver.run_until_idle()
        assert one.value("defi_brain_stage_received_records_total", stage="episodes") == published
        for stage, tally in one.log.tallies().items():
            assert one.value("defi_brain_stage_received_records_total", stage=stage) == tally.received
            parts = [one.value("defi_brain_stage_records_total", stage=stage, outcome=outcome) for outcome in OUTCOMES]
            assert sum(part or 0 for part in parts) == tally.received
            for reason, count in tally.reasons.items():
                assert one.value("defi_brain_stage_rejected_records_total", stage=stage, reason=reason) == count
            for topic, count in tally.emitted.items():
                assert one.value("defi_brain_stage_emitted_records_total", stage=stage, topic=topic) == count
        assert one.value("defi_brain_relayed_updates_total", stage="store") == one.log.relay_position("store")
        assert one.value("defi_brain_stage_replayed_records_total", stage="sums") == 0


def test_outcomes_are_there_before_anything_happens(tmp_path: Path) -> None:
    """A counter that is born at one shows no increase: the first dead letter must be seen."""
    with probe(tmp_path) as one:
        for stage in STAGES:
            assert one.value("defi_brain_stage_records_total", stage=stage, outcome="rejected") == 0
            assert one.value("defi_brain_stage_in_process_records", stage=stage) == 0


def test_counters_go_on_after_a_restart_and_the_replay_shows(tmp_path: Path) -> None:
    with probe(tmp_path) as one:
        fill(one.log)
        one.driver.run_until_idle()
        before = one.value("defi_brain_stage_received_records_total", stage="sums")
    (tmp_path / "store.db").unlink()
    with probe(tmp_path) as one:
        one.driver.run_until_idle()
        assert one.value("defi_brain_stage_received_records_total", stage="sums") == before
        replayed = one.value("defi_brain_stage_replayed_records_total", stage="store")
        assert replayed == sum(one.log.stage_offsets("store").values())


def test_lags(tmp_path: Path) -> None:
    """In records, in seconds of waiting, in seconds of event time; subscribers' groups like stages."""
    with probe(tmp_path) as one:
        Publisher(one.log).publish_many(execution(n) for n in range(10))  # one key, one minute apart
        one.log.commit("desk", {(TOOLS_EXECUTED.name, 0): 0})
        (where,) = [(lag.topic, str(lag.partition)) for lag in one.log.lags() if lag.consumer == "episodes" and lag.records]
        labels = {"consumergroup": "episodes", "topic": where[0], "partition": where[1]}
        assert one.value("kafka_consumergroup_lag", **labels) == 10
        assert one.value("kafka_consumergroup_current_offset", **labels) == 0
        assert one.value("kafka_topic_partition_current_offset", topic=where[0], partition=where[1]) == 10
        assert one.value("defi_brain_lag_event_time_seconds", **labels) == 9 * 60
        assert (one.value("defi_brain_lag_seconds", **labels) or 0) > 0
        assert one.value("kafka_consumergroup_lag", consumergroup="desk", topic=where[0], partition="0") is not None
        one.driver.run_until_idle()
        for name in ("kafka_consumergroup_lag", "defi_brain_lag_event_time_seconds", "defi_brain_lag_seconds"):
            assert one.value(name, **labels) == 0
        assert one.value("defi_brain_stage_event_time_seconds", stage="episodes") == START.timestamp() + 9 * 60


def test_event_time_that_is_not_known_is_absent(tmp_path: Path) -> None:
    with probe(tmp_path) as one:
        Publisher(one.log).publish_raw(TOOLS_EXECUTED, b"key", b"{}", (("ce_time", b"yesterday"),))
        (lag,) = [lag for lag in one.log.lags() if lag.records and lag.consumer == "episodes"]
        labels = {"consumergroup": "episodes", "topic": lag.topic, "partition": str(lag.partition)}
        assert one.value("kafka_consumergroup_lag", **labels) == 1
        assert one.value("defi_brain_lag_event_time_seconds", **labels) is None


def test_durations_and_ages() -> None:
    now = START.timestamp() + 100
    meter = Meter(clock=lambda: now)
    delivery = Delivery(Position(TOOLS_EXECUTED.name, 0, 0), b"key", execution(1), round((now - 2) * 1000))
    meter.take(Progress("episodes", StageTally(received=1, processed=1), deliveries=[delivery], handle_s=0.03, commit_s=0.002))
    shapes = {sample.metric: sample.value for sample in meter.samples()}
    assert dict(shapes[catalogue.HANDLE].buckets)["0.05"] == 1  # type: ignore[union-attr]
    assert shapes[catalogue.COMMIT].total == pytest.approx(0.002)  # type: ignore[union-attr]
    assert shapes[catalogue.RECORD_AGE].total == pytest.approx(2.0)  # type: ignore[union-attr]
    assert shapes[catalogue.EVENT_AGE].total == pytest.approx(40.0)  # type: ignore[union-attr] # executed a minute after START
    assert shapes[catalogue.LAST_COMMIT] == now
    assert meter.last_commits() == {"episodes": now}


def test_progress_is_handed_on() -> None:
    heard: list[Progress] = []
    progress = Progress("store", StageTally(), relayed=3)
    Meter(heard.append).take(progress)
    assert heard == [progress]


@given(st.lists(st.floats(-5, 100), max_size=50), st.lists(st.floats(-5, 100), max_size=50))
def test_a_distribution_is_a_histogram(first: list[float], second: list[float]) -> None:
    ends = (0.5, 1.0, 10.0)
    seen = Distribution(ends)
    seen.add(first)
    before = seen.shape()
    seen.add(second)
    values = np.maximum(np.array(first + second), 0.0)
    counts = [float((values <= end).sum()) for end in ends]
    shape = seen.shape()
    assert shape.buckets == (("0.5", counts[0]), ("1.0", counts[1]), ("10.0", counts[2]), ("+Inf", float(len(values))))
    assert shape.total == pytest.approx(values.sum())
    assert shape.total >= before.total
    assert all(now[1] >= then[1] for now, then in zip(shape.buckets, before.buckets, strict=True))


def test_reasons_are_bounded_and_never_fall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that invents reasons cannot blow up the number of series; what has a series keeps it."""
    monkeypatch.setattr(log_part, "MOST_REASONS", 2)
    tallies = {"s": StageTally(reasons={"b": 2, "c": 3})}

    class Log(EmbeddedLog):
        def tallies(self) -> dict[str, StageTally]:
            return tallies

    with Log(tmp_path / "log.db") as log:
        part = LogPart(log, dict, dict, 0.0)

        def reasons() -> dict[str, float]:
            return {s.labels[1]: s.value for s in part.samples() if s.metric is catalogue.REJECTED}  # type: ignore[misc]

        assert reasons() == {"b": 2, "c": 3}
        tallies["s"].reasons |= {"a": 5, "d": 7, "c": 4}
        assert reasons() == {"b": 2, "c": 4, log_part.OTHER: 12}


def test_only_what_the_catalogue_lists_is_exported(tmp_path: Path) -> None:
    known = {name: metric.labels for metric in catalogue.METRICS for name in metric.series}
    with probe(tmp_path) as one:
        fill(one.log)
        one.driver.run_until_idle()
        for name, labels in series(one.observation.registry).items():
            if name not in catalogue.RUNTIME:
                bare = {tuple(label for label in found if label != "le") for found in labels}
                assert bare == {known[name]}, name


def test_episodes_topic_has_an_end(tmp_path: Path) -> None:
    with probe(tmp_path) as one:
        fill(one.log, garbage=False)
        one.driver.run_until_idle()
        ends = one.log.end_offsets(EPISODES_RECORDED.name)
        for partition, end in ends.items():
            labels = {"topic": EPISODES_RECORDED.name, "partition": str(partition)}
            assert one.value("kafka_topic_partition_current_offset", **labels) == end


def contracts(kind: Any) -> list[type[Contract]]:
    """The classes of a contract or of a union of them."""
    if isinstance(kind, type) and issubclass(kind, Contract):
        return [kind]
    return [one for part in get_args(kind) for one in contracts(part)]


@pytest.mark.parametrize("topic", sorted({topic for topics in INPUTS.values() for topic in topics}, key=str), ids=str)
def test_everything_that_a_stage_reads_has_an_event_time(topic: Topic) -> None:
    """A stage whose records the meter cannot date would fail with it."""
    kinds = contracts(CONTRACTS[topic.carries]._type)
    assert kinds
    for kind in kinds:
        assert kind is ToolExecution or "ts" in kind.model_fields or isinstance(getattr(kind, "ts", None), property), kind
