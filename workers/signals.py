"""The signals stage: drift alarms and changes of regime at pair level, raised at exactly the record that shows them.

State is, for each record key of the partition, its clock, its drift monitors and its regimes: one of each for real executions and
one for simulated ones, because a paper trade says nothing of the market. At most ``MAX_KEYS`` keys are kept; beyond that the key
that spoke longest ago is forgotten, clock and all, and would start anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from schemas.episodes import Episode
from schemas.identity import content_id
from schemas.settings import Settings
from schemas.signals import DriftSignal, RegimeSignal
from schemas.topics import EPISODES_RECORDED, SIGNALS_RAISED, Topic
from workers.clock import KeyClock, Verdict, milliseconds, moment
from workers.drift import Alarm, DriftMonitor
from workers.metrics import watched_values
from workers.regimes.monitor import Change, RegimeMonitor
from workers.regimes.series import seen
from workers.stage import Delivery, Emission, Outcome, caused

MAX_KEYS = 512
FORMAT = 2


@dataclass(slots=True)
class _Watch:
    """What is watched of a key's executions of one kind, real or simulated."""

    drift: DriftMonitor
    regimes: RegimeMonitor

    def to_plain(self) -> list[Any]:
        return [self.drift.to_plain(), self.regimes.to_plain()]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> _Watch:
        drift, regimes = plain
        return cls(DriftMonitor.from_plain(drift), RegimeMonitor.from_plain(regimes))


@dataclass(slots=True)
class _Key:
    clock: KeyClock
    watches: dict[bool, _Watch] = field(default_factory=dict)
    """By whether the executions are simulated; made when there is one."""

    def to_plain(self) -> list[Any]:
        return [self.clock.to_plain(), [[simulated, watch.to_plain()] for simulated, watch in sorted(self.watches.items())]]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> _Key:
        clock, watches = plain
        return cls(KeyClock.from_plain(clock), {bool(simulated): _Watch.from_plain(watch) for simulated, watch in watches})


class SignalsStage:
    """Watches one partition of the episodes for drift (``workers/drift.py``) and changes of regime (``workers/regimes``)."""

    name = "signals"
    inputs: tuple[Topic, ...] = (EPISODES_RECORDED,)
    outputs: tuple[Topic, ...] = (SIGNALS_RAISED,)

    def __init__(self, partition: int, settings: Settings) -> None:
        self.partition = partition
        self._delta = settings.drift_delta
        self._lateness_ms = round(settings.lateness_hours * 3_600_000)
        # Ordered by when each key last spoke.
        self._keys: dict[str, _Key] = {}

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        """Fold a batch in. Pending and retracted executions pass by: they teach nothing and are not remembered as seen."""
        verdicts = dict.fromkeys(Verdict, 0)
        emissions: list[Emission] = []
        for delivery in batch:
            verdict, raised = self._fold(delivery.message)
            verdicts[verdict] += 1
            emissions += caused(delivery, raised)
        changes = sum(isinstance(emission.message, RegimeSignal) for emission in emissions)
        return Outcome(
            emissions=emissions,
            processed=verdicts[Verdict.FRESH],
            duplicates=verdicts[Verdict.DUPLICATE],
            late=verdicts[Verdict.LATE],
            counts={"drift_alarms": len(emissions) - changes, "regime_changes": changes},
        )

    def _fold(self, episode: Episode) -> tuple[Verdict, list[Emission]]:
        if not episode.learnable:
            return Verdict.FRESH, []
        key = self._key(episode.key)
        ts_ms = milliseconds(episode.ts)
        verdict = key.clock.admit(episode.id, ts_ms)
        if verdict is not Verdict.FRESH:
            return verdict, []
        watch = key.watches.get(episode.event.simulated)
        if watch is None:
            watch = key.watches[episode.event.simulated] = _Watch(DriftMonitor(self._delta), RegimeMonitor())
        alarms = watch.drift.learn_one(ts_ms, episode.id, watched_values(episode.metrics, episode.features))
        shown = seen(episode.event, episode.metrics, episode.features)
        change = watch.regimes.learn_one(ts_ms, episode.id, shown, key.clock.now_ms)
        raised = [_alarm(episode, alarm) for alarm in alarms]
        return verdict, raised if change is None else [*raised, _change(episode, change)]

    def _key(self, name: str) -> _Key:
        key = self._keys.pop(name, None)
        if key is None:
            key = _Key(KeyClock(self._lateness_ms))
            if len(self._keys) >= MAX_KEYS:
                del self._keys[next(iter(self._keys))]
        self._keys[name] = key
        return key

    def snapshot(self) -> bytes:
        """The whole state, as JSON."""
        return orjson.dumps({
            "format": FORMAT,
            "delta": self._delta,
            "lateness_ms": self._lateness_ms,
            "keys": [[name, key.to_plain()] for name, key in self._keys.items()],
        })  # fmt: skip

    def restore(self, state: bytes) -> None:
        """Take up a snapshot's state. Raises ValueError when it is not one of ours, or of other settings: fold the log again."""
        try:
            plain: dict[str, Any] = orjson.loads(state)
            if (plain["format"], plain["delta"], plain["lateness_ms"]) != (FORMAT, self._delta, self._lateness_ms):
                raise ValueError("it is of another format or of other settings")
            keys = {str(name): _Key.from_plain(key) for name, key in plain["keys"]}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a snapshot of the signals stage: {error}") from None
        self._keys = keys


def _alarm(episode: Episode, alarm: Alarm) -> Emission:
    stream = f"pair:{episode.key}:{alarm.metric}"
    signal = DriftSignal(
        id=content_id("signal", stream, alarm.episode_id),
        level="pair",
        stream=stream,
        key=episode.key,
        metric=alarm.metric,
        ts=episode.ts,
        episode_id=alarm.episode_id,
        mean_before=alarm.mean_before,
        mean_after=alarm.mean_after,
        width=alarm.width,
        delta=alarm.delta,
        simulated=episode.event.simulated,
    )
    return Emission(SIGNALS_RAISED, stream, signal, signal.id, alarm.ts_ms)


def _change(episode: Episode, change: Change) -> Emission:
    stream = f"regime:{episode.key}:{change.metric}"
    signal = RegimeSignal(
        id=content_id("signal", stream, change.episode_id),
        stream=stream,
        key=episode.key,
        metric=change.metric,
        ts=episode.ts,
        since=moment(change.since_ms),
        episode_id=change.episode_id,
        previous=change.previous,
        regime=change.regime,
        probability=change.probability,
        filtered=change.filtered,
        model=change.model,
        simulated=episode.event.simulated,
    )
    return Emission(SIGNALS_RAISED, stream, signal, signal.id, change.ts_ms)
