"""The levels stage: closed windows of keys in, operations and drift signals above the keys out. A pure fold over one partition.

Records wait in the window above the keys that they belong to until every source partition has passed its end
(``workers/levels/frontier.py``). A window that closes is taken in by each tool's group, in the order of their names, then by the
group of everything (``workers/levels/group.py``), then by the book of failures (``workers/levels/book.py``). Nothing depends on the
order in which partitions' records come, as long as none is left behind by more than ``patience_days``.

A source's records carry numbers without gaps, so one that comes again after a crash is known by its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from schemas.events import Action
from schemas.identity import content_id
from schemas.signals import DriftSignal
from schemas.topics import EPISODES_RECORDED, OPERATIONS, SIGNALS_RAISED, WINDOWS_CLOSED, Topic
from schemas.windows import WindowClosed
from workers.distil.learning import AS_SHIPPED, Learning
from workers.distil.said import Subject, emission
from workers.drift import Alarm
from workers.levels.book import AUTHOR, Book
from workers.levels.frontier import Frontier
from workers.levels.group import Group, Name, Part, everything, tool_of
from workers.stage import Delivery, Emission, Outcome, Refusal, caused

STATE_VERSION = 1
LEVELS = 3
"""Pair, tool and global: a level has its share of the drift detectors' δ."""
MAX_GROUPS = 128
"""Tools kept; beyond that the one that spoke longest ago is forgotten."""
PATIENCE_DAYS = 7.0


class LevelsStage:
    """A stateful stage over the closed windows of all partitions.

    Args:
        learning: what it goes by, the distiller's own.
        patience_days: how far behind the furthest partition, in event time, one is still waited for.
        sources: how many partitions there are.
    """

    name = "levels"
    inputs: tuple[Topic, ...] = (WINDOWS_CLOSED,)
    outputs: tuple[Topic, ...] = (OPERATIONS, SIGNALS_RAISED)

    def __init__(
        self, learning: Learning = AS_SHIPPED, *, patience_days: float = PATIENCE_DAYS, sources: int = EPISODES_RECORDED.partitions
    ) -> None:
        self._learning = learning
        self._windows = learning.windows
        self._delta = learning.drift_delta / LEVELS
        self._frontier = Frontier(sources, self._windows, round(patience_days * 86_400_000))
        self._next = [0] * sources
        self._open: dict[int, list[WindowClosed]] = {}
        self._groups: dict[str, Group] = {}
        """In the order in which they last spoke."""
        self._book = Book()

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        """Fold a batch in. Nothing depends on where it was cut."""
        emissions: list[Emission] = []
        refusals: list[Refusal] = []
        duplicates, counts = 0, {"late_windows": 0, "thinned_episodes": 0}
        for delivery in batch:
            record: WindowClosed = delivery.message
            if record.source >= len(self._next):
                detail = f"it is of partition {record.source} of the episodes, and there are {len(self._next)}"
                refusals.append(Refusal(delivery.position, "unknown_source", detail))
                continue
            if record.sequence < self._next[record.source]:
                duplicates += 1
                continue
            self._next[record.source] = record.sequence + 1
            start, late = self._frontier.window_for(record.start_ms, record.watermark_ms)
            self._open.setdefault(start, []).append(record)
            counts["late_windows"] += late
            counts["thinned_episodes"] += record.thinned
            if record.watermark_ms is not None:
                self._frontier.advance(record.source, record.watermark_ms)
            for complete in self._windows.closable(self._open, self._frontier.horizon_ms):
                emissions += caused(delivery, self._close(complete))
        for one in emissions:
            kind = str(one.message.kind)  # type: ignore[attr-defined]
            counts[kind] = counts.get(kind, 0) + 1
        counted = {name: count for name, count in counts.items() if count}
        processed = len(batch) - duplicates - len(refusals)
        return Outcome(emissions, refusals, processed=processed, duplicates=duplicates, counts=counted)

    def _close(self, start: int) -> list[Emission]:
        end_ms = self._windows.end_of(start)
        records = sorted(self._open.pop(start), key=lambda record: (record.start_ms, record.key, record.id))
        shares: dict[str, tuple[Name, list[Part]]] = {}
        for part in [Part.of(record) for record in records]:
            for name in (tool_of(part.record), everything(part.record)):
                shares.setdefault(name.key, (name, []))[1].append(part)
        emissions: list[Emission] = []
        for key in sorted(shares, key=lambda key: (shares[key][0].level == "global", key)):
            emissions += self._learn(*shares[key], end_ms)
        return emissions + self._book.close(records, end_ms, self._learning.fdr)

    def _learn(self, name: Name, parts: list[Part], end_ms: int) -> list[Emission]:
        group = self._groups.pop(name.key, None)
        if group is None:
            action = parts[0].record.action if name.level == "tool" else Action.CALL
            group = Group(name, action, delta=self._delta, limit=self._learning.evidence_limit)
            if len(self._groups) >= MAX_GROUPS:
                del self._groups[next(iter(self._groups))]
        self._groups[name.key] = group
        changes, alarms = group.close(parts, least=self._learning.window_min_episodes, q=self._learning.fdr)
        subject = Subject(name.key, name.label, group.action, AUTHOR)
        simulated = any(part.record.simulated for part in parts)
        return [
            *(_signal(name, alarm, simulated=simulated) for alarm in alarms),
            *(emission(subject, change, end_ms) for change in changes),
        ]

    def snapshot(self) -> bytes:
        """The whole state as JSON."""
        plain: dict[str, Any] = {
            "version": STATE_VERSION,
            "frontier": self._frontier.to_plain(),
            "next": self._next,
            "open": [[start, [record.model_dump(mode="json") for record in records]] for start, records in self._open.items()],
            "groups": [[key, group.to_plain()] for key, group in self._groups.items()],
            "book": self._book.to_plain(),
        }
        return orjson.dumps(plain)

    def restore(self, state: bytes) -> None:
        """Take up a state that ``snapshot`` gave. Raises ValueError when it is not one of ours."""
        try:
            plain = orjson.loads(state)
            if plain["version"] != STATE_VERSION:
                raise ValueError(f"version {plain['version']}, this reads {STATE_VERSION}")
            limit = self._learning.evidence_limit
            groups = {str(key): Group.from_plain(str(key), one, limit) for key, one in plain["groups"]}
            book = Book.from_plain(plain["book"])
            opened = {int(start): [WindowClosed.from_plain(record) for record in records] for start, records in plain["open"]}
            following = [int(sequence) for sequence in plain["next"]]
            self._frontier.restore(plain["frontier"])
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"not a state of the levels stage: {error}") from None
        self._groups, self._book, self._open, self._next = groups, book, opened, following


def _signal(name: Name, alarm: Alarm, *, simulated: bool) -> Emission:
    stream = f"{name.level}:{name.key}:{alarm.metric}"
    signal = DriftSignal(
        id=content_id("signal", stream, alarm.episode_id),
        level=name.level,
        stream=stream,
        key=name.key,
        metric=alarm.metric,
        ts=datetime.fromtimestamp(alarm.ts_ms / 1000, UTC),
        episode_id=alarm.episode_id,
        mean_before=alarm.mean_before,
        mean_after=alarm.mean_after,
        width=alarm.width,
        delta=alarm.delta,
        simulated=simulated,
    )
    return Emission(SIGNALS_RAISED, stream, signal, signal.id, alarm.ts_ms)
