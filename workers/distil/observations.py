"""What a key has seen: observations in columns, oldest first, bounded.

Two thousand observations of a dozen features as Python dicts would be five megabytes a key; as columns they are 300 kB, and
mining reads columns anyway. A cell that is absent is NaN (numbers) or code −1 (categories and booleans, kept as codes into a
list of levels); it is never zero.

Rows have sequence numbers that never repeat, so "everything since the last verdict" and "everything since the drift cut" are
plain numbers that stay right when old rows are forgotten. New rows wait in a list until somebody looks: folding them in one by
one would copy every column for every trade.

Above the pair level rows have a **group**, the pair that they come from, so that effects can be taken within pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from schemas.claims import Condition
from schemas.episodes import Episode
from workers.clock import milliseconds
from workers.distil.stats import Bools, Floats
from workers.errors import error_kind
from workers.metrics import METRICS, workable

Cell = bool | float | str
Codes = npt.NDArray[np.int16]

MAX_COLUMNS = 48
"""Metrics and features that a key keeps apart; what comes after the first so many is not learned from."""
LONGEST_CATEGORY = 128
"""A longer text is no category that anybody would name in a rule."""
MAX_LEVELS = 64
"""Categories of one feature; rarer late-comers count as absent. A feature with more is an identifier, not a condition."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one episode teaches: outcomes, and what was known before."""

    ts_ms: int
    id: str
    metrics: dict[str, float]
    features: dict[str, Cell]
    simulated: bool = False
    error: str = ""
    """The kind of error that it failed with."""
    group: str = ""
    """The pair that it comes from, where rows of several are kept together."""

    def to_plain(self) -> list[Any]:
        """As JSON values."""
        return [self.ts_ms, self.id, self.metrics, self.features, self.simulated, self.error, self.group]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> Observation:
        """The observation that gave ``plain``."""
        ts_ms, identity, metrics, features, simulated, error, group = plain
        return cls(int(ts_ms), str(identity), metrics, features, bool(simulated), str(error), str(group))


def observation_of(episode: Episode) -> Observation:
    """What an episode teaches. What statistics cannot take, and texts that are no category, is left out."""
    metrics = {name: value for name, value in episode.metrics.items() if name in METRICS and workable(value)}
    features = {name: cell for name, cell in episode.features.items() if _told(cell)}
    event = episode.event
    error = error_kind(event.status, event.error) if metrics.get("failed") else ""
    return Observation(milliseconds(episode.ts), episode.id, metrics, features, event.simulated, error)


def _told(cell: Cell) -> bool:
    if isinstance(cell, str):
        return len(cell) <= LONGEST_CATEGORY
    return isinstance(cell, bool) or workable(cell)


Unit = Literal["pair", "tool"]
"""What a claim has to hold for more than one of: pairs at the tool level, tools at the global one."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Each row's group as a code into ``names`` (−1: beyond the ``MAX_LEVELS`` that are kept apart), and each group's unit."""

    codes: Codes
    names: list[str]
    units: list[int]


@dataclass(frozen=True, slots=True)
class View:
    """Consecutive rows as columns (not copied). ``first`` is the sequence number of row 0."""

    first: int
    ts_ms: npt.NDArray[np.int64]
    ids: list[str]
    simulated: Bools
    metrics: Mapping[str, Floats]
    numbers: Mapping[str, Floats]
    codes: Mapping[str, Codes]
    levels: Mapping[str, list[bool | str]]
    groups: Groups | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def group_codes(self) -> Codes | None:
        """Each row's group; None where rows are all of one."""
        return None if self.groups is None else self.groups.codes

    def _grouped(self, cut: slice | Bools) -> Groups | None:
        return None if self.groups is None else Groups(self.groups.codes[cut], self.groups.names, self.groups.units)

    def rows(self, start: int, stop: int) -> View:
        """Rows ``start`` to ``stop`` by position."""
        cut = slice(start, stop)
        return View(
            self.first + start,
            self.ts_ms[cut],
            self.ids[cut],
            self.simulated[cut],
            {name: column[cut] for name, column in self.metrics.items()},
            {name: column[cut] for name, column in self.numbers.items()},
            {name: column[cut] for name, column in self.codes.items()},
            self.levels,
            self._grouped(cut),
        )

    def since(self, sequence: int) -> View:
        """Rows from a sequence number on."""
        return self.rows(max(0, sequence - self.first), len(self))

    def known(self, metric: str) -> Bools:
        """Where a metric is known."""
        column = self.metrics.get(metric)
        return np.zeros(len(self), dtype=np.bool_) if column is None else ~np.isnan(column)

    def having(self, metric: str) -> View:
        """The rows where a metric is known."""
        keep = self.known(metric)
        return self if keep.all() and len(keep) else self.where(keep)

    def where(self, keep: Bools) -> View:
        """The rows that are kept, as copies. Sequence numbers mean nothing any more: ``since`` comes before this."""
        return View(
            self.first,
            self.ts_ms[keep],
            [self.ids[i] for i in np.flatnonzero(keep)],
            self.simulated[keep],
            {name: cells[keep] for name, cells in self.metrics.items()},
            {name: cells[keep] for name, cells in self.numbers.items()},
            {name: cells[keep] for name, cells in self.codes.items()},
            self.levels,
            self._grouped(keep),
        )

    def test(self, conditions: Iterable[Condition]) -> tuple[Bools, Bools]:
        """Where all conditions hold, and where all their features are known. Only known rows are compared: an execution that
        lacks a feature (a failed quote, say) may differ in everything else, too.
        """
        holds = np.ones(len(self), dtype=np.bool_)
        known = np.ones(len(self), dtype=np.bool_)
        for condition in conditions:
            one_holds, one_known = self._test_one(condition)
            holds &= one_holds
            known &= one_known
        return holds, known

    def _test_one(self, condition: Condition) -> tuple[Bools, Bools]:
        nowhere = np.zeros(len(self), dtype=np.bool_)
        if condition.op == "==" and not isinstance(condition.value, float):
            codes = self.codes.get(condition.feature)
            if codes is None:
                return nowhere, nowhere
            levels = self.levels[condition.feature]
            code = levels.index(condition.value) if condition.value in levels else -2
            return codes == code, codes >= 0
        column = self.numbers.get(condition.feature)
        if column is None or isinstance(condition.value, (bool, str)):
            return nowhere, nowhere
        with np.errstate(invalid="ignore"):
            holds = {">=": column >= condition.value, "<": column < condition.value, "==": column == condition.value}[condition.op]
        return holds, ~np.isnan(column)


class Observations:
    """A key's rows, at most ``limit``, with sequence numbers. Append in event-time order. ``unit``: rows have groups."""

    __slots__ = (
        "_codes", "_group_codes", "_groups", "_ids", "_levels", "_metrics", "_numbers", "_simulated", "_tail", "_ts",
        "limit", "total", "unit",
    )  # fmt: skip

    def __init__(self, limit: int, unit: Unit | None = None) -> None:
        self.limit = limit
        self.unit = unit
        self.total = 0
        """Rows ever appended: the next row's sequence number."""
        self._ids: list[str] = []
        self._ts: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._simulated: Bools = np.zeros(0, dtype=np.bool_)
        self._metrics: dict[str, Floats] = {}
        self._numbers: dict[str, Floats] = {}
        self._codes: dict[str, Codes] = {}
        self._levels: dict[str, list[bool | str]] = {}
        self._groups: list[str] = []
        self._group_codes: Codes = np.zeros(0, dtype=np.int16)
        self._tail: list[Observation] = []

    def append(self, observation: Observation) -> None:
        """Take one more."""
        self._tail.append(observation)
        self.total += 1
        if len(self._tail) >= 512:
            self._fold()

    def __len__(self) -> int:
        return min(self.limit, len(self._ids) + len(self._tail))

    def view(self) -> View:
        """All rows."""
        self._fold()
        return View(
            self.total - len(self._ids),
            self._ts,
            self._ids,
            self._simulated,
            self._metrics,
            self._numbers,
            self._codes,
            self._levels,
            self._view_of_groups(),
        )

    def _view_of_groups(self) -> Groups | None:
        if self.unit is None:
            return None
        names = self._groups if self.unit == "pair" else [name.partition(":")[0] for name in self._groups]
        order = {name: i for i, name in enumerate(dict.fromkeys(names))}
        return Groups(self._group_codes, self._groups, [order[name] for name in names])

    def forget(self, group: str, metrics: Iterable[str], before_ms: int) -> None:
        """What a group saw before a moment no longer speaks about some metrics."""
        self._fold()
        if group not in self._groups:
            return
        old = (self._group_codes == self._groups.index(group)) & (self._ts < before_ms)
        for name in metrics:
            if old.any() and name in self._metrics:
                self._metrics[name] = np.where(old, np.nan, self._metrics[name])

    def _fold(self) -> None:
        """Waiting rows into the columns; what is over the limit goes, oldest first."""
        if not self._tail:
            return
        rows, self._tail = self._tail, []
        for row in rows:  # also for rows that are dropped at once: columns must not depend on when one folds
            self._make_room(row)
        kept = max(0, min(len(self._ids), self.limit - len(rows)))
        rows = rows[-self.limit :]
        start = len(self._ids) - kept
        self._ids = self._ids[start:] + [row.id for row in rows]
        self._ts = np.concatenate((self._ts[start:], np.array([row.ts_ms for row in rows], dtype=np.int64)))
        self._simulated = np.concatenate((self._simulated[start:], np.array([row.simulated for row in rows], dtype=np.bool_)))
        for name, column in self._metrics.items():
            self._metrics[name] = np.concatenate((column[start:], [row.metrics.get(name, np.nan) for row in rows]))
        for name, column in self._numbers.items():
            self._numbers[name] = np.concatenate((column[start:], [_number(row.features.get(name)) for row in rows]))
        for name, codes in self._codes.items():
            coded = np.array([self._code(name, row.features.get(name)) for row in rows], dtype=np.int16)
            self._codes[name] = np.concatenate((codes[start:], coded))
        if self.unit is not None:
            grouped = [self._groups.index(row.group) if row.group in self._groups else -1 for row in rows]
            self._group_codes = np.concatenate((self._group_codes[start:], np.array(grouped, dtype=np.int16)))

    def _make_room(self, row: Observation) -> None:
        """Columns, levels and groups for what a row brings that was not there before."""
        if self.unit is not None and row.group not in self._groups and len(self._groups) < MAX_LEVELS:
            self._groups.append(row.group)
        for name in sorted(row.metrics):
            if name not in self._metrics and len(self._metrics) < MAX_COLUMNS:
                self._metrics[name] = np.full(len(self._ids), np.nan)
        for name, cell in sorted(row.features.items()):
            if isinstance(cell, (bool, str)):
                if name not in self._codes and len(self._codes) < MAX_COLUMNS:
                    self._codes[name] = np.full(len(self._ids), -1, dtype=np.int16)
                    self._levels[name] = []
                levels = self._levels.get(name)
                if levels is not None and cell not in levels and len(levels) < MAX_LEVELS:
                    levels.append(cell)
            elif name not in self._numbers and len(self._numbers) < MAX_COLUMNS:
                self._numbers[name] = np.full(len(self._ids), np.nan)

    def _code(self, name: str, cell: Cell | None) -> int:
        if not isinstance(cell, (bool, str)):
            return -1
        levels = self._levels[name]
        return levels.index(cell) if cell in levels else -1

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values (numpy arrays of floats as lists, NaN as None)."""
        self._fold()
        return {
            "total": self.total,
            "ids": self._ids,
            "ts": self._ts.tolist(),
            "simulated": np.flatnonzero(self._simulated).tolist(),
            "metrics": {name: _column(column) for name, column in self._metrics.items()},
            "numbers": {name: _column(column) for name, column in self._numbers.items()},
            "codes": {name: column.tolist() for name, column in self._codes.items()},
            "levels": self._levels,
            "groups": [self._groups, self._group_codes.tolist()],
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any], limit: int, unit: Unit | None = None) -> Observations:
        """The observations that gave ``plain``."""
        made = cls(limit, unit)
        made.total = int(plain["total"])
        made._ids = list(plain["ids"])
        made._ts = np.array(plain["ts"], dtype=np.int64)
        made._simulated = np.zeros(len(made._ids), dtype=np.bool_)
        made._simulated[plain["simulated"]] = True
        made._metrics = {name: np.array(cells, dtype=np.float64) for name, cells in plain["metrics"].items()}
        made._numbers = {name: np.array(cells, dtype=np.float64) for name, cells in plain["numbers"].items()}
        made._codes = {name: np.array(cells, dtype=np.int16) for name, cells in plain["codes"].items()}
        made._levels = {name: list(levels) for name, levels in plain["levels"].items()}
        names, coded = plain["groups"]
        made._groups, made._group_codes = list(names), np.array(coded, dtype=np.int16)
        return made


def _number(cell: Cell | None) -> float:
    return np.nan if cell is None or isinstance(cell, (bool, str)) else float(cell)


def _column(column: Floats) -> list[float | None]:
    return [None if cell != cell else cell for cell in column.tolist()]
