"""Upkeep: decided by the market's time, told as operations, applied once, and nothing that a rebuild decides again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.composition import Layout, open_sinks
from gateway.fingerprint import fingerprint
from gateway.upkeep import Sweep, event_time, look, sweep, upkeep_beside
from schemas.claims import Category
from schemas.errors import BrainError
from schemas.operations import ArchiveInsight, RestoreInsight
from schemas.settings import Settings
from schemas.signals import RegimeSignal
from schemas.topics import OPERATIONS, SIGNALS_RAISED
from stores.episodes import EpisodeStore
from streams.rebuild import fold
from streams.relay import to_record
from tests.support.gateway import ADMIN, Brain, WordEmbedder, running_brain
from tests.support.regimes import regime_signal
from tests.support.sqlite import KEY, add, at, directive, evidence, note, op, use
from workers.stage import Emission


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[Brain]:
    with running_brain(tmp_path) as running:
        yield running


def swept(brain: Brain, embedder: WordEmbedder | None = None) -> Sweep:
    done = sweep(brain.log, brain.insights, None, embedder)
    brain.settle()
    return done


def status(brain: Brain, insight_id: str) -> str:
    return str(brain.service.insight(ADMIN, insight_id).status)


def raise_signals(brain: Brain, *signals: RegimeSignal) -> None:
    """Put signals into the log as their stage does."""
    brain.log.append([to_record(Emission(SIGNALS_RAISED, one.stream, one, one.id, 0), "signals") for one in signals])
    brain.settle()


def day(number: float) -> float:
    return 24 * number


def test_what_is_past_its_time_leaves_and_comes_back_with_fresh_evidence(brain: Brain) -> None:
    """The market's time is that of what was validated last: without anything newer, nothing is old."""
    brain.publish(add("gas", category=Category.GAS_TIMING), add("mev", category=Category.MEV_PATTERN))
    assert swept(brain).operations == ()
    brain.publish(add("later", ts=at(day(8))))
    done = swept(brain)
    assert [(one.insight_id, one.ts) for one in done.expired] == [("gas", at(day(7)))]
    assert (status(brain, "gas"), status(brain, "mev")) == ("archived", "active")
    assert swept(brain).operations == ()
    brain.publish(op("UPVOTE", "gas", "u", day(9), evidence=evidence()))
    assert status(brain, "gas") == "active"


def test_what_is_used_lives_longer(brain: Brain) -> None:
    brain.publish(add("plain"), add("used"), add("later", ts=at(day(31))), *(use(f"u{n}", "used") for n in range(4)))
    assert [one.insight_id for one in swept(brain).expired] == ["plain"]


def test_it_returns_with_its_regime(brain: Brain) -> None:
    told = [(1, "calm", None, 0), (2, "turbulent", "calm", 5), (3, "calm", "turbulent", 50)]
    signals = [regime_signal(n, regime, before, ts=at(day(when)), since=at(day(when))) for n, regime, before, when in told]
    raise_signals(brain, *signals[:2])
    brain.publish(add("i", ts=at(day(1))), add("w", ts=at(day(6))), add("later", key="*", ts=at(day(45))))
    assert {one.insight_id for one in swept(brain).expired} == {"i", "w"}
    assert swept(brain).returned == ()
    raise_signals(brain, signals[2])
    assert [one.insight_id for one in swept(brain).returned] == ["i"]
    assert (status(brain, "i"), status(brain, "w")) == ("active", "archived")
    assert swept(brain).operations == ()


def test_what_was_noted_and_is_then_learned_becomes_one(brain: Brain) -> None:
    embedder = WordEmbedder()
    brain.publish(
        note("n", "Swaps on Curve cost more than 30 bps at night.", importance=0.9),
        note("m", "Swaps on Curve cost more than 40 bps at night."),
        add("i", text="At night swaps on Curve cost more than 30 bps.", key="*", importance=0.3),
        use("u", "n"),
    )
    assert look(brain.insights, None, None).merged == ()
    done = swept(brain, embedder)
    assert [(one.insight_id, one.by, one.cause) for one in done.merged] == [("n", "i", "merged")]
    assert "every value is equal" in done.merged[0].reason
    assert (status(brain, "n"), status(brain, "m"), brain.service.insight(ADMIN, "i").importance) == ("archived", "active", 0.9)
    assert brain.insights.tallies(["i"])["i"].helpful == 1
    assert swept(brain, embedder).operations == ()


def test_directives_end_and_do_not_age(brain: Brain) -> None:
    brain.publish(directive("d", expires_at=at(day(2))), directive("e"), add("later", ts=at(day(400))))
    assert [one.insight_id for one in swept(brain).expired] == ["d"]


def test_what_is_dated_at_the_end_of_time_keeps_nothing_else_from_being_swept(brain: Brain) -> None:
    """An operation may come from any producer, and one whose year is a mistake is a valid one."""
    last = datetime.max.replace(tzinfo=UTC)
    raise_signals(brain, regime_signal(1, "calm", None, ts=at(day(1)), since=at(day(1))))
    gone = op("ARCHIVE", "out", "a", cause="expired").model_copy(update={"ts": last})
    brain.publish(add("wrong", ts=last), add("out", ts=last), gone, add("gas", category=Category.GAS_TIMING))
    assert [one.insight_id for one in swept(brain).expired] == ["gas"]
    assert (status(brain, "wrong"), status(brain, "out")) == ("active", "archived")


def test_a_rebuild_decides_nothing_and_knows_the_same(brain: Brain, tmp_path: Path) -> None:
    brain.publish(
        add("a"), add("b", category=Category.EMERGENCY), note("n", "Insight a holds.", key=KEY), add("later", ts=at(day(40)))
    )
    assert swept(brain, WordEmbedder()).operations
    sent = sum(brain.log.end_offsets(OPERATIONS.name))
    with open_sinks(Layout(tmp_path / "again"), WordEmbedder()) as sinks:
        fold(brain.log, [sinks.episode_sink, sinks.writer])
        again = fingerprint(sinks.episodes, sinks.insights)
        with EpisodeStore.open(Layout(tmp_path).episodes) as episodes:
            assert again == fingerprint(episodes, brain.insights)
    assert sum(brain.log.end_offsets(OPERATIONS.name)) == sent


def test_the_markets_time_is_that_of_its_latest_episode(brain: Brain, tmp_path: Path) -> None:
    with EpisodeStore.open(Layout(tmp_path).episodes) as episodes:
        assert event_time(brain.insights, episodes) is None
        brain.publish(add("a", ts=at(day(3))))
        assert event_time(brain.insights, episodes) == at(day(3))


def test_a_process_beside_the_pipeline_sweeps_by_itself(brain: Brain, tmp_path: Path) -> None:
    brain.publish(add("gas", category=Category.GAS_TIMING), add("later", ts=at(day(8))))
    with upkeep_beside(Settings(data_dir=tmp_path), brain.log, WordEmbedder(), every_s=0.01):
        while status(brain, "gas") == "active":
            brain.log.wait(brain.log.changes(), 0.25)
    kinds = {type(one) for one in look(brain.insights, None, None).operations}
    assert not kinds & {ArchiveInsight, RestoreInsight}


def test_a_sweep_that_fails_is_told_and_tried_again(
    brain: Brain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [BrainError("the store is busy"), RuntimeError("a fault of ours")]

    def failing(*arguments: Any) -> Sweep:
        if failures:
            raise failures.pop(0)
        return look(*arguments)

    monkeypatch.setattr("gateway.upkeep.look", failing)
    brain.publish(add("gas", category=Category.GAS_TIMING), add("later", ts=at(day(8))))
    with upkeep_beside(Settings(data_dir=tmp_path), brain.log, WordEmbedder(), every_s=0.01):
        while status(brain, "gas") == "active":
            brain.log.wait(brain.log.changes(), 0.25)
    told = [(record.levelname, record.getMessage(), record.exc_info is not None) for record in caplog.records]
    assert told[0] == ("WARNING", "no upkeep this time: the store is busy", False)
    assert told[1] == ("ERROR", "upkeep failed; it is tried again in 0.01 s", True)
