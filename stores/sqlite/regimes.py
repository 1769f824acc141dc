"""Regimes as the signals tell them: a timeline for each record key, and the models behind it.

An entry says: from then on this key's market is in that regime; it ends where the key's next entry begins. Entries are kept by the
signal's id and read in the order of event time, so the timeline is the same in whatever order signals arrive, and however often.

What an episode's regime is, or what an insight's evidence is from, is not written anywhere: it is looked up here, by key and time,
when somebody asks (:class:`Timelines`). Episodes and signals come by two topics, and a tag written when the episode arrives would
depend on which of the two was quicker; looked up, it depends on what was recorded and nothing else.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from schemas.signals import RegimeModel, RegimeSignal, Signal
from schemas.topics import SIGNALS_RAISED
from stores.sqlite.connection import Connection
from stores.sqlite.filters import microseconds
from stores.sqlite.rows import from_microseconds

Place = tuple[str, bool]
"""A record key, and whether its executions are simulated: each has a timeline of its own."""

_ENTRIES = """
    SELECT key, simulated, metric, regime, from_us, known_us, probability, model_id FROM regimes
    WHERE (:key IS NULL OR key = :key) ORDER BY key, simulated, from_us, known_us, signal_id
"""
_LINES = """
    SELECT signal_id, key, simulated, metric, regime, from_us, known_us, probability, model_id FROM regimes ORDER BY signal_id
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A key in one regime, ``since`` then and ``until`` another (exclusive; None: to this day). ``known`` is when that was seen for
    sure, ``probability`` the filter's at that time."""

    key: str
    simulated: bool
    metric: str
    regime: str
    since: datetime
    until: datetime | None
    known: datetime
    probability: float
    model_id: str


def put_regimes(connection: Connection, signals: Iterable[Signal]) -> None:
    """Keep what signals say of regimes, and their models; what is there stays as it is. Inside a transaction."""
    told = [signal for signal in signals if isinstance(signal, RegimeSignal)]
    connection.executemany(
        "INSERT INTO regime_models (id, json) VALUES (?, ?) ON CONFLICT DO NOTHING",
        [(signal.model.id, signal.model.model_dump_json()) for signal in told],
    )
    connection.executemany(
        "INSERT INTO regimes (signal_id, key, simulated, metric, regime, from_us, known_us, probability, model_id)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [
            (
                signal.id, signal.key, int(signal.simulated), signal.metric, signal.regime, microseconds(signal.since),
                microseconds(signal.ts), signal.probability, signal.model.id,
            )
            for signal in told
        ],
    )  # fmt: skip


def regime_lines(connection: Connection) -> Iterator[dict[str, Any]]:
    """The timeline for the fingerprint, by signal. The models are in the signals' own lines."""
    names = ("id", "key", "simulated", "metric", "regime", "from_us", "known_us", "probability", "model")
    for row in connection.execute(_LINES):
        yield {"regime": dict(zip(names, row, strict=True))}


def signals_read(connection: Connection) -> int:
    """How many places of the signals' topic are in the store: when it has not changed, neither has any timeline."""
    return int(connection.one("SELECT coalesce(sum(next_offset), 0) FROM offsets WHERE topic = ?", (SIGNALS_RAISED.name,)))


def regime_model(connection: Connection, model_id: str) -> RegimeModel | None:
    """A model by its id."""
    text = connection.one("SELECT json FROM regime_models WHERE id = ?", (model_id,))
    return None if text is None else RegimeModel.model_validate_json(text)


def stretches(connection: Connection, key: str | None = None) -> tuple[Stretch, ...]:
    """Every stretch, of one key or of all, by key and in the order of time."""
    rows = connection.execute(_ENTRIES, {"key": key})
    found = []
    for row, following in zip(rows, [*rows, None][1:], strict=True):
        goes_on = following is not None and following[:2] == row[:2]
        found.append(
            Stretch(
                key=row[0],
                simulated=bool(row[1]),
                metric=row[2],
                regime=row[3],
                since=from_microseconds(row[4]),
                until=from_microseconds(following[4]) if following is not None and goes_on else None,
                known=from_microseconds(row[5]),
                probability=row[6],
                model_id=row[7],
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Tally:
    """For monitoring: how many keys are in each regime now, by whether they are simulated, and how many changes there were."""

    present: dict[tuple[str, bool], int]
    changes: dict[tuple[str, bool], int]


def tally(connection: Connection) -> Tally:
    """Count: present regimes by name, and entries by name."""
    last = (
        "SELECT regime, simulated, count(*) FROM (SELECT regime, simulated, row_number() OVER"
        " (PARTITION BY key, simulated ORDER BY from_us DESC, known_us DESC, signal_id DESC) AS place FROM regimes)"
        " WHERE place = 1 GROUP BY regime, simulated"
    )
    every = "SELECT regime, simulated, count(*) FROM regimes GROUP BY regime, simulated"
    return Tally(*({(name, bool(paper)): count for name, paper, count in connection.execute(sql)} for sql in (last, every)))


class Timelines:
    """All timelines, in memory, to look up in.

    ``known_by`` leaves out what was not yet known then: a regime is sure some executions after it began.
    """

    def __init__(self, found: Sequence[Stretch] = ()) -> None:
        self._lines: dict[Place, list[Stretch]] = {}
        for one in found:
            self._lines.setdefault((one.key, one.simulated), []).append(one)

    def __len__(self) -> int:
        return sum(len(line) for line in self._lines.values())

    def at(self, key: str, simulated: bool, ts: datetime, known_by: datetime | None = None) -> Stretch | None:
        """The stretch in which a key was at a time; None where nothing is known of it."""
        line = self._lines.get((key, simulated), [])
        place = bisect_right(line, ts, key=_since)
        while place and known_by is not None and line[place - 1].known > known_by:
            place -= 1
        return line[place - 1] if place else None

    def shares(
        self, key: str, simulated: bool, first: datetime, last: datetime, known_by: datetime | None = None
    ) -> dict[str, float]:
        """Of the time from ``first`` to ``last`` (both included), as far as regimes are known, the share in each of them."""
        line = [one for one in self._lines.get((key, simulated), []) if known_by is None or one.known <= known_by]
        spent: dict[str, timedelta] = {}
        for one, following in zip(line, [*line, None][1:], strict=True):
            begins, ends = max(first, one.since), last if following is None else min(last, following.since)
            if begins <= ends and (following is None or begins < following.since):
                # A moment more than nothing, so that evidence of a single moment is of its regime.
                spent[one.regime] = spent.get(one.regime, timedelta()) + (ends - begins) + timedelta(microseconds=1)
        whole = sum(spent.values(), timedelta())
        return {name: time / whole for name, time in sorted(spent.items())}

    def spans(
        self, regime: str, narrow: Mapping[str, str | None], *, simulated: bool | None = None, known_by: datetime | None = None
    ) -> list[Stretch]:
        """Every stretch of a regime, the latest first; ``narrow`` may fix ``key``, ``tool``, ``chain`` and ``pair``."""
        found = []
        for (key, paper), line in self._lines.items():
            if simulated in (None, paper) and _fits(key, narrow):
                known = [one for one in line if known_by is None or one.known <= known_by]
                for one, following in zip(known, [*known, None][1:], strict=True):
                    if one.regime == regime:
                        until = None if following is None else following.since
                        found.append(one if until == one.until else _ending(one, until))
        return sorted(found, key=lambda one: (-microseconds(one.since), one.key, one.simulated))


def _since(stretch: Stretch) -> datetime:
    return stretch.since


def _ending(one: Stretch, until: datetime | None) -> Stretch:
    return Stretch(one.key, one.simulated, one.metric, one.regime, one.since, until, one.known, one.probability, one.model_id)


def _fits(key: str, narrow: Mapping[str, str | None]) -> bool:
    tool, chain, pair = [*key.split(":", 2), "", ""][:3]
    own = {"key": key, "tool": tool, "chain": chain, "pair": pair}
    return all(value is None or own[name] == value for name, value in narrow.items())
