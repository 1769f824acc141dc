"""The distil stage: episodes in, insight operations out. One instance a partition, a pure fold over its records.

Order of things for one record, and nothing but records moves anything: admit by the key's clock, feed the drift monitor, cut where
it alarms, put the observation into its window, close the key's windows that are complete, then the windows of keys that have
fallen silent. An operation is dated with the end of the window that it came from and identified by its insight, its kind and
its evidence, so a replay emits the same.

Episodes are clustered by their record key, ``tool:chain:pair``, exactly; inside a key conditions tell them apart, not the
distance of their sentences, so vectors are no part of the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from schemas.claims import Evidence
from schemas.episodes import Episode
from schemas.identity import content_id
from schemas.operations import AddInsight, ArchiveInsight, DownvoteInsight, EditInsight, UpvoteInsight
from schemas.topics import EPISODES_RECORDED, OPERATIONS, Topic
from workers.clock import PartitionClock, Verdict
from workers.distil.category import category
from workers.distil.keystate import Added, Change, KeyState, Retired
from workers.distil.observations import Cell, Observation
from workers.distil.verdicts import Belief
from workers.distil.words import sentence
from workers.metrics import METRICS, rounded, watched_values
from workers.stage import Delivery, Emission, Outcome
from workers.windows import Tumbling

AUTHOR = "distil"
STATE_VERSION = 1
LONGEST_CATEGORY = 128
"""A longer text is no category that anybody would name in a rule."""

Operation = AddInsight | ArchiveInsight | UpvoteInsight | DownvoteInsight | EditInsight


class DistilStage:
    """A stateful stage over the episodes of one partition.

    Args:
        window_hours: length of the event-time windows.
        window_min_episodes: fewest new episodes of a key before its beliefs and evidence are looked at.
        lateness_hours: how far behind its key's clock an episode still teaches.
        evidence_limit: most episodes of evidence kept a key.
        fdr: false discovery rate of new claims, a key.
        drift_delta: confidence parameter of a key's drift detectors.
    """

    name = "distil"
    inputs: tuple[Topic, ...] = (EPISODES_RECORDED,)
    outputs: tuple[Topic, ...] = (OPERATIONS,)

    def __init__(
        self,
        *,
        window_hours: float = 4.0,
        window_min_episodes: int = 3,
        lateness_hours: float = 4.0,
        evidence_limit: int = 2000,
        fdr: float = 0.10,
        drift_delta: float = 0.002,
    ) -> None:
        self._windows = Tumbling.of_hours(window_hours)
        self._lateness_ms = Tumbling.of_hours(lateness_hours).length_ms
        self._least = window_min_episodes
        self._limit = evidence_limit
        self._fdr = fdr
        self._delta = drift_delta
        self._partition = PartitionClock()
        self._keys: dict[str, KeyState] = {}

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        """Fold a batch in. Nothing depends on where it was cut."""
        emissions: list[Emission] = []
        tally = {Verdict.FRESH: 0, Verdict.DUPLICATE: 0, Verdict.LATE: 0}
        not_learned = 0
        for delivery in batch:
            episode: Episode = delivery.message
            if not episode.learnable:
                not_learned += 1
                continue
            tally[self._learn(episode, emissions)] += 1
        counts: dict[str, int] = {"not_learned": not_learned} if not_learned else {}
        for emission in emissions:
            kind: str = emission.message.kind  # type: ignore[attr-defined]
            counts[kind] = counts.get(kind, 0) + 1
        return Outcome(
            emissions=emissions,
            processed=tally[Verdict.FRESH] + not_learned,
            duplicates=tally[Verdict.DUPLICATE],
            late=tally[Verdict.LATE],
            counts=counts,
        )

    def _learn(self, episode: Episode, emissions: list[Emission]) -> Verdict:
        state = self._keys.get(episode.key)
        if state is None:
            state = self._keys[episode.key] = KeyState(
                episode.key,
                episode.label,
                episode.event.action,
                lateness_ms=self._lateness_ms,
                delta=self._delta,
                limit=self._limit,
            )
        ts_ms = round(episode.ts.timestamp() * 1000)
        verdict = state.clock.admit(episode.id, ts_ms)
        if verdict is Verdict.FRESH:
            values = watched_values(episode.metrics, episode.features)
            alarms = [alarm.metric for alarm in state.monitor.learn_one(ts_ms, episode.id, values)]
            state.observe(self._windows.start_of(ts_ms), _observation(episode, ts_ms), alarms)
            for start in self._windows.closable(state.open, state.clock.horizon_ms):
                emissions += self._close(state, start)
        self._partition.observe(episode.key, state.clock.now_ms)
        for key in self._partition.idle(self._windows.length_ms):
            silent = self._keys[key]
            for start in sorted(silent.open):
                emissions += self._close(silent, start)
        return verdict

    def _close(self, state: KeyState, start: int) -> list[Emission]:
        end_ms = self._windows.end_of(start)
        return [
            _emission(_operation(state, change, end_ms), end_ms) for change in state.close(start, least=self._least, q=self._fdr)
        ]

    def snapshot(self) -> bytes:
        """The whole state as JSON."""
        keys = {key: state.to_plain() for key, state in self._keys.items()}
        return orjson.dumps({"version": STATE_VERSION, "clock": self._partition.to_plain(), "keys": keys})

    def restore(self, state: bytes) -> None:
        """Take up a state that ``snapshot`` gave. Raises ValueError when it is not one of ours."""
        try:
            plain = orjson.loads(state)
            if plain["version"] != STATE_VERSION:
                raise ValueError(f"version {plain['version']}, this reads {STATE_VERSION}")
            clock = PartitionClock.from_plain(plain["clock"])
            keys = {key: KeyState.from_plain(key, one, self._limit) for key, one in plain["keys"].items()}
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"not a state of the distil stage: {error}") from None
        self._partition, self._keys = clock, keys


def _observation(episode: Episode, ts_ms: int) -> Observation:
    metrics = {name: value for name, value in episode.metrics.items() if name in METRICS}
    features: dict[str, Cell] = {
        name: cell for name, cell in episode.features.items() if not isinstance(cell, str) or len(cell) <= LONGEST_CATEGORY
    }
    return Observation(ts_ms, episode.id, metrics, features, episode.event.simulated)


def _operation(state: KeyState, change: Change, end_ms: int) -> Operation:
    if isinstance(change, Retired):
        return _archive(change, end_ms)
    belief = change.belief
    if isinstance(change, Added):
        comparison, evidence, kind = change.finding.comparison, belief.evidence, "ADD"
        why = "found in the older half of the evidence, confirmed in the newer"
    else:
        comparison, evidence, kind = change.verdict.comparison, change.verdict.evidence, change.verdict.kind
        why = change.verdict.why
    said = _said(belief, kind, f"{why}; {_numbers(evidence, comparison.between.inflation)}", end_ms, evidence.episode_ids)
    said["evidence"] = evidence
    if kind == "UPVOTE":
        return UpvoteInsight(**said)
    if kind == "DOWNVOTE":
        return DownvoteInsight(**said)
    simulated = bool(comparison.view.simulated.any())
    said["text"] = sentence(belief.claim, evidence, state.label, simulated=simulated)
    said["claim"] = belief.claim
    if kind == "EDIT":
        return EditInsight(**said)
    return AddInsight(**said, **_about(state, belief, evidence), simulated=simulated)


def _archive(change: Retired, end_ms: int) -> ArchiveInsight:
    fixed = " and ".join(change.by.rule.features)
    reason = f"with {fixed} held fixed nothing that matters is left of the effect: a newer claim explains it"
    return ArchiveInsight(**_said(change.belief, "ARCHIVE", reason, end_ms, change.by.comparison.view.ids[-1:]))


def _said(belief: Belief, kind: str, reason: str, end_ms: int, episodes: Sequence[str]) -> dict[str, Any]:
    """What every operation says; its id is that of its insight, kind, window and evidence."""
    insight_id = belief.claim.insight_id
    return {
        "op_id": content_id("operation", kind, insight_id, end_ms, *episodes),
        "insight_id": insight_id,
        "ts": datetime.fromtimestamp(end_ms / 1000, UTC),
        "author": AUTHOR,
        "reason": reason,
    }


def _about(state: KeyState, belief: Belief, evidence: Evidence) -> Mapping[str, Any]:
    """What only an ADD says. Importance is the size of the effect: a claim that tells episodes apart completely has 1."""
    metric = METRICS[belief.claim.metric]
    return {
        "category": category(metric, belief.rule.features, state.action, evidence.inside),
        "key": state.key,
        "label": state.label,
        "importance": rounded(min(1.0, abs(evidence.effect))),
    }


def _numbers(evidence: Evidence, inflation: float) -> str:
    test = "Fisher exact" if evidence.kind == "risk_difference" else "Brunner-Munzel"
    corrected = f", variance ×{inflation:.2f} for autocorrelation" if inflation > 1.005 else ""
    return (
        f"{test} p={evidence.p:.3g}, q={evidence.q:.3g}{corrected}; {evidence.kind} {evidence.effect:.3f} "
        f"[{evidence.low:.3f}, {evidence.high:.3f}], n={evidence.n_inside}+{evidence.n_outside}"
    )


def _emission(operation: Operation, end_ms: int) -> Emission:
    return Emission(OPERATIONS, operation.insight_id, operation, operation.op_id, end_ms)
