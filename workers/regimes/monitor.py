"""RegimeMonitor: the regimes of one record key, told online.

**Observing.** One series of the key (``series``) becomes numbers of about unit variance: its logarithm where it has one, minus the
median, over the robust spread of its first ``FIRST`` observations, held within ±``BOUND``. The yardstick stays for good, so states
of different fits can be compared.

**Fitting.** At fixed counts of observations (``FIRST``, twice that, each ``EVERY``; from ``SELDOM`` on as seldom as that) a fit of
the last ``HISTORY`` begins. It advances by an iteration or two at each observation, so no record waits for a whole fit (``fit``).
When it is done its chain takes over, and the filter is brought up to date. Parameters are rounded before they are used: what is
filtered with is what is published.

**Saying so.** The filter's probabilities jump about between two states; a change is raised when another state has been probable
enough for several observations in a row (``announce``). It is dated from the first of them (``since``) and known from the last.

All of it is a fold of the key's records in their order. Why a key and not a market (chain and pair): the keys of one market may lie
in several partitions, each read by another process, and what one partition says must not depend on how fast the others are read.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from schemas.signals import RegimeModel
from workers.metrics import rounded
from workers.regimes.announce import Announcer
from workers.regimes.chain import Array
from workers.regimes.filter import Filter
from workers.regimes.fit import Chain, Fit
from workers.regimes.model import described, robust, settled
from workers.regimes.series import FAR_AHEAD_MS, LEAST_GAP_MS, PRICE, SERIES, Series, price_change

FIRST = 160
EVERY = 640
SELDOM = 2_560
HISTORY = 768
WORK = 320
"""Observations that a fit goes through at one record: one iteration of a long series, two of a short one."""
BOUND = 8.0
THOUSAND = 1000
NEARLY = 0.75
"""Of ``FIRST``, how many observations a preferred series needs when another one has ``FIRST``."""


@dataclass(frozen=True, slots=True)
class Change:
    """The regime is another one than it was (``previous`` None: than nothing known), seen for sure at this record."""

    metric: str
    ts_ms: int
    since_ms: int
    episode_id: str
    previous: str | None
    regime: str
    probability: float
    filtered: tuple[float, ...]
    model: RegimeModel


class RegimeMonitor:
    """One key's regimes.

    >>> import random
    >>> rng, monitor, changes = random.Random(1), RegimeMonitor(), []
    >>> for i in range(1200):
    ...     level = 0.4 if i // 100 % 2 == 0 else 1.6
    ...     changes.append(monitor.learn_one(i * 600_000, f"e{i}", {"volatility": level * math.exp(rng.gauss(0.0, 0.2))}))
    >>> [(change.previous, change.regime, change.ts_ms // 600_000) for change in changes if change][:3]
    [(None, 'turbulent', 174), ('turbulent', 'calm', 202), ('calm', 'turbulent', 302)]
    """

    __slots__ = (
        "_announcer", "_fit", "_fits", "_gathered", "_history", "_last_ms", "_n", "_price", "_running", "_series", "_yardstick",
        "model",
    )  # fmt: skip

    def __init__(self) -> None:
        self._series: Series | None = None
        self._gathered: dict[str, list[float]] = {}
        """What was observed of every series while none is chosen."""
        self._history = array("h")
        """The last observations of the chosen one, in thousandths of the yardstick."""
        self._last_ms: int | None = None
        self._price: tuple[int, float] | None = None
        """When a price was last seen, and its logarithm."""
        self._n = 0
        """Observations of the chosen series so far."""
        self._yardstick = (0.0, 1.0)
        self._fit: Fit | None = None
        self._fits = 0
        self._running: Filter | None = None
        self._announcer = Announcer()
        self.model: RegimeModel | None = None
        """What is filtered with; None before the first fit that found regimes."""

    @property
    def regime(self) -> str | None:
        """The regime that was last raised."""
        return self._announcer.regime

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The filter's probabilities, in the order of the model's states; empty before there is one."""
        return () if self._running is None else tuple(self._running.probabilities)

    def learn_one(self, ts_ms: int, episode_id: str, values: Mapping[str, float], now_ms: int | None = None) -> Change | None:
        """Take what an execution shows (``series.seen``); the change that it makes sure of, if it does. ``now_ms`` is what the
        key's clock says, where there is one: a look far ahead of it was of one record with a wrong date, and nothing waits for it.

        Raises:
            ValueError: a value is not finite.
        """
        if not all(math.isfinite(value) for value in values.values()):
            raise ValueError("a regime monitor takes finite numbers only")
        if self._last_ms is not None and now_ms is not None and self._last_ms - now_ms > FAR_AHEAD_MS:
            self._last_ms = self._price = None
            self._announcer.break_off()
        if self._last_ms is not None and ts_ms - self._last_ms < LEAST_GAP_MS:
            return None
        observed = self._observed(ts_ms, values)
        if observed or PRICE in values:
            self._last_ms = ts_ms
        if self._series is None:
            self._collect(observed)
            return None
        if self._series.name not in observed:
            return None
        x = self._scaled(observed[self._series.name])
        self._history.append(x)
        del self._history[:-HISTORY]
        self._n += 1
        if self._running is not None:
            self._running.learn(x / THOUSAND)
        self._advance()
        return self._said(self._series.name, ts_ms, episode_id)

    # --- observing

    def _observed(self, ts_ms: int, values: Mapping[str, float]) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, series in SERIES.items():
            value = self._price_change(ts_ms, values) if name == "price_change" else values.get(name)
            x = None if value is None else series.observed(value)
            if x is not None:
                found[name] = x
        return found

    def _price_change(self, ts_ms: int, values: Mapping[str, float]) -> float | None:
        level = values.get(PRICE)
        if level is None:
            return None
        before, self._price = self._price, (ts_ms, level)
        return None if before is None else price_change(before[1], level, ts_ms - before[0])

    def _scaled(self, raw: float) -> int:
        """A raw observation in thousandths of the yardstick, within its bounds."""
        center, scale = self._yardstick
        return round(THOUSAND * min(BOUND, max(-BOUND, (raw - center) / scale)))

    def _collect(self, observed: Mapping[str, float]) -> None:
        """Gather until one series has enough, then choose. One that hardly ever moves is not chosen."""
        for name, x in observed.items():
            gathered = self._gathered.setdefault(name, [])
            gathered.append(x)
            del gathered[:-FIRST]
        if not any(len(gathered) >= FIRST for gathered in self._gathered.values()):
            return
        for name, series in SERIES.items():
            gathered = self._gathered.get(name, [])
            yardstick = robust(gathered) if len(gathered) >= NEARLY * FIRST else None
            if yardstick is not None:
                self._series, self._yardstick, self._n = series, yardstick, len(gathered)
                self._history = array("h", [self._scaled(raw) for raw in gathered])
                self._gathered = {}
                self._begin(series)
                return

    # --- fitting

    def _observations(self) -> Array:
        return np.asarray(self._history, dtype=np.float64) / THOUSAND

    def _begin(self, series: Series) -> None:
        xs = self._observations()
        if float(np.ptp(xs)) > 0.0:
            known = None if self._running is None else self._running.chain
            self._fit = Fit(xs, spread=series.spread, known=known)

    def _advance(self) -> None:
        """Begin a fit when it is time for one, or go on with the one under way."""
        series = self._series
        if series is None:
            return
        if self._fit is None:
            if self._n == 2 * FIRST or self._n % (EVERY if self._n <= SELDOM else SELDOM) == 0:
                self._begin(series)
            return
        if any(self._fit.step() for _ in range(max(1, WORK // len(self._fit)))):
            chain, self._fit = self._fit.chosen(), None
            self._fits += 1
            if chain is not None:
                self._take_over(series, chain)

    def _take_over(self, series: Series, chain: Chain) -> None:
        """Filter with this chain from now on, its states in order. Where they are numbered as before, the regime stays as it is;
        else it is raised anew."""
        center, scale = self._yardstick

        def typical(state: int) -> float:
            return series.typical(center + scale * float(chain.means[state]), scale * math.sqrt(float(chain.variances[state])))

        order = sorted(range(len(chain)), key=lambda state: (typical(state), state))
        before = None if self._running is None else self._running.chain
        if before is None or len(before) != len(chain) or order != list(range(len(chain))):
            self._announcer.forget_state()
        typicals = [rounded(typical(state)) for state in order]
        chain = settled(chain.in_order(order))
        self.model = described(chain, typicals, series, self._yardstick, min(self._n, HISTORY), self._fits)
        self._running = Filter(chain, self._observations())

    # --- saying so

    def _said(self, metric: str, ts_ms: int, episode_id: str) -> Change | None:
        if self._running is None or self.model is None:
            return None
        turn = self._announcer.hear(ts_ms, self._running.probabilities, [state.name for state in self.model.states])
        if turn is None:
            return None
        filtered = tuple(rounded(p) for p in self._running.probabilities)
        return Change(metric=metric, ts_ms=ts_ms, episode_id=episode_id, filtered=filtered, model=self.model, **turn)

    # --- state

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        running = self._running
        return {
            "series": None if self._series is None else self._series.name,
            "gathered": {name: list(gathered) for name, gathered in self._gathered.items()},
            "history": list(self._history),
            "last": self._last_ms,
            "price": None if self._price is None else list(self._price),
            "n": self._n,
            "yardstick": list(self._yardstick),
            "fit": None if self._fit is None else self._fit.to_plain(),
            "fits": self._fits,
            "running": None if running is None else [running.chain.to_plain(), list(running.probabilities)],
            "announcer": self._announcer.to_plain(),
            "model": None if self.model is None else self.model.model_dump(mode="json"),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> RegimeMonitor:
        """The monitor that gave ``plain``. Raises ValueError when it is not one of ours."""
        monitor = cls()
        try:
            monitor._series = None if plain["series"] is None else SERIES[plain["series"]]
            monitor._gathered = {str(name): [float(x) for x in gathered] for name, gathered in plain["gathered"].items()}
            monitor._history = array("h", plain["history"])
            monitor._last_ms = plain["last"]
            monitor._price = None if plain["price"] is None else (int(plain["price"][0]), float(plain["price"][1]))
            monitor._n, monitor._fits = int(plain["n"]), int(plain["fits"])
            center, scale = plain["yardstick"]
            monitor._yardstick = (float(center), float(scale))
            monitor._fit = None if plain["fit"] is None else Fit.from_plain(plain["fit"])
            if plain["running"] is not None:
                chain, probabilities = plain["running"]
                monitor._running = Filter(Chain.from_plain(chain), probabilities=[float(p) for p in probabilities])
            monitor._announcer = Announcer.from_plain(plain["announcer"])
            monitor.model = None if plain["model"] is None else RegimeModel.model_validate(plain["model"])
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise ValueError(f"not a regime monitor: {error}") from None
        return monitor
