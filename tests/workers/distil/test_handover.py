"""A closed window on its way up: everything that is common to pairs, in bounded size, each observation once."""

from __future__ import annotations

from schemas.codec import decode
from schemas.topics import WINDOWS_CLOSED
from schemas.windows import MAX_FAILED, MAX_ROWS, WindowClosed
from tests.support.toy_market import Market, dearer_by_share, deliveries, failing_router
from tests.workers.distil.test_stage import handed
from workers.distil.handover import observations_of, window_closed
from workers.distil.observations import Observation
from workers.distil.stage import DistilStage
from workers.stage import Emission


def record(closing: list[Observation], cuts: dict[str, int] | None = None) -> WindowClosed:
    emission = window_closed(
        key="swap:1:A/B", label="swap A/B", action="swap", start_ms=0, end_ms=100, source=1, sequence=7,
        watermark_ms=None, closing=closing, cuts=cuts or {},
    )  # fmt: skip
    assert isinstance(emission.message, WindowClosed)
    assert decode(WINDOWS_CLOSED.carries, emission.message.to_wire()) == emission.message
    return emission.message


def test_observations_come_out_as_they_went_in_without_what_is_the_pairs_own() -> None:
    first = Observation(1, "a", {"cost_bps": 2.0}, {"router": "alpha", "size": 3.0, "pool": "0x1", "hour": 4.5, "stable": True})
    second = Observation(2, "b", {"failed": 1.0}, {"router": "x" * 65, "hour": 5.0}, error="gas")
    one = record([first, second], {"cost_bps": 1})
    assert observations_of(one) == [
        Observation(1, "a", {"cost_bps": 2.0}, {"router": "alpha", "hour": 4.5, "stable": True}, group="swap:1:A/B"),
        Observation(2, "b", {"failed": 1.0}, {"hour": 5.0}, group="swap:1:A/B"),
    ]
    assert (one.failures, one.failed, one.cuts) == ({"gas": 1}, {"gas": ("b",)}, {"cost_bps": 1})


def test_a_busy_window_is_thinned_evenly_and_says_so() -> None:
    rows = [Observation(i, f"e{i:05}", {"failed": 1.0}, {"hour": 1.0}, error="nonce") for i in range(5 * MAX_ROWS)]
    one = record(rows)
    assert (len(one.ids), one.thinned, one.episodes) == (MAX_ROWS, 4 * MAX_ROWS, 5 * MAX_ROWS)
    assert one.ts_ms == tuple(range(0, 5 * MAX_ROWS, 5))
    assert one.failures == {"nonce": 5 * MAX_ROWS}
    assert len(one.failed["nonce"]) == MAX_FAILED
    assert len(one.to_wire()) < 20_000


def windows(n: int) -> tuple[list[Emission], list[WindowClosed]]:
    emissions = handed(deliveries(Market((dearer_by_share(), failing_router())).episodes(n)), DistilStage())
    return emissions, [one.message for one in emissions if isinstance(one.message, WindowClosed)]


def test_a_partition_hands_on_each_observation_once_in_numbered_windows() -> None:
    _, made = windows(300)
    assert [one.sequence for one in made] == list(range(len(made)))
    ids = [identity for one in made for identity in one.ids]
    assert len(ids) == len(set(ids)) > 200
    assert sum(sum(one.failures.values()) for one in made) == sum(
        column[i] for one in made for name, column in one.metrics.items() if name == "failed" for i in range(len(one.ids))
    )


def test_what_a_watermark_has_passed_has_been_handed_on() -> None:
    _, made = windows(300)
    marks = [one.watermark_ms for one in made]
    assert marks[-1] is not None
    for i, one in enumerate(made):
        assert one.start_ms % (4 * 3_600_000) == 0
        assert all(later.end_ms > (one.watermark_ms or 0) for later in made[i:])
