"""The call breaker's numbers, and a state machine that holds them whatever happens."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from workers.breakers.call import Circuit, End, Phase, Rules, Ticket, admit, settle

RULES = Rules()


def after(ends: list[End], circuit: Circuit | None = None, now: float = 0.0, every: float = 1.0) -> Circuit:
    circuit = circuit or Circuit()
    for end in ends:
        circuit, ticket = admit(circuit, RULES, now)
        assert ticket is not None
        circuit = settle(circuit, RULES, ticket, end, now)
        now += every
    return circuit


def test_it_has_the_specified_numbers() -> None:
    assert (RULES.timeout_s, RULES.error_percent, RULES.min_calls, RULES.reset_s) == (5.0, 50, 5, 30.0)


@pytest.mark.parametrize(
    ("errors", "calls", "phase"),
    [
        (4, 4, Phase.CLOSED),
        (5, 5, Phase.OPEN),
        (2, 5, Phase.CLOSED),
        (3, 6, Phase.OPEN),
        (3, 5, Phase.OPEN),
        (49, 100, Phase.CLOSED),
    ],
)
def test_half_of_at_least_five_opens(errors: int, calls: int, phase: Phase) -> None:
    assert after([End.OK] * (calls - errors) + [End.FAILED] * errors, every=0.1).phase is phase


def test_what_is_older_than_the_window_does_not_count() -> None:
    circuit = after([End.FAILED] * 4)
    assert circuit.errors == 4
    later = after([End.FAILED], circuit, now=100.0)
    assert (later.phase, later.calls) == (Phase.CLOSED, 1)


def test_five_time_outs_in_a_row_are_seen_together() -> None:
    assert after([End.FAILED] * 5, every=RULES.timeout_s).phase is Phase.OPEN


def test_open_refuses_for_thirty_seconds_and_then_lets_one_probe_out() -> None:
    opened = after([End.FAILED] * 5, every=0.0)
    assert admit(opened, RULES, 29.999)[1] is None
    probing, probe = admit(opened, RULES, 30.0)
    assert probe is not None
    assert probing.phase is Phase.HALF_OPEN
    assert admit(probing, RULES, 30.1)[1] is None
    closed = settle(probing, RULES, probe, End.OK, 31.0)
    assert (closed.phase, closed.calls) == (Phase.CLOSED, 0)
    again = settle(probing, RULES, probe, End.FAILED, 31.0)
    assert again.phase is Phase.OPEN
    assert admit(again, RULES, 60.9)[1] is None
    assert admit(again, RULES, 61.0)[1] is not None


def test_a_probe_that_is_given_up_frees_its_place_and_one_that_never_returns_does_not_wedge_it() -> None:
    probing, probe = admit(after([End.FAILED] * 5, every=0.0), RULES, 30.0)
    assert probe is not None
    freed = settle(probing, RULES, probe, End.ABANDONED, 30.5)
    assert admit(freed, RULES, 30.6)[1] is not None
    second, other = admit(probing, RULES, 60.0)
    assert other is not None
    assert settle(second, RULES, probe, End.OK, 60.1) == second


def test_a_call_of_an_earlier_era_changes_nothing() -> None:
    circuit, slow = admit(Circuit(), RULES, 0.0)
    assert slow is not None
    opened = after([End.FAILED] * 5, circuit, every=0.0)
    assert settle(opened, RULES, slow, End.OK, 1.0) == opened
    probing, probe = admit(opened, RULES, 40.0)
    assert probe is not None
    closed = settle(probing, RULES, probe, End.OK, 41.0)
    assert settle(closed, RULES, slow, End.FAILED, 42.0) == closed


@pytest.mark.parametrize("bad", [{"timeout_s": 0}, {"error_percent": 101}, {"min_calls": 0}, {"reset_s": -1}, {"window_s": 0}])
def test_rules_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="per cent"):
        Rules(**bad)


class Breaking(RuleBasedStateMachine):
    """Any order of calls, ends and waits, against a model that keeps every end with its time."""

    tickets: Bundle[tuple[Ticket, float]] = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.circuit = Circuit()
        self.ends: deque[tuple[float, bool]] = deque()
        self.opened_at = 0.0

    @rule(target=tickets)
    def call(self) -> object:
        before = self.circuit
        self.circuit, ticket = admit(self.circuit, RULES, self.now)
        if before.phase is Phase.CLOSED:
            assert ticket is not None
        elif before.phase is Phase.OPEN:
            assert (ticket is not None) == (self.now - self.opened_at >= RULES.reset_s)
        elif before.probe_at is not None and self.now - before.probe_at < RULES.reset_s:
            assert ticket is None
        if ticket is not None and before.phase is not Phase.CLOSED:
            assert self.circuit.phase is Phase.HALF_OPEN
        return multiple() if ticket is None else (ticket, self.now)

    @rule(held=consumes(tickets), end=st.sampled_from(End))
    def end(self, held: tuple[Ticket, float], end: End) -> None:
        before, (ticket, _) = self.circuit, held
        self.circuit = settle(before, RULES, ticket, end, self.now)
        if ticket.era != before.era:
            assert self.circuit == before
            return
        if before.phase is Phase.CLOSED and end is not End.ABANDONED:
            self.ends.append((self.now, end is End.FAILED))
        if self.circuit.phase is not before.phase:
            self.ends.clear()
        if self.circuit.phase is Phase.OPEN:
            self.opened_at = self.now
            assert end is End.FAILED

    @rule(seconds=st.floats(0.0, 40.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def never_closed_with_too_many_errors(self) -> None:
        if self.circuit.phase is Phase.CLOSED:
            inner = [failed for at, failed in self.ends if at > self.now - RULES.window_s + 1]
            assert self.circuit.calls <= len(self.ends)
            assert not (len(inner) >= 5 and all(inner))

    @invariant()
    def bounded(self) -> None:
        assert len(self.circuit.counted) <= RULES.window_s + 1


TestBreaking = Breaking.TestCase
TestBreaking.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
