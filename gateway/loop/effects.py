"""The kinds of market: what in it depends on a choice, and how that changes.

Every effect is a function of the order's number and, in the market that misleads, of what the remembering agent has been seen to
follow. The plain agent trades on the path that results, so both always face the same market.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

ROUTERS = ("alpha", "beta", "gamma")
MARKETS = ("calm", "drifting", "cycling", "misleading")
REGIME_ORDERS = 500
NOTICED = 20
"""Orders with advice on a parameter after which a market that misleads turns on it."""
GIVEN_UP = 60
"""Orders in a row without any, after which it turns back."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What a choice changes, at one order.

    ``router_bps`` is added to the cost at each router. A piece larger than ``threshold`` of the depth pays ``step_bps`` more, and
    each piece after the first ``leak_bps`` for showing the market what is coming. A sandwich takes ``taken`` of the slippage bound
    from a share ``sandwiched`` of the pieces. The price moves away by ``away_bps`` on average before a piece is mined. ``shift_h``
    turns the day's gas prices, ``stress`` multiplies volatility.
    """

    router_bps: Mapping[str, float]
    threshold: float = 0.0035
    step_bps: float = 28.0
    leak_bps: float = 0.5
    sandwiched: float = 0.5
    taken: float = 0.5
    away_bps: float = 6.0
    shift_h: int = 0
    stress: float = 1.0


class Plan:
    """The effects of one market. ``kind`` is one of ``MARKETS``; the seed says which router is dear.

    Raises:
        ValueError: there is no such kind.
    """

    def __init__(self, kind: str, seed: int, orders: int) -> None:
        if kind not in MARKETS:
            raise ValueError(f"there is no market {kind!r}; there are {', '.join(MARKETS)}")
        self.kind = kind
        self.orders = orders
        self.turns: list[tuple[int, str]] = []
        """In the market that misleads: at which order it turned on what."""
        random = Random(f"{seed}:effects")  # noqa: S311 — reproducible, not secret
        self._ways = [dict(zip(ROUTERS, random.sample((0.0, 6.0, 12.0), 3), strict=True)) for _ in range(3)]
        self._turned: dict[str, bool] = {}
        self._count: dict[str, int] = {}
        self._routers = dict(self._ways[0])

    def at(self, number: int) -> Effects:
        """The effects at an order."""
        if self.kind == "drifting":
            return self._drifting(number / max(1, self.orders - 1))
        if self.kind == "cycling":
            return self._cycling(number // REGIME_ORDERS % 2 == 1)
        if self.kind == "misleading":
            return self._misleading()
        return Effects(self._ways[0])

    def _drifting(self, done: float) -> Effects:
        """Everything moves evenly from one state to the next, halfway and at the end."""
        leg, part = (0, 2 * done) if done < 0.5 else (1, 2 * done - 1)
        before, after = self._ways[leg], self._ways[leg + 1]
        return Effects(
            {name: before[name] + part * (after[name] - before[name]) for name in ROUTERS},
            threshold=0.0035 - 0.0020 * done,
            sandwiched=0.5 + 0.3 * done,
            shift_h=round(6 * done),
        )

    def _cycling(self, stressed: bool) -> Effects:
        """Two regimes by turns. Under stress the dear router is the cheap one, liquidity is thinner and bounds have to be wider."""
        calm = Effects(self._ways[0])
        if not stressed:
            return calm
        turned = {name: 12.0 - bps for name, bps in self._ways[0].items()}
        return replace(calm, router_bps=turned, threshold=0.002, away_bps=14.0, stress=2.0)

    def _misleading(self) -> Effects:
        turned = self._turned
        made = Effects(self._routers)
        if turned.get("pieces"):
            made = replace(made, step_bps=0.0, leak_bps=6.0)
        if turned.get("bound"):
            made = replace(made, sandwiched=0.0, away_bps=20.0)
        if turned.get("wait"):
            made = replace(made, shift_h=12)
        return made

    def seen(self, number: int, advised: Mapping[str, str | float | None], defaults: Mapping[str, str | float]) -> None:
        """What the remembering agent was advised at an order, by parameter (None: nothing): a market that misleads acts on it.

        It turns once there has been advice for ``NOTICED`` orders, so that what was learned is now wrong; and turns back once there
        has been none for ``GIVEN_UP``, so that the habit is the worst again.
        """
        if self.kind != "misleading":
            return
        for name, value in advised.items():
            turned = self._turned.get(name, False)
            if not turned:
                many = self._count.get(name, 0) + (value is not None)
            else:
                many = 0 if value is not None else self._count.get(name, 0) + 1
            self._count[name] = many
            if many >= (GIVEN_UP if turned else NOTICED):
                self._turned[name] = not turned
                self._count[name] = 0
                self.turns.append((number, name))
                if name == "router":
                    self._turn_routers(str(defaults[name] if turned else value))

    def _turn_routers(self, relied_on: str) -> None:
        """The router that is relied on becomes the dearest and the dearest takes its place."""
        dearest = max(ROUTERS, key=lambda name: self._routers[name])
        self._routers[dearest], self._routers[relied_on] = self._routers[relied_on], self._routers[dearest]
