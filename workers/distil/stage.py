"""The distil stage: episodes in, insight operations and closed windows out. One instance a partition, a pure fold over its records.

Order of things for one record, and nothing but records moves anything: admit by the key's clock, feed the drift monitor, cut where
it alarms, put the observation into its window, close the key's windows that are complete, then the windows of keys that have
fallen silent. Each window that closes is also handed to the levels above the key, with the time up to which this partition has
handed on everything: its clock less the lateness and less a window, which is how long a key may be silent before its window closes.

Episodes are clustered by their record key, ``tool:chain:pair``, exactly; inside a key conditions tell them apart, not the
distance of their sentences, so vectors are no part of the state.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from schemas.episodes import Episode
from schemas.topics import EPISODES_RECORDED, OPERATIONS, WINDOWS_CLOSED, Topic
from workers.clock import PartitionClock, Verdict, milliseconds
from workers.distil.handover import window_closed
from workers.distil.keystate import KeyState
from workers.distil.learning import AS_SHIPPED, Learning
from workers.distil.observations import observation_of
from workers.distil.said import Subject, emission
from workers.metrics import watched_values
from workers.stage import Delivery, Emission, Outcome, caused
from workers.windows import Tumbling

AUTHOR = "distil"
STATE_VERSION = 2


class DistilStage:
    """A stateful stage over the episodes of one partition.

    Args:
        learning: what it goes by.
        lateness_hours: how far behind its key's clock an episode still teaches.
    """

    name = "distil"
    inputs: tuple[Topic, ...] = (EPISODES_RECORDED,)
    outputs: tuple[Topic, ...] = (OPERATIONS, WINDOWS_CLOSED)

    def __init__(self, learning: Learning = AS_SHIPPED, *, lateness_hours: float = 4.0) -> None:
        self._learning = learning
        self._windows = learning.windows
        self._lateness_ms = Tumbling.of_hours(lateness_hours).length_ms
        self._partition = PartitionClock()
        self._keys: dict[str, KeyState] = {}
        self._sent = 0
        """Windows handed on so far: the next one's sequence number."""

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
            raised: list[Emission] = []
            tally[self._learn(episode, delivery.position.partition, raised)] += 1
            emissions += caused(delivery, raised)
        counts: dict[str, int] = {"not_learned": not_learned} if not_learned else {}
        for one in emissions:
            kind = getattr(one.message, "kind", "windows")
            counts[kind] = counts.get(kind, 0) + 1
        return Outcome(
            emissions=emissions,
            processed=tally[Verdict.FRESH] + not_learned,
            duplicates=tally[Verdict.DUPLICATE],
            late=tally[Verdict.LATE],
            counts=counts,
        )

    def _learn(self, episode: Episode, source: int, emissions: list[Emission]) -> Verdict:
        state = self._keys.get(episode.key)
        if state is None:
            state = self._keys[episode.key] = KeyState(
                episode.key,
                episode.label,
                episode.event.action,
                lateness_ms=self._lateness_ms,
                delta=self._learning.drift_delta,
                limit=self._learning.evidence_limit,
            )
        ts_ms = milliseconds(episode.ts)
        through = self._through()  # as of the record before: its windows are all closed
        verdict = state.clock.admit(episode.id, ts_ms)
        if verdict is Verdict.FRESH:
            values = watched_values(episode.metrics, episode.features)
            alarms = [alarm.metric for alarm in state.monitor.learn_one(ts_ms, episode.id, values)]
            state.observe(self._windows.start_of(ts_ms), observation_of(episode), alarms)
            for start in self._windows.closable(state.open, state.clock.horizon_ms):
                emissions += self._close(state, start, source, through)
        self._partition.observe(episode.key, state.clock.now_ms)
        for key in self._partition.idle(self._windows.length_ms):
            silent = self._keys[key]
            for start in sorted(silent.open):
                emissions += self._close(silent, start, source, through)
        return verdict

    def _through(self) -> int | None:
        """The time up to which everything is handed on."""
        now = self._partition.now_ms
        return None if now is None else now - self._lateness_ms - self._windows.length_ms

    def _close(self, state: KeyState, start: int, source: int, through: int | None) -> list[Emission]:
        end_ms = self._windows.end_of(start)
        closing, changes = state.close(start, least=self._learning.window_min_episodes, q=self._learning.fdr)
        handed_on = window_closed(
            key=state.key,
            label=state.label,
            action=state.action,
            start_ms=start,
            end_ms=end_ms,
            source=source,
            sequence=self._sent,
            watermark_ms=through,
            closing=closing,
            cuts=state.cuts,
        )
        self._sent += 1
        subject = Subject(state.key, state.label, state.action, AUTHOR)
        return [*(emission(subject, change, end_ms) for change in changes), handed_on]

    def snapshot(self) -> bytes:
        """The whole state as JSON."""
        keys = {key: state.to_plain() for key, state in self._keys.items()}
        plain = {"version": STATE_VERSION, "clock": self._partition.to_plain(), "keys": keys, "sent": self._sent}
        return orjson.dumps(plain)

    def restore(self, state: bytes) -> None:
        """Take up a state that ``snapshot`` gave. Raises ValueError when it is not one of ours."""
        try:
            plain = orjson.loads(state)
            if plain["version"] != STATE_VERSION:
                raise ValueError(f"version {plain['version']}, this reads {STATE_VERSION}")
            clock = PartitionClock.from_plain(plain["clock"])
            limit = self._learning.evidence_limit
            keys = {key: KeyState.from_plain(key, one, limit) for key, one in plain["keys"].items()}
            sent = int(plain["sent"])
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"not a state of the distil stage: {error}") from None
        self._partition, self._keys, self._sent = clock, keys, sent
