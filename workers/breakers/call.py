"""The circuit breaker around a call to the outside, as a value and two transitions. No clock, no lock, no thread.

=========  ====================================================  ==================================================
phase      a call is                                             what its end does
=========  ====================================================  ==================================================
CLOSED     admitted                                              counts; 50 % errors of at least 5 calls within the
                                                                 window: OPEN
OPEN       refused, until 30 s have passed: then it is admitted
           as the one probe, and the phase is HALF_OPEN          of an earlier era: nothing
HALF_OPEN  refused while the probe is out; a probe that never    probe well: CLOSED, with nothing counted yet;
           came back is given up after 30 s                      probe failed: OPEN; abandoned: the next is a probe
=========  ====================================================  ==================================================

Each change of phase begins another **era**. A call belongs to the era that admitted it, and its end counts in no other: a call
that was let through long ago and succeeds at last does not close what has opened since, and a slow failure does not reopen it.

The numbers are the specification's (part 1 §10), but for the window, which it leaves open: five calls in a row that each time out
take 25 s, so that a window of ten seconds, its library's default, could never see them. It is a minute here (docs/adr).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

SLOT_S = 1.0


class Phase(StrEnum):
    """Where a circuit stands."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class End(StrEnum):
    """How a call ended. ``ABANDONED`` says nothing about the other side: the caller gave up for reasons of its own."""

    OK = "ok"
    FAILED = "failed"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Rules:
    """Seconds, per cent and calls. ``timeout_s`` is for whoever makes the calls; the circuit itself knows no time-out.

    Raises:
        ValueError: a number that makes no sense.
    """

    timeout_s: float = 5.0
    error_percent: int = 50
    min_calls: int = 5
    window_s: float = 60.0
    reset_s: float = 30.0

    def __post_init__(self) -> None:
        """See the class."""
        if not (min(self.timeout_s, self.window_s, self.reset_s) > 0 and 1 <= self.error_percent <= 100 and self.min_calls >= 1):
            raise ValueError("times are positive, the share of errors is 1 to 100 per cent, and at least one call is counted")


@dataclass(frozen=True, slots=True)
class Ticket:
    """A call that was admitted, to be handed in with its end, exactly once."""

    era: int


@dataclass(frozen=True, slots=True)
class Circuit:
    """A circuit's state. ``counted`` has (second, calls, errors), the oldest first, for seconds of the window only."""

    phase: Phase = Phase.CLOSED
    era: int = 0
    opened_at: float = 0.0
    probe_at: float | None = None
    counted: tuple[tuple[int, int, int], ...] = ()

    @property
    def calls(self) -> int:
        """Calls that count at the moment."""
        return sum(calls for _, calls, _ in self.counted)

    @property
    def errors(self) -> int:
        """Those of them that failed."""
        return sum(errors for _, _, errors in self.counted)

    def reopens_in(self, rules: Rules, now: float) -> float:
        """Seconds until a probe may go out; 0 where calls are admitted."""
        if self.phase is Phase.CLOSED:
            return 0.0
        since = self.opened_at if self.phase is Phase.OPEN else self.probe_at
        return 0.0 if since is None else max(0.0, since + rules.reset_s - now)


def admit(circuit: Circuit, rules: Rules, now: float) -> tuple[Circuit, Ticket | None]:
    """Ask to call at ``now`` (monotonic seconds). None: refused.

    >>> admit(Circuit(), Rules(), 0.0)[1]
    Ticket(era=0)
    """
    if circuit.phase is Phase.CLOSED:
        return circuit, Ticket(circuit.era)
    if circuit.reopens_in(rules, now) > 0:
        return circuit, None
    probing = replace(circuit, phase=Phase.HALF_OPEN, era=circuit.era + 1, probe_at=now, counted=())
    return probing, Ticket(probing.era)


def settle(circuit: Circuit, rules: Rules, ticket: Ticket, end: End, now: float) -> Circuit:
    """Hand a call's end in."""
    if ticket.era != circuit.era:
        return circuit
    if circuit.phase is Phase.HALF_OPEN:
        if end is End.ABANDONED:
            return replace(circuit, probe_at=None)
        if end is End.OK:
            return Circuit(Phase.CLOSED, circuit.era + 1)
        return Circuit(Phase.OPEN, circuit.era + 1, opened_at=now)
    if end is End.ABANDONED:
        return circuit
    counted = replace(circuit, counted=_count(circuit.counted, rules, now, failed=end is End.FAILED))
    enough = counted.calls >= rules.min_calls and counted.errors * 100 >= rules.error_percent * counted.calls
    if end is End.FAILED and enough:
        return Circuit(Phase.OPEN, circuit.era + 1, opened_at=now)
    return counted


def _count(
    counted: tuple[tuple[int, int, int], ...], rules: Rules, now: float, *, failed: bool
) -> tuple[tuple[int, int, int], ...]:
    slot = int(now // SLOT_S)
    first = int((now - rules.window_s) // SLOT_S) + 1
    kept = [one for one in counted if first <= one[0] < slot]
    same = [one for one in counted if one[0] == slot]
    _, calls, errors = same[0] if same else (slot, 0, 0)
    return (*kept, (slot, calls + 1, errors + int(failed)))
