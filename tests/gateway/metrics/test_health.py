"""Health means progress: a stage with records to read that commits nothing is ill, and an idle one is well."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.metrics.health import judge, look
from gateway.metrics.meter import Meter
from gateway.metrics.observe import Observation
from streams.embedded.driver import EmbeddedDriver
from streams.embedded.log import EmbeddedLog
from streams.embedded.tallies import Lag, StageTally
from streams.embedded.worker import Progress, StageSlot
from streams.publisher import Publisher
from tests.support.streams import Episodes, execution
from workers.stage import Delivery, Outcome

NOW = 1_000_000.0


def lag(records: int, waited_s: float | None, stage: str = "writer") -> Lag:
    oldest = None if waited_s is None or not records else round((NOW - waited_s) * 1000)
    return Lag("stage", stage, "t", 0, 5, 5 + records, oldest)


@pytest.mark.parametrize(
    ("records", "waited_s", "silent_s", "stalled_s"),
    [
        (0, 0.0, 86_400.0, 0.0),  # idle for a day
        (3, 0.2, 86_400.0, 0.2),  # idle for a day, and something has just come
        (3, 500.0, 1.0, 1.0),  # far behind, and at work
        (3, 500.0, 400.0, 400.0),  # far behind, and still
        (3, None, 400.0, 400.0),  # a log that does not say since when
    ],
)
def test_stalled(records: int, waited_s: float | None, silent_s: float, stalled_s: float) -> None:
    seen = look([lag(records, waited_s)], ["writer"], {"writer": NOW - silent_s}, 0.0, NOW)
    assert seen["writer"].stalled_s == pytest.approx(stalled_s)


def test_a_stage_that_never_did_anything_is_silent_since_the_start() -> None:
    seen = look([lag(1, 900.0)], ["writer"], {}, NOW - 30, NOW)
    assert seen["writer"].stalled_s == pytest.approx(30.0)


def test_only_this_processs_stages_count() -> None:
    """A stage of an earlier version has offsets in the log for ever; a subscriber may read when it likes."""
    foreign = [lag(9, 900.0, "gone"), Lag("group", "writer", "t", 0, 0, 9, 0)]
    assert look(foreign, ["writer"], {}, 0.0, NOW)["writer"].lag == 0


def test_verdicts() -> None:
    def verdict(waited_s: float, silent_s: float) -> tuple[bool, bool, int]:
        stages = look([lag(2, waited_s)], ["writer"], {"writer": NOW - silent_s}, 0.0, NOW)
        health = judge(stages, stall_s=60.0, behind_s=60.0)
        return health.alive, health.ready, len(health.problems)

    assert verdict(1.0, 1.0) == (True, True, 0)
    assert verdict(300.0, 1.0) == (True, False, 1)
    assert verdict(300.0, 300.0) == (False, False, 2)


@given(st.integers(0, 5), st.floats(0, 1e5), st.floats(0, 1e5))
def test_ready_implies_alive(records: int, waited_s: float, silent_s: float) -> None:
    health = judge(look([lag(records, waited_s)], ["writer"], {"writer": NOW - silent_s}, 0.0, NOW), stall_s=60, behind_s=60)
    assert health.alive or not health.ready
    assert health.ready == (not health.problems)


class Blocked(Episodes):
    """A stage that hangs in its work until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        self.entered.set()
        self.go.wait(60)
        return super().handle(batch)


def test_a_stage_that_hangs_is_seen(tmp_path: Path) -> None:
    """The real driver, with a clock that the test moves."""
    at = [0.0]
    stage, stop = Blocked(), threading.Event()
    with EmbeddedLog(tmp_path / "log.db", clock_ms=lambda: round(NOW * 1000)) as log:
        Publisher(log).publish_many(execution(n) for n in range(3))
        meter = Meter(clock=lambda: NOW + at[0])
        with EmbeddedDriver(log, [StageSlot(stage)], on_progress=meter.take) as driver:
            observation = Observation(log, driver, meter, clock=lambda: NOW + at[0])
            thread = threading.Thread(target=driver.run, args=(stop,))
            thread.start()
            assert stage.entered.wait(30)
            assert driver.in_process() == {"episodes": 3}
            assert observation.health().alive
            at[0] = 61.0
            health = observation.health()
            assert not health.alive
            assert health.problems[0] == "episodes has committed nothing for 61 s with 3 records to read"
            stage.go.set()
            seen = log.changes()
            while sum(one.records for one in log.lags()):
                seen = log.wait(seen, 5.0)
            stop.set()
            log.notify()
            thread.join()
            assert observation.health().ready
            assert driver.in_process() == {"episodes": 0}


def test_a_replay_is_progress() -> None:
    """A sink that is fed a long log again commits nothing for a long time and must not be restarted for it."""
    at = [0.0]
    meter = Meter(clock=lambda: at[0])
    at[0] = 1000.0
    meter.take(Progress("store", StageTally(), replayed=256))
    assert meter.last_commits() == {"store": 1000.0}
