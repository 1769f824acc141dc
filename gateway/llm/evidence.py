"""A key's evidence as a proposer may use it: its episodes out of the store, cut at its last drift alarms (law 7, never pooled
across a cut), and what is believed of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from schemas.events import Action
from schemas.insights import Insight
from schemas.signals import DriftSignal
from stores.episodes import EpisodeStore
from stores.sqlite import InsightFilter, InsightStore, SignalFilter, through
from workers.clock import milliseconds
from workers.distil.confirm import Rule
from workers.distil.learner import MOVES_WITH
from workers.distil.observations import Observations, observation_of
from workers.proposals.claims import Evidence, evidence_of

BELIEVED = Decimal("0.5")
_PAGE = 200


@dataclass(frozen=True, slots=True)
class Subject:
    """A key with its evidence. ``insights`` are active claims about it, ``last_ms`` the event time of its last episode."""

    key: str
    label: str
    action: Action
    evidence: Evidence
    insights: tuple[Insight, ...]
    last_ms: int

    @property
    def believed(self) -> list[Rule]:
        """The rules that are believed, so that nothing is found twice."""
        return [Rule(one.claim.metric, one.claim.conditions) for one in self.insights if one.claim and one.confidence >= BELIEVED]


def load_subject(episodes: EpisodeStore, insights: InsightStore, key: str, limit: int) -> Subject | None:
    """A key's evidence of at most ``limit`` episodes; None where there are none."""
    found = episodes.of_key(key, limit)
    if not found:
        return None
    observations = Observations(limit)
    for episode in found:
        observations.append(observation_of(episode))
    last = found[-1]
    claims = tuple(one for one in active(insights, key) if one.claim is not None and one.claim.conditions)
    evidence = evidence_of(observations, _cuts(insights, key))
    return Subject(key, last.label, last.event.action, evidence, claims, milliseconds(last.ts))


def active(insights: InsightStore, key: str) -> list[Insight]:
    """Every active insight of a key."""
    return list(through(lambda cursor: insights.list(InsightFilter(key=key), limit=_PAGE, cursor=cursor)))


def _cuts(insights: InsightStore, key: str) -> Mapping[str, int]:
    """By metric, the time of the last alarm that cuts its evidence, in Unix milliseconds."""
    cuts: dict[str, int] = {}
    wanted = SignalFilter(kind="drift", level="pair", key=key)
    for signal in through(lambda cursor: insights.signals(wanted, limit=_PAGE, cursor=cursor)):
        if isinstance(signal, DriftSignal):
            at = milliseconds(signal.ts)
            for name in MOVES_WITH.get(signal.metric, ()):
                cuts[name] = max(at, cuts.get(name, at))
    return cuts
