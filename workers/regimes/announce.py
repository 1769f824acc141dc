"""From a filter's probabilities to a regime that is said out loud: not before it is sure, and not again for every flicker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SURE = 0.8
RUN = 3


class Announcer:
    """A regime is raised when its state has had a probability of at least ``SURE`` for ``RUN`` observations in a row.

    >>> announcer, names = Announcer(), ("calm", "turbulent")
    >>> told = [announcer.hear(ts, (1 - p, p), names) for ts, p in enumerate((0.9, 0.9, 0.5, 0.9, 0.9, 0.95, 0.9))]
    >>> [turn and (turn["regime"], turn["since_ms"]) for turn in told]
    [None, None, None, None, None, ('turbulent', 3), None]
    """

    __slots__ = ("_run", "_said", "_since_ms", "_state", "regime")

    def __init__(self) -> None:
        self.regime: str | None = None
        """What was last raised."""
        self._said: int | None = None
        """Its state, while states are numbered as they were then."""
        self._state = -1
        """The state that the run is of."""
        self._run = 0
        self._since_ms = 0

    def forget_state(self) -> None:
        """States are numbered anew: whatever comes next is raised."""
        self._said, self._state, self._run = None, -1, 0

    def break_off(self) -> None:
        """What was heard last does not go on: another run begins."""
        self._state, self._run = -1, 0

    def hear(self, ts_ms: int, probabilities: Sequence[float], names: Sequence[str]) -> dict[str, Any] | None:
        """Take the probabilities after an observation; what is raised by it, as fields of a change."""
        state = max(range(len(probabilities)), key=lambda one: (probabilities[one], -one))
        if probabilities[state] < SURE or state == self._said:
            self._state, self._run = -1, 0
            return None
        if state != self._state:
            self._state, self._run, self._since_ms = state, 0, ts_ms
        self._run += 1
        if self._run < RUN:
            return None
        turn = {
            "previous": self.regime,
            "regime": names[state],
            "since_ms": self._since_ms,
            "probability": float(format(probabilities[state], ".6g")),
        }
        self.regime, self._said = names[state], state
        self._state, self._run = -1, 0
        return turn

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {"regime": self.regime, "said": self._said, "state": self._state, "run": self._run, "since": self._since_ms}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Announcer:
        """The announcer that gave ``plain``. Raises KeyError or TypeError when it is not one of ours."""
        announcer = cls()
        announcer.regime = None if plain["regime"] is None else str(plain["regime"])
        announcer._said = None if plain["said"] is None else int(plain["said"])
        announcer._state, announcer._run, announcer._since_ms = int(plain["state"]), int(plain["run"]), int(plain["since"])
        return announcer
