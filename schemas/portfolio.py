"""What a portfolio is worth, and how the portfolio breakers stand over it.

``PortfolioValuation`` is a producer's record. Flows are told as a running total, so that a valuation that is lost or comes late
loses no deposit: the next one says it again. ``PortfolioStanding`` is what was decided (``workers/breakers/portfolio.py``), one
for each valuation that counted.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from schemas.base import Contract
from schemas.identity import content_id
from schemas.types import ExactDecimal, Label, Moment, Text


class BreakerState(StrEnum):
    """How far a portfolio is below its mark: ``warn``, no new positions (``halt``), nothing at all (``stop``)."""

    OK = "ok"
    WARN = "warn"
    HALT = "halt"
    STOP = "stop"

    @property
    def rank(self) -> int:
        """The worse, the higher: 0 to 3."""
        return ("ok", "warn", "halt", "stop").index(self.value)


class PortfolioValuation(Contract):
    """What a portfolio was worth at ``ts``, in ``unit``.

    ``net_deposits`` is all that was ever paid in, less all that was ever taken out, up to ``ts`` and included in ``value``.
    ``prices_ts`` is the age of the oldest price that went into it (default: ``ts``); one older than ``heartbeat_s``, or an asset
    ``missing`` a price, makes the valuation one that decides nothing. ``restart`` begins the mark anew at this value; that is a
    person's decision, and needs a ``reason``.
    """

    wire_name: ClassVar[str] = "portfolio-valuation"

    valuation_id: str = Field(default="", max_length=128)
    portfolio: Label
    ts: Moment
    value: ExactDecimal
    net_deposits: ExactDecimal
    unit: Label = "USD"
    prices_ts: Moment | None = None
    heartbeat_s: int = Field(default=3600, gt=0, le=31_536_000)
    missing: tuple[Label, ...] = Field(default=(), max_length=64)
    source: Label = "unknown"
    restart: bool = False
    reason: Text | None = None
    simulated: bool = False

    @model_validator(mode="before")
    @classmethod
    def _identify(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("valuation_id"):
            return data
        parts = [str(data.get(name)) for name in ("portfolio", "ts", "value", "net_deposits", "restart", "simulated")]
        return {**data, "valuation_id": content_id("valuation", *parts)}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.restart and self.reason is None:
            raise PydanticCustomError("restart_without_reason", "a mark is begun anew for a reason: say which")
        if self.prices_ts is not None and self.prices_ts > self.ts:
            raise PydanticCustomError("prices_from_later", "a price cannot be newer than the valuation that it went into")
        return self

    @property
    def key(self) -> str:
        """The record key: the portfolio, a simulated one apart from a real one of the same name."""
        return f"{self.portfolio}|simulated" if self.simulated else self.portfolio


class PortfolioStanding(Contract):
    """How a portfolio stands after a valuation.

    ``drawdown_bps`` is the fall from the mark in whole basis points, rounded down (thresholds are compared before rounding).
    ``mark`` is the high-water mark in today's deposits. ``valued_ts`` is the last valuation that could be judged; ``blind`` says
    that later ones could not, since ``blind_since`` and ``because``: the state is then the last one known. ``since`` is when the
    state was entered.
    """

    wire_name: ClassVar[str] = "portfolio-standing"

    id: str
    portfolio: Label
    key: str
    ts: Moment
    state: BreakerState
    since: Moment
    drawdown_bps: int = Field(ge=0)
    mark: ExactDecimal
    value: ExactDecimal
    net_deposits: ExactDecimal
    unit: Label
    valued_ts: Moment
    heartbeat_s: int = Field(gt=0)
    blind: bool = False
    blind_since: Moment | None = None
    because: str | None = Field(default=None, max_length=2000)
    warn_bps: int
    halt_bps: int
    stop_bps: int
    simulated: bool = False
