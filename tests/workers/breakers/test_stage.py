"""The breakers stage as a fold: independent of batches, restorable, replay-safe."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import decode
from schemas.portfolio import BreakerState, PortfolioStanding
from schemas.signals import BreakerSignal
from schemas.topics import PORTFOLIO_STANDING, PORTFOLIO_VALUED, SIGNALS_RAISED
from tests.workers.breakers.test_portfolio import T0, valued
from workers.breakers import stage as stages
from workers.breakers.portfolio import Limits
from workers.breakers.stage import BreakersStage
from workers.stage import Delivery, Emission, Outcome, Position

LIMITS = Limits()
HOUR_MS = 3_600_000


def delivered(offset: int, message: object, arrived_ms: int | None = None) -> Delivery:
    arrived = int(T0.timestamp() * 1000) + 24 * HOUR_MS if arrived_ms is None else arrived_ms
    return Delivery(Position(PORTFOLIO_VALUED.name, 0, offset), b"main", message, arrived)


def run(*messages: object, stage: BreakersStage | None = None) -> Outcome:
    stage = stage or BreakersStage(LIMITS, 300_000)
    return stage.handle([delivered(offset, one) for offset, one in enumerate(messages)])


def signals(outcome: Outcome) -> list[BreakerSignal]:
    return [one.message for one in outcome.emissions if one.topic is SIGNALS_RAISED]  # type: ignore[misc]


def standings(outcome: Outcome) -> list[PortfolioStanding]:
    return [one.message for one in outcome.emissions if one.topic is PORTFOLIO_STANDING]  # type: ignore[misc]


def test_a_standing_for_each_valuation_and_a_signal_for_each_change() -> None:
    outcome = run(valued(0, 100), valued(1, 99), valued(2, 96), valued(3, 92.5), valued(4, 86), valued(5, 86.5), valued(6, 101))
    assert [one.state.value for one in standings(outcome)] == ["ok", "ok", "warn", "halt", "stop", "stop", "ok"]
    assert [(one.previous, one.state.value) for one in signals(outcome)] == [
        (None, "ok"), ("ok", "warn"), ("warn", "halt"), ("halt", "stop"), ("stop", "ok"),
    ]  # fmt: skip
    assert outcome.processed == 7
    assert outcome.counts == {"breaker_changes": 5}
    last = signals(outcome)[-2]
    assert (last.drawdown_bps, str(last.mark), last.key, last.level) == (1400, "100", "main", "global")


def test_blindness_is_published_once_when_it_begins_and_once_when_it_ends() -> None:
    outcome = run(valued(0, 100), valued(1, 50, missing=["A"]), valued(2, 50, missing=["A"]), valued(3, 99))
    assert [(one.state.value, one.blind) for one in signals(outcome)] == [("ok", False), ("ok", True), ("ok", False)]
    assert standings(outcome)[1].because == "no price for A"
    assert standings(outcome)[2].blind_since == T0 + timedelta(minutes=1)
    assert standings(outcome)[2].valued_ts == T0


def test_every_record_is_accounted_for() -> None:
    future = valued(60 * 24 * 30, 1)
    outcome = run(valued(1, 100), valued(1, 100), valued(0, 90), valued(2, 9, unit="ETH"), future)
    assert (outcome.processed, outcome.duplicates, outcome.late) == (1, 1, 1)
    assert [refusal.reason for refusal in outcome.refusals] == ["unit_changed", "future_dated"]


def test_a_simulated_portfolio_has_a_book_of_its_own() -> None:
    outcome = run(valued(0, 100), valued(1, 50, simulated=True), valued(2, 99))
    assert [one.state for one in standings(outcome)] == [BreakerState.OK] * 3
    assert standings(outcome)[1].key == "main|simulated"


def test_the_number_of_books_is_bounded_and_none_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MAX_BOOKS", 2)
    more = [valued(minute, 100, portfolio=name) for minute, name in enumerate("abcab")]
    outcome = run(*more)
    assert outcome.processed == 4
    assert [refusal.reason for refusal in outcome.refusals] == ["too_many_portfolios"]


def test_what_travels_is_what_the_contracts_say() -> None:
    outcome = run(valued(0, "123456789.123456789", "5"), valued(1, "100000000.5", "7"))
    for emission in outcome.emissions:
        assert decode(emission.topic.carries, emission.message.to_wire()) == emission.message


HISTORIES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 20_000), st.integers(-5, 5), st.booleans(), st.sampled_from(["main", "side"])),
    min_size=1,
    max_size=25,
)


@given(HISTORIES, st.lists(st.integers(0, 25), max_size=4))
@settings(max_examples=60, deadline=None)
def test_batches_and_restarts_change_nothing(history: list[tuple[int, int, int, bool, str]], cuts: list[int]) -> None:
    messages = [
        valued(minute, value, flow * 100, portfolio=name, missing=["A"] if blind else [])
        for minute, value, flow, blind, name in history
    ]
    deliveries = [delivered(offset, one) for offset, one in enumerate(messages)]
    whole = BreakersStage(LIMITS, 300_000)
    expected = _ids(whole.handle(deliveries).emissions)
    parts: list[tuple[str, bytes]] = []
    stage = BreakersStage(LIMITS, 300_000)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(deliveries)], strict=True):
        parts += _ids(stage.handle(deliveries[start:stop]).emissions)
        state, stage = stage.snapshot(), BreakersStage(LIMITS, 300_000)
        stage.restore(state)
    assert parts == expected
    assert stage.snapshot() == whole.snapshot()


def _ids(emissions: object) -> list[tuple[str, bytes]]:
    assert isinstance(emissions, list)
    return [(one.message_id, one.message.to_wire()) for one in emissions if isinstance(one, Emission)]


NOT_OURS = [
    b"",
    b"{}",
    b'{"format":1,"limits":[1,2,3,0],"books":[]}',
    b'{"format":1,"limits":[300,700,1300,100],"books":[["a",{}]]}',
]


@pytest.mark.parametrize("state", NOT_OURS)
def test_a_state_that_is_not_ours_is_refused(state: bytes) -> None:
    with pytest.raises(ValueError, match="not a snapshot of the breakers stage"):
        BreakersStage(LIMITS, 0).restore(state)
