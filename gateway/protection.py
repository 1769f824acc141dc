"""How portfolios stand, for whoever is about to trade: what the breakers decided, and whether they can still see.

Nothing here can be moved by what is remembered or recalled (law 8): standings come from the producers' valuations alone, by way of
the breakers stage. Memory advises; a caller obeys this.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Literal

from gateway.keys import Caller, Tier
from gateway.views import View
from gateway.writing import Writing, made
from schemas.identity import content_id
from schemas.portfolio import BreakerState, PortfolioStanding, PortfolioValuation
from schemas.topics import RECORDS_REJECTED
from schemas.types import iso
from stores.sqlite import Fate


class BreakerView(View):
    """One portfolio. ``blind``: its valuations have gone missing or cannot be judged, and the state is the last one known."""

    portfolio: str
    state: BreakerState
    since: str
    drawdown_bps: int
    mark: str
    value: str
    unit: str
    valued: str
    age_s: int
    blind: bool
    because: str | None = None
    may_open: bool
    may_act: bool
    warn_bps: int
    halt_bps: int
    stop_bps: int
    simulated: bool = False


class BreakersView(View):
    """All of them, and the worst of the real ones. ``state`` is ``ok`` where no portfolio is watched, and ``watched`` says so."""

    state: BreakerState
    blind: bool
    may_open: bool
    may_act: bool
    watched: int
    portfolios: tuple[BreakerView, ...]


def breakers_view(standings: Iterable[PortfolioStanding], now: datetime) -> BreakersView:
    """How the portfolios stand at ``now``, the worst first. Simulated ones are shown and decide nothing."""
    views = sorted((_view(one, now) for one in standings), key=lambda one: (one.simulated, -one.state.rank, one.portfolio))
    real = [one for one in views if not one.simulated]
    return BreakersView(
        state=max((one.state for one in real), key=lambda state: state.rank, default=BreakerState.OK),
        blind=any(one.blind for one in real),
        may_open=all(one.may_open for one in real),
        may_act=all(one.may_act for one in real),
        watched=len(real),
        portfolios=tuple(views),
    )


def _view(standing: PortfolioStanding, now: datetime) -> BreakerView:
    """A standing whose last good valuation is older than its heartbeat is blind, though nothing was heard that says so."""
    age = now - standing.valued_ts
    silent = age > timedelta(seconds=standing.heartbeat_s)
    because = standing.because
    if silent and not standing.blind:
        because = f"nothing that can be judged for {age.total_seconds():.0f} s, over the heartbeat of {standing.heartbeat_s} s"
    return BreakerView(
        portfolio=standing.portfolio,
        state=standing.state,
        since=iso(standing.since),
        drawdown_bps=standing.drawdown_bps,
        mark=format(standing.mark, "f"),
        value=format(standing.value, "f"),
        unit=standing.unit,
        valued=iso(standing.valued_ts),
        age_s=max(0, int(age.total_seconds())),
        blind=standing.blind or silent,
        because=because,
        may_open=standing.state.rank < BreakerState.HALT.rank,
        may_act=standing.state is not BreakerState.STOP,
        warn_bps=standing.warn_bps,
        halt_bps=standing.halt_bps,
        stop_bps=standing.stop_bps,
        simulated=standing.simulated,
    )


class ValuationView(View):
    """What became of a valuation, and how its portfolio stands. ``late`` or repeated ones are in the log and decide nothing."""

    valuation_id: str
    state: Literal["pending", "applied", "refused"]
    reason: str | None = None
    detail: str | None = None
    portfolio: BreakerView | None = None


class Protecting(Writing):
    """The service's part that is about breakers."""

    def breakers(self, caller: Caller, *, now: datetime | None = None) -> BreakersView:
        """How every portfolio stands at ``now``."""
        caller.need(Tier.READ)
        return breakers_view(self._insights.standings(), now or self._clock())

    def value_portfolio(self, caller: Caller, valuation: dict[str, Any], wait_s: float = 0.0) -> ValuationView:
        """Publish what a portfolio is worth. To begin its mark anew (``restart``) needs an admin key.

        Raises:
            Unprocessable: it is no valid valuation; the reason is the contract's.
            NotAllowed: the key's tier.
        """
        caller.need(Tier.ADMIN if valuation.get("restart") else Tier.FEEDBACK)
        told = made(PortfolioValuation, **{"source": caller.author, **{str(name): value for name, value in valuation.items()}})
        seen = self._log.end_offsets(RECORDS_REJECTED.name)[0]
        position = self._publish(told)
        standing_id = content_id("standing", told.key, told.valuation_id)

        def look() -> Fate | None:
            standing = self._standing(told.key)
            if standing is not None and (standing.id == standing_id or standing.ts > told.ts):
                return Fate("applied")
            return self._rejected(position, seen)

        fate = self._wait(look, wait_s) or Fate("pending")
        standing = self._standing(told.key)
        return ValuationView(
            valuation_id=told.valuation_id,
            state=fate.state,
            reason=fate.reason or None,
            detail=fate.detail or None,
            portfolio=None if standing is None else _view(standing, self._clock()),
        )

    def _standing(self, key: str) -> PortfolioStanding | None:
        return next((one for one in self._insights.standings() if one.key == key), None)
