"""What is remembered of one record key, and what happens when one of its windows closes.

An observation waits in its event-time window until no admissible record can fall into it, then goes into the key's evidence in
the order of (time, id): arrival order inside a window leaves no trace. Then beliefs and evidence are looked at
(``workers/distil/learner.py``).

A drift alarm cuts at the record that raised it. Everything that came before, and everything that comes later but happened
earlier, no longer speaks about the alarmed metric and those that move with it.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Any

from schemas.events import Action
from workers.clock import KeyClock
from workers.distil.learner import Change, Learner
from workers.distil.observations import Observation
from workers.distil.verdicts import Belief
from workers.drift import DriftMonitor


class KeyState:
    """Everything about one key. ``close`` is the only thing that decides anything."""

    __slots__ = ("_cut_ts", "_learner", "action", "clock", "key", "label", "monitor", "open")

    def __init__(self, key: str, label: str, action: Action, *, lateness_ms: int, delta: float, limit: int) -> None:
        self.key = key
        self.label = label
        self.action = action
        self.clock = KeyClock(lateness_ms)
        self.monitor = DriftMonitor(delta)
        self.open: dict[int, list[Observation]] = {}
        self._learner = Learner("pair", key, limit)
        self._cut_ts: dict[str, int] = {}

    @property
    def beliefs(self) -> list[Belief]:
        """What is believed of the key, retired beliefs included."""
        return self._learner.beliefs

    @property
    def cuts(self) -> dict[str, int]:
        """Metrics whose evidence an alarm has cut, and the time (Unix ms) before which nothing speaks about them."""
        return self._cut_ts

    def observe(self, window: int, observation: Observation, alarms: list[str]) -> None:
        """Take an admitted observation into its open window, after cutting for the alarms that it raised."""
        for name in alarms:
            self._cut(name, observation.ts_ms)
        old = [name for name, ts_ms in self._cut_ts.items() if observation.ts_ms < ts_ms and name in observation.metrics]
        self.open.setdefault(window, []).append(_without(observation, old) if old else observation)

    def _cut(self, alarmed: str, ts_ms: int) -> None:
        metrics = self._learner.cut(alarmed)
        for name in sorted(metrics):
            self._cut_ts[name] = max(ts_ms, self._cut_ts.get(name, ts_ms))
        if metrics:
            for waiting in self.open.values():
                waiting[:] = [_without(one, metrics) for one in waiting]

    def close(self, window: int, *, least: int, q: float) -> tuple[list[Observation], list[Change]]:
        """Move a window's observations into the evidence and, with at least ``least`` new ones, decide what they change.

        Returns the observations in order, and the changes.
        """
        closing = sorted(self.open.pop(window), key=lambda one: (one.ts_ms, one.id))
        self._learner.take(closing)
        return closing, self._learner.examine(least=least, q=q)

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            "label": self.label,
            "action": self.action.value,
            "clock": self.clock.to_plain(),
            "monitor": self.monitor.to_plain(),
            "open": [[start, [one.to_plain() for one in waiting]] for start, waiting in self.open.items()],
            "cut_ts": self._cut_ts,
            "learner": self._learner.to_plain(),
        }

    @classmethod
    def from_plain(cls, key: str, plain: dict[str, Any], limit: int) -> KeyState:
        """The state that gave ``plain``. Raises KeyError, TypeError or ValueError when it is not one of ours."""
        clock, monitor = KeyClock.from_plain(plain["clock"]), DriftMonitor.from_plain(plain["monitor"])
        action = Action(plain["action"])
        made = cls(key, str(plain["label"]), action, lateness_ms=clock.lateness_ms, delta=monitor.delta, limit=limit)
        made.clock, made.monitor = clock, monitor
        made.open = {int(start): [Observation.from_plain(one) for one in waiting] for start, waiting in plain["open"]}
        made._cut_ts = {name: int(ts_ms) for name, ts_ms in plain["cut_ts"].items()}
        made._learner = Learner.from_plain("pair", key, plain["learner"], limit)
        return made


def _without(observation: Observation, metrics: Container[str]) -> Observation:
    return replace(observation, metrics={name: value for name, value in observation.metrics.items() if name not in metrics})
