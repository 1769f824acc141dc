"""What is believed of one group of episodes, and how evidence that comes in changes it.

Rows come in the order of (time, id). ``examine`` looks at the beliefs, then mines the metrics whose evidence has grown by half
since the last time. A cut after a drift alarm leaves no row for the metrics that move with the alarmed one (``MOVES_WITH``); other
metrics keep their evidence. An alarm on a feature (pool depth, volatility) cuts no evidence — what it is associated with may well
be unchanged — but makes the beliefs that depend on it start their fresh rows anew.

The group is a record key, or above it all pairs of a tool or everything: the same life at every level.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from schemas.claims import Claim
from workers.distil.confirm import Finding, Halves, discover, superseded
from workers.distil.observations import Observation, Observations, Unit
from workers.distil.stats import alpha_spent
from workers.distil.verdicts import Belief, Verdict, judge
from workers.metrics import METRICS, WATCHED

Level = Literal["pair", "tool", "global"]

FIRST_MINING = 120
"""Rows for the first mining: halves of sixty, in which both sides of a comparison can have their twenty."""
GROWTH = 1.5
MAX_BELIEFS = 64
PAIR_DEPTH, DEPTH_ABOVE = 2, 1
"""Conditions of a claim. Above the pair: one, since what holds in every pair is a main effect, and two cost ten times as much."""
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


class Learner:
    """The evidence and beliefs of one group. ``unit`` is what a claim above the pair has to hold for more than one of.

    Args:
        level: what the group is.
        key: its name, and so the key of its insights.
        limit: most rows kept.
        unit: None at pair level.
    """

    __slots__ = ("_cuts", "_progress", "_unexamined", "beliefs", "key", "level", "limit", "observations")

    def __init__(self, level: Level, key: str, limit: int, unit: Unit | None = None) -> None:
        self.level = level
        self.key = key
        self.limit = limit
        self.beliefs: list[Belief] = []
        self.observations = Observations(limit, unit)
        self._unexamined = 0
        self._cuts: dict[str, int] = {}
        self._progress: dict[str, Progress] = {}

    def cut(self, alarmed: str) -> frozenset[str]:
        """Close the evidence that an alarm on a watched metric concerns; the metrics that are cut."""
        metrics = MOVES_WITH.get(alarmed, frozenset())
        for name in sorted(metrics):
            self._cuts[name] = self.observations.total
            if name in self._progress:
                self._progress[name] = Progress()
        self.beliefs = [
            belief.restarted(self.observations.total)
            if belief.claim.metric in metrics or alarmed in belief.rule.features
            else belief
            for belief in self.beliefs
        ]
        return metrics

    def take(self, rows: Iterable[Observation]) -> None:
        """Take rows into the evidence, in the order of (time, id)."""
        for observation in rows:
            self.observations.append(observation)
            self._unexamined += 1
            for name in observation.metrics:
                progress = self._progress.get(name)
                if progress is None:
                    progress = self._progress[name] = Progress()
                progress.fresh += 1

    def examine(self, *, least: int, q: float) -> list[Change]:
        """With at least ``least`` new rows, decide what they change; ``q`` is the false discovery rate over the group's metrics."""
        if self._unexamined < least:
            return []
        self._unexamined = 0
        return [*self._judge(), *self._mine(q)]

    def _judge(self) -> list[Judged]:
        view = None
        judged: list[Judged] = []
        for i, belief in enumerate(self.beliefs):
            if belief.retired or self.observations.total < belief.due:
                continue
            view = view or self.observations.view()
            cut = self._cuts.get(belief.claim.metric, 0)
            after, verdict = judge(belief, view.since(cut), self.limit)
            self.beliefs[i] = after
            if verdict is not None:
                judged.append(Judged(after, verdict))
        return judged

    def _mine(self, q: float) -> list[Added | Retired]:
        """Every metric that is due, in order; q is split evenly over the key's metrics."""
        changes: list[Added | Retired] = []
        halves = Halves(PAIR_DEPTH if self.observations.unit is None else DEPTH_ABOVE)
        for name in MINED:
            progress = self._progress.get(name)
            if progress is None or not progress.due:
                continue
            view = self.observations.view().since(self._cuts.get(name, 0))
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
        claim = Claim(level=self.level, key=self.key, metric=finding.rule.metric, conditions=conditions, direction=direction)
        return Belief.new(claim, finding.comparison.evidence(finding.q), self.observations.total)

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            "beliefs": [belief.to_plain() for belief in self.beliefs],
            "observations": self.observations.to_plain(),
            "unexamined": self._unexamined,
            "cuts": self._cuts,
            "progress": {name: [one.looks, one.rows, one.fresh] for name, one in self._progress.items()},
        }

    @classmethod
    def from_plain(cls, level: Level, key: str, plain: dict[str, Any], limit: int, unit: Unit | None = None) -> Learner:
        """The learner that gave ``plain``. Raises KeyError, TypeError or ValueError when it is not one of ours."""
        made = cls(level, key, limit, unit)
        made.beliefs = [Belief.from_plain(belief) for belief in plain["beliefs"]]
        made.observations = Observations.from_plain(plain["observations"], limit, unit)
        made._unexamined = int(plain["unexamined"])
        made._cuts = {name: int(sequence) for name, sequence in plain["cuts"].items()}
        made._progress = {name: Progress(*one) for name, one in plain["progress"].items()}
        return made
