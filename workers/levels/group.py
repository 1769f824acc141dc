"""All pairs of one tool, or everything: evidence, beliefs and drift of what is above the record key.

Rows have the pair that they come from as their group. Claims are tested within pairs (``workers/distil/evidence.py``): at the tool
level they have to hold for more than one pair, at the global level for more than one tool. A pair's own drift alarm takes what that
pair saw before it out of the evidence; an alarm of the level itself closes all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.events import Action
from schemas.windows import WindowClosed
from workers.distil.handover import observations_of
from workers.distil.learner import Change, Learner, Level
from workers.distil.observations import Observation, Unit
from workers.drift import Alarm, DriftMonitor
from workers.levels.relative import Blocks, Relative
from workers.metrics import rounded, watched_values

MOST_AWAITED = 240
"""A look comes when rows have grown by an eighth, and after so many at the latest: all pairs together bring them fast."""


@dataclass(frozen=True, slots=True)
class Name:
    """Which group: its level, key and name for people."""

    level: Level
    key: str
    label: str

    @property
    def unit(self) -> Unit:
        """What a claim has to hold for more than one of."""
        return "pair" if self.level == "tool" else "tool"


def tool_of(record: WindowClosed) -> Name:
    """The tool's group. Simulated executions have groups of their own: evidence is never mixed.

    >>> record = WindowClosed(id="w", key="swap:1-simulated:A/B", tool="swap", label="swap A/B", action="swap", simulated=True,
    ...     source=0, sequence=0, start_ms=0, end_ms=1, episodes=0)
    >>> tool_of(record).key, everything(record).key
    ('swap:*-simulated:*', '*-simulated')
    """
    chain = "*-simulated" if record.simulated else "*"
    return Name("tool", f"{record.tool}:{chain}:*", f"{record.tool} across pairs")


def everything(record: WindowClosed) -> Name:
    """The group of everything."""
    return Name("global", "*-simulated" if record.simulated else "*", "all tools")


@dataclass(frozen=True, slots=True)
class Part:
    """A key's closed window, with its observations and what detectors follow of each: worked out once for every group it is in."""

    record: WindowClosed
    rows: tuple[tuple[Observation, dict[str, float]], ...]

    @classmethod
    def of(cls, record: WindowClosed) -> Part:
        """A record taken apart."""
        return cls(record, tuple((row, watched_values(row.metrics, row.features)) for row in observations_of(record)))


class Group:
    """Everything about one group. ``close`` is the only thing that decides anything."""

    __slots__ = ("_blocks", "_cut_ts", "_learner", "_monitor", "_relative", "action", "name")

    def __init__(self, name: Name, action: Action, *, delta: float, limit: int) -> None:
        self.name = name
        self.action = action
        self._learner = Learner(name.level, name.key, limit, name.unit)
        self._monitor = DriftMonitor(delta)
        self._relative = Relative()
        self._blocks = Blocks()
        self._cut_ts: dict[str, dict[str, int]] = {}

    def close(self, parts: Sequence[Part], *, least: int, q: float) -> tuple[list[Change], list[Alarm]]:
        """Take in a window's records: what they change, and the drift that they show, in the metrics' units."""
        for part in parts:
            self._forget(part.record)
        alarms: list[Alarm] = []
        rows = sorted((row for part in parts for row in part.rows), key=lambda row: (row[0].ts_ms, row[0].id))
        for row, watched in rows:
            found = self._watch(row, watched)
            for alarm in found:
                self._learner.cut(alarm.metric)
            alarms += found
            self._learner.take([row])
        grown = min(MOST_AWAITED, self._learner.observations.total // 8)
        return self._learner.examine(least=max(least, grown), q=q), alarms

    def _forget(self, record: WindowClosed) -> None:
        known = self._cut_ts.setdefault(record.key, {}) if record.cuts else {}
        for metric, ts_ms in record.cuts.items():
            if ts_ms > known.get(metric, ts_ms - 1):
                known[metric] = ts_ms
                self._learner.observations.forget(record.key, [metric], ts_ms)

    def _watch(self, row: Observation, watched: Mapping[str, float]) -> list[Alarm]:
        values = self._blocks.of(self._relative.of(row.group, watched))
        alarms = []
        for alarm in self._monitor.learn_one(row.ts_ms, row.id, values):
            before, after = (self._relative.in_unit(alarm.metric, mean) for mean in (alarm.mean_before, alarm.mean_after))
            alarms.append(replace(alarm, mean_before=rounded(before), mean_after=rounded(after)))
            self._relative.restart(alarm.metric)
            self._blocks.restart(alarm.metric)
        return alarms

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            "level": self.name.level,
            "label": self.name.label,
            "action": self.action.value,
            "learner": self._learner.to_plain(),
            "monitor": self._monitor.to_plain(),
            "relative": self._relative.to_plain(),
            "blocks": self._blocks.to_plain(),
            "cut_ts": self._cut_ts,
        }

    @classmethod
    def from_plain(cls, key: str, plain: dict[str, Any], limit: int) -> Group:
        """The group that gave ``plain``. Raises KeyError, TypeError or ValueError when it is not one of ours."""
        monitor = DriftMonitor.from_plain(plain["monitor"])
        level: Level = "tool" if plain["level"] == "tool" else "global"
        made = cls(Name(level, key, str(plain["label"])), Action(plain["action"]), delta=monitor.delta, limit=limit)
        made._monitor = monitor
        made._learner = Learner.from_plain(level, key, plain["learner"], limit, made.name.unit)
        made._relative = Relative.from_plain(plain["relative"])
        made._blocks = Blocks.from_plain(plain["blocks"])
        made._cut_ts = {pair: {name: int(ts) for name, ts in cuts.items()} for pair, cuts in plain["cut_ts"].items()}
        return made
