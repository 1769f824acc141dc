"""The signals stage: drift alarms at pair level, raised at exactly the record that shows them.

State is, for each record key of the partition, its clock and its drift monitors: one for real executions and one for simulated
ones, because a paper trade says nothing of the market's drift. At most ``MAX_KEYS`` keys are kept; beyond that the key that spoke
longest ago is forgotten, clock and all, and would start anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from schemas.episodes import Episode
from schemas.identity import content_id
from schemas.settings import Settings
from schemas.signals import DriftSignal
from schemas.topics import EPISODES_RECORDED, SIGNALS_RAISED, Topic
from workers.clock import KeyClock, Verdict, milliseconds
from workers.drift import Alarm, DriftMonitor
from workers.metrics import watched_values
from workers.stage import Delivery, Emission, Outcome

MAX_KEYS = 512
FORMAT = 1


@dataclass(slots=True)
class _Key:
    clock: KeyClock
    real: DriftMonitor
    simulated: DriftMonitor = field(repr=False)


class SignalsStage:
    """Watches one partition of the episodes for drift. See ``workers/drift.py`` for what counts as one."""

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
            verdict, alarms = self._fold(delivery.message)
            verdicts[verdict] += 1
            emissions += [_emission(delivery.message, alarm) for alarm in alarms]
        return Outcome(
            emissions=emissions,
            processed=verdicts[Verdict.FRESH],
            duplicates=verdicts[Verdict.DUPLICATE],
            late=verdicts[Verdict.LATE],
            counts={"drift_alarms": len(emissions)},
        )

    def _fold(self, episode: Episode) -> tuple[Verdict, list[Alarm]]:
        if not episode.learnable:
            return Verdict.FRESH, []
        key = self._key(episode.key)
        ts_ms = milliseconds(episode.ts)
        verdict = key.clock.admit(episode.id, ts_ms)
        if verdict is not Verdict.FRESH:
            return verdict, []
        monitor = key.simulated if episode.event.simulated else key.real
        return verdict, monitor.learn_one(ts_ms, episode.id, watched_values(episode.metrics, episode.features))

    def _key(self, name: str) -> _Key:
        key = self._keys.pop(name, None)
        if key is None:
            key = _Key(KeyClock(self._lateness_ms), DriftMonitor(self._delta), DriftMonitor(self._delta))
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
            "keys": [
                [name, key.clock.to_plain(), key.real.to_plain(), key.simulated.to_plain()] for name, key in self._keys.items()
            ],
        })  # fmt: skip

    def restore(self, state: bytes) -> None:
        """Take up a snapshot's state. Raises ValueError when it is not one of ours, or of other settings: fold the log again."""
        try:
            plain: dict[str, Any] = orjson.loads(state)
            if (plain["format"], plain["delta"], plain["lateness_ms"]) != (FORMAT, self._delta, self._lateness_ms):
                raise ValueError("it is of another format or of other settings")
            keys = {
                str(name): _Key(KeyClock.from_plain(clock), DriftMonitor.from_plain(real), DriftMonitor.from_plain(simulated))
                for name, clock, real, simulated in plain["keys"]
            }
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a snapshot of the signals stage: {error}") from None
        self._keys = keys


def _emission(episode: Episode, alarm: Alarm) -> Emission:
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
