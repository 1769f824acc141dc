"""What is remembered of one record key, and what happens when one of its windows closes.

An observation waits in its event-time window until no admissible record can fall into it, then goes into the key's evidence in
the order of (time, id): arrival order inside a window leaves no trace. Then the beliefs of the key are looked at, and metrics
whose evidence has grown by half since the last time are mined.

A drift alarm cuts at the record that raised it. Everything that came before, and everything that comes later but happened
earlier, no longer speaks about the alarmed metric and those that move with it (``MOVES_WITH``); other metrics keep their evidence.
An alarm on a feature (pool depth, volatility) cuts no evidence — what it is associated with may well be unchanged — but makes
the beliefs that depend on it start their fresh rows anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from schemas.claims import Claim
from schemas.events import Action
from workers.clock import KeyClock
from workers.distil.confirm import Finding, Halves, discover, superseded
from workers.distil.observations import Observation, Observations
from workers.distil.stats import alpha_spent
from workers.distil.verdicts import Belief, Verdict, judge
from workers.drift import DriftMonitor
from workers.metrics import METRICS, WATCHED

FIRST_MINING = 120
"""Rows for the first mining: halves of sixty, in which both sides of a comparison can have their twenty."""
GROWTH = 1.5
MAX_BELIEFS = 64
DOUBTED = 2
"""Contrary verdicts in a row after which a belief no longer explains other claims away."""

_COSTS = frozenset({"cost_bps", "impact_bps", "slippage_bps", "shortfall_bps", "pnl_bps"})
_GAS = frozenset({"gas_native", "gas_gwei", "gas_usd"})
MOVES_WITH: dict[str, frozenset[str]] = {
    "cost_bps": _COSTS,
    "gas_gwei": _GAS,
    "failed": frozenset({"failed"}),
}
"""Which metrics' evidence an alarm on a watched metric cuts."""
MINED = (*(name for name in METRICS if name in WATCHED), *(name for name in METRICS if name not in WATCHED))
"""Order of mining: what the specification watches comes first, so that of two metrics that say the same it is the one kept."""


@dataclass(slots=True)
class Progress:
    """How far the mining of one metric has come since its cut: looks, rows at the last one, rows with the metric since then."""

    looks: int = 0
    rows: int = 0
    fresh: int = 0

    @property
    def due(self) -> bool:
        """Whether to mine: enough rows at first, later half as many new ones as there were."""
        return self.fresh >= (GROWTH - 1) * self.rows if self.looks else self.fresh >= FIRST_MINING


@dataclass(frozen=True, slots=True)
class Added:
    """A new belief and the finding it came from."""

    belief: Belief
    finding: Finding


@dataclass(frozen=True, slots=True)
class Judged:
    """A belief and the verdict on it."""

    belief: Belief
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Retired:
    """A belief that a new one explains, and the new one."""

    belief: Belief
    by: Finding


Change = Added | Judged | Retired


class KeyState:
    """Everything about one key. ``close`` is the only thing that decides anything."""

    __slots__ = (
        "_cut_ts", "_cuts", "_observations", "_progress", "_unexamined",
        "action", "beliefs", "clock", "key", "label", "limit", "monitor", "open",
    )  # fmt: skip

    def __init__(self, key: str, label: str, action: Action, *, lateness_ms: int, delta: float, limit: int) -> None:
        self.key = key
        self.label = label
        self.action = action
        self.limit = limit
        self.clock = KeyClock(lateness_ms)
        self.monitor = DriftMonitor(delta)
        self.open: dict[int, list[Observation]] = {}
        self.beliefs: list[Belief] = []
        self._observations = Observations(limit)
        self._unexamined = 0
        self._cuts: dict[str, int] = {}
        self._cut_ts: dict[str, int] = {}
        self._progress: dict[str, Progress] = {}

    def observe(self, window: int, observation: Observation, alarms: list[str]) -> None:
        """Take an admitted observation into its open window, after cutting for the alarms that it raised."""
        for name in alarms:
            self._cut(name, observation.ts_ms)
        old = [name for name, ts_ms in self._cut_ts.items() if observation.ts_ms < ts_ms and name in observation.metrics]
        if old:
            kept = {name: value for name, value in observation.metrics.items() if name not in old}
            observation = replace(observation, metrics=kept)
        self.open.setdefault(window, []).append(observation)

    def _cut(self, alarmed: str, ts_ms: int) -> None:
        metrics = MOVES_WITH.get(alarmed, frozenset())
        for name in sorted(metrics):
            self._cuts[name] = self._observations.total
            self._cut_ts[name] = max(ts_ms, self._cut_ts.get(name, ts_ms))
            if name in self._progress:
                self._progress[name] = Progress()
        if metrics:
            for waiting in self.open.values():
                waiting[:] = [
                    replace(one, metrics={name: value for name, value in one.metrics.items() if name not in metrics})
                    for one in waiting
                ]
        self.beliefs = [
            belief.restarted(self._observations.total)
            if belief.claim.metric in metrics or alarmed in belief.rule.features
            else belief
            for belief in self.beliefs
        ]

    def close(self, window: int, *, least: int, q: float) -> list[Change]:
        """Move a window's observations into the evidence and, with at least ``least`` new ones, decide what they change."""
        closing = sorted(self.open.pop(window), key=lambda one: (one.ts_ms, one.id))
        for observation in closing:
            self._observations.append(observation)
            for name in observation.metrics:
                progress = self._progress.get(name)
                if progress is None:
                    progress = self._progress[name] = Progress()
                progress.fresh += 1
        self._unexamined += len(closing)
        if self._unexamined < least:
            return []
        self._unexamined = 0
        return [*self._judge(), *self._mine(q)]

    def _judge(self) -> list[Judged]:
        view = None
        judged: list[Judged] = []
        for i, belief in enumerate(self.beliefs):
            if belief.retired or self._observations.total < belief.due:
                continue
            view = view or self._observations.view()
            cut = self._cuts.get(belief.claim.metric, 0)
            after, verdict = judge(belief, view.since(cut), self.limit)
            self.beliefs[i] = after
            if verdict is not None:
                judged.append(Judged(after, verdict))
        return judged

    def _mine(self, q: float) -> list[Added | Retired]:
        """Every metric that is due, in order; q is split evenly over the key's metrics."""
        changes: list[Added | Retired] = []
        halves = Halves()
        for name in MINED:
            progress = self._progress.get(name)
            if progress is None or not progress.due:
                continue
            view = self._observations.view().since(self._cuts.get(name, 0))
            self._progress[name] = Progress(progress.looks + 1, int(view.known(name).sum()), 0)
            alpha = alpha_spent(q / len(self._progress), progress.looks + 1)
            believed = [belief.rule for belief in self.beliefs if not belief.retired and belief.against < DOUBTED]
            for finding in discover(view, METRICS[name], halves, alpha=alpha, believed=believed):
                changes += self._add(finding)
        return changes

    def _add(self, finding: Finding) -> list[Added | Retired]:
        belief = self._believe(finding)
        known = {other.claim.insight_id for other in self.beliefs}
        if belief.claim.insight_id in known or len(self.beliefs) >= MAX_BELIEFS:
            return []
        changes: list[Added | Retired] = [Added(belief, finding)]
        for i, other in enumerate(self.beliefs):
            if not other.retired and superseded(other.rule, other.sign, finding.comparison.metric, finding):
                self.beliefs[i] = replace(other, retired=True)
                changes.append(Retired(self.beliefs[i], finding))
        self.beliefs.append(belief)
        return changes

    def _believe(self, finding: Finding) -> Belief:
        conditions = tuple(sorted(finding.rule.conditions, key=lambda condition: condition.slot))
        direction: Literal["higher", "lower"] = "higher" if finding.direction > 0 else "lower"
        claim = Claim(key=self.key, metric=finding.rule.metric, conditions=conditions, direction=direction)
        return Belief.new(claim, finding.comparison.evidence(finding.q), self._observations.total)

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            "label": self.label,
            "action": self.action.value,
            "clock": self.clock.to_plain(),
            "monitor": self.monitor.to_plain(),
            "open": [[start, [one.to_plain() for one in waiting]] for start, waiting in self.open.items()],
            "beliefs": [belief.to_plain() for belief in self.beliefs],
            "observations": self._observations.to_plain(),
            "unexamined": self._unexamined,
            "cuts": {name: [sequence, self._cut_ts[name]] for name, sequence in self._cuts.items()},
            "progress": {name: [one.looks, one.rows, one.fresh] for name, one in self._progress.items()},
        }

    @classmethod
    def from_plain(cls, key: str, plain: dict[str, Any], limit: int) -> KeyState:
        """The state that gave ``plain``. Raises KeyError, TypeError or ValueError when it is not one of ours."""
        clock, monitor = KeyClock.from_plain(plain["clock"]), DriftMonitor.from_plain(plain["monitor"])
        action = Action(plain["action"])
        made = cls(key, str(plain["label"]), action, lateness_ms=clock.lateness_ms, delta=monitor.delta, limit=limit)
        made.clock, made.monitor = clock, monitor
        made.open = {int(start): [Observation.from_plain(one) for one in waiting] for start, waiting in plain["open"]}
        made.beliefs = [Belief.from_plain(belief) for belief in plain["beliefs"]]
        made._observations = Observations.from_plain(plain["observations"], limit)
        made._unexamined = int(plain["unexamined"])
        made._cuts = {name: int(sequence) for name, (sequence, _) in plain["cuts"].items()}
        made._cut_ts = {name: int(ts_ms) for name, (_, ts_ms) in plain["cuts"].items()}
        made._progress = {name: Progress(*one) for name, one in plain["progress"].items()}
        return made
