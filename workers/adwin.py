"""river's ADWIN without the rest of river.

``river.drift.ADWIN`` is a thin Python shell around a detector written in Rust, but importing ``river.drift`` brings pandas and
scipy.stats with it: 110 MB resident and four seconds. The Rust class alone costs 0.1 MB. This is the only module that knows of
it; a test holds it equal to ``river.drift.ADWIN``, alarm for alarm, and the dependency is pinned.

Two things are ours. What happens *after* an alarm is left to the caller (river throws the whole window away on the next update,
MOA keeps the recent part). And state: Rust panics on foreign bytes, so a state carries river's version and a checksum, and is
not given to Rust before both are right.
"""

from __future__ import annotations

import base64
import hashlib
import math
from typing import Any

from river import __version__ as RIVER
from river._river_rust.drift import AdaptiveWindowing

MAX_BUCKETS = 5
MIN_WINDOW = 5
GRACE = 10


class Adwin:
    """One ADWIN over finite numbers, checked on every update (``clock=1``) unless told otherwise.

    >>> import random
    >>> rng, adwin = random.Random(12345), Adwin(delta=0.002, clock=32)
    >>> next(i for i, x in enumerate(rng.choices([0, 1], k=1000) + rng.choices(range(4, 8), k=1000)) if adwin.update(x))
    1023

    References:
        Bifet and Gavaldà, "Learning from time-changing data with adaptive windowing", SDM 2007.
    """

    __slots__ = ("_rust", "clock", "delta")

    def __init__(self, delta: float, clock: int = 1) -> None:
        self.delta = delta
        self.clock = clock
        self._rust = AdaptiveWindowing(delta, clock, MAX_BUCKETS, MIN_WINDOW, GRACE)

    def update(self, value: float) -> bool:
        """Take one value; whether it made the window shrink. Raises ValueError on NaN and infinity: one silences it for ever."""
        if not math.isfinite(value):
            raise ValueError("a drift detector takes finite numbers only")
        return bool(self._rust.update(value))

    @property
    def width(self) -> int:
        """How many values its window holds."""
        return int(self._rust.get_width())

    @property
    def total(self) -> float:
        """Their sum."""
        return float(self._rust.get_total())

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        state = self._rust.__getstate__()
        return {
            "river": RIVER,
            "delta": self.delta,
            "clock": self.clock,
            "state": base64.b64encode(state).decode("ascii"),
            "sha256": hashlib.sha256(state).hexdigest(),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Adwin:
        """The detector that gave ``plain``. Raises ValueError when it is not one of ours or another version of river made it."""
        try:
            if plain["river"] != RIVER:
                raise ValueError(f"river {plain['river']} made it and this is {RIVER}")
            state = base64.b64decode(plain["state"], validate=True)
            if hashlib.sha256(state).hexdigest() != plain["sha256"]:
                raise ValueError("checksum")
            adwin = cls(float(plain["delta"]), int(plain["clock"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not an ADWIN state: {error}") from None
        adwin._rust.__setstate__(state)
        return adwin
