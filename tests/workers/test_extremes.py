"""Numbers at the edge of what floats hold: no stage stops at them, none keeps a state that it cannot take up again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

import pytest

from schemas.episodes import Episode
from schemas.settings import Settings
from schemas.topics import WINDOWS_CLOSED
from tests.support.toy_market import deliveries, episode
from workers.distil.handover import observations_of, window_closed
from workers.distil.observations import Observation, observation_of
from workers.distil.stage import DistilStage
from workers.levels.stage import LevelsStage
from workers.signals import SignalsStage
from workers.stage import Delivery, Position, StatefulStage

EDGES = {"huge": [1.7e308], "low": [-1.7e308], "tiny": [5e-324], "all": [1.7e308, -1.7e308, 5e-324, 1e-320, 1e300]}
START_MS = 1_767_571_200_000


def edge_market(edges: list[float], n: int) -> Iterator[Episode]:
    """Router alpha has the extremes, beta plain numbers: in four keys of two tools, so that it would be a claim at every level."""
    values = cycle(edges)
    for i in range(n):
        for key in ("swap:1:A/B", "swap:1:C/D", "bridge:1:A/B", "bridge:1:C/D"):
            alpha, value = i % 5 in (0, 3), next(values)
            metrics = {"cost_bps": value, "reward": value, "gas_gwei": abs(value)} if alpha else dict(PLAIN)
            features = {
                "router": "alpha" if alpha else "beta",
                "volatility": abs(value) if i % 3 else 2.0,
                "size": value if i % 2 else 1.0,
            }
            yield episode(key, i, START_MS + i * 600_000, {**metrics, "failed": 0.0}, features)


PLAIN = {"cost_bps": 1.0, "reward": 0.0, "gas_gwei": 20.0}


def round_trip(stage: StatefulStage, fresh: StatefulStage) -> None:
    state = stage.snapshot()
    fresh.restore(state)
    assert fresh.snapshot() == state


@pytest.mark.parametrize("name", EDGES)
def test_extreme_numbers_stop_no_stage_and_leave_a_state_that_can_be_taken_up(name: str) -> None:
    batch = deliveries(edge_market(EDGES[name], 300))
    signals, distil, levels = SignalsStage(0, Settings()), DistilStage(), LevelsStage(sources=1)
    signals.handle(batch)
    closed = [one.message for one in distil.handle(batch).emissions if one.topic is WINDOWS_CLOSED]
    levels.handle([Delivery(Position(WINDOWS_CLOSED.name, 0, i), b"", one, 0) for i, one in enumerate(closed)])
    round_trip(signals, SignalsStage(0, Settings()))
    round_trip(distil, DistilStage())
    round_trip(levels, LevelsStage(sources=1))


def test_what_statistics_cannot_take_is_absent_and_not_zero() -> None:
    (one,) = (observation_of(made) for made in islice(edge_market([1.7e308], 1), 1))
    assert one.metrics == {"failed": 0.0}
    assert one.features == {"router": "alpha", "volatility": 2.0, "size": 1.0}


def test_what_was_handed_on_before_is_read_as_strictly() -> None:
    old = Observation(START_MS, "e", {"cost_bps": 1e308, "reward": 0.0}, {"volatility": 5e-324, "router": "alpha"})
    made = window_closed(
        key="swap:1:A/B", label="swap A/B", action="swap", start_ms=START_MS, end_ms=START_MS + 1, source=0, sequence=0,
        watermark_ms=None, closing=[old], cuts={},
    ).message  # fmt: skip
    (read,) = observations_of(made)
    assert (read.metrics, read.features) == ({"reward": 0.0}, {"router": "alpha"})
