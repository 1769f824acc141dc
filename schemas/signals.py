"""Signals: what changed in the market or in our own books. A closed union by ``kind``; more kinds join it as they are built.

Every kind has ``id``, ``kind``, ``level``, ``stream`` (the record key), ``key``, ``metric``, ``ts`` and ``simulated``: that is what
stores keep columns of and what lists filter by. The rest is the kind's own.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, FiniteFloat, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from schemas.base import Contract, Part
from schemas.portfolio import BreakerState
from schemas.types import ExactDecimal, Label, Moment, Name

Share = Annotated[FiniteFloat, Field(ge=0.0, le=1.0)]
RegimeName = Annotated[str, Field(min_length=1, max_length=64)]


class DriftSignal(Contract):
    """A detector's alarm: the mean of a metric's stream has moved.

    Means are in the metric's unit; ``width`` is how many observations the detector compared; ``delta`` its confidence parameter.
    """

    wire_name: ClassVar[str] = "signal"

    id: str
    kind: Literal["drift"] = "drift"
    level: Literal["pair", "tool", "global"]
    stream: str
    key: str
    metric: Name
    ts: Moment
    episode_id: str
    mean_before: FiniteFloat
    mean_after: FiniteFloat
    width: int = Field(ge=1)
    delta: FiniteFloat
    simulated: bool = False


class RegimeState(Part):
    """One state of a regime model.

    ``mean`` and ``sd`` are of what the model observes (see :class:`RegimeModel`); ``typical`` is what the state stands for in the
    metric's unit: a level, or for changes of the price their spread. ``share`` is how much of the time the chain spends there in
    the long run.
    """

    name: RegimeName
    mean: FiniteFloat
    sd: Annotated[FiniteFloat, Field(gt=0.0)]
    typical: FiniteFloat
    share: Share


class RegimeModel(Part):
    """A fitted hidden Markov model with Gaussian states, whole: the filter goes on from it without a fit.

    What is observed is ``(f(value) - center) / scale``, where f is ``transform``. ``states`` are in the order of their ``typical``
    values, the calmest first. ``start`` and ``transition`` (row: from) are over them. ``n`` observations were fitted; ``fits``
    counts the stream's fits, this one included. ``id`` is a content id of all that.
    """

    id: str
    transform: Literal["identity", "log"]
    center: FiniteFloat
    scale: Annotated[FiniteFloat, Field(gt=0.0)]
    states: Annotated[tuple[RegimeState, ...], Field(min_length=1, max_length=8)]
    start: tuple[Share, ...]
    transition: tuple[tuple[Share, ...], ...]
    n: int = Field(ge=1)
    fits: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _square(self) -> Self:
        size = len(self.states)
        if len(self.start) != size or [len(row) for row in self.transition] != [size] * size:
            raise PydanticCustomError("contract_violation", "start and transition do not fit the number of states")
        return self


class RegimeSignal(Contract):
    """A market's regime has changed, or its first one is known (``previous`` is absent then).

    ``ts`` is when that was seen for sure, ``since`` when it had begun. ``probability`` is the filter's for ``regime`` at ``ts``.
    ``filtered`` are the filter's probabilities of all states, in the model's order.
    """

    wire_name: ClassVar[str] = "signal"

    id: str
    kind: Literal["regime"] = "regime"
    level: Literal["pair"] = "pair"
    stream: str
    key: str
    metric: Name
    ts: Moment
    since: Moment
    episode_id: str
    previous: RegimeName | None = None
    regime: RegimeName
    probability: Share
    filtered: tuple[Share, ...] = ()
    model: RegimeModel
    simulated: bool = False


class BreakerSignal(Contract):
    """A portfolio's breaker has changed its state, or can no longer judge (``blind``), or can again.

    Numbers are those of :class:`schemas.portfolio.PortfolioStanding`, whose ``id`` is ``standing_id``. ``previous`` is absent on a
    portfolio's first signal.
    """

    wire_name: ClassVar[str] = "signal"

    id: str
    kind: Literal["breaker"] = "breaker"
    level: Literal["global"] = "global"
    stream: str
    key: str
    metric: Literal["drawdown_bps"] = "drawdown_bps"
    ts: Moment
    standing_id: str
    previous: BreakerState | None = None
    state: BreakerState
    drawdown_bps: int = Field(ge=0)
    mark: ExactDecimal
    value: ExactDecimal
    unit: Label
    blind: bool = False
    because: str | None = Field(default=None, max_length=2000)
    simulated: bool = False


Signal = Annotated[DriftSignal | RegimeSignal | BreakerSignal, Field(discriminator="kind")]
SIGNAL: TypeAdapter[DriftSignal | RegimeSignal | BreakerSignal] = TypeAdapter(Signal)
