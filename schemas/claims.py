"""Claim and Evidence: what an insight says, and what would make it wrong."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from schemas.base import Part
from schemas.identity import content_id
from schemas.types import Moment, Name


class Category(StrEnum):
    """The specification's twelve categories, and directives."""

    SLIPPAGE = "slippage"
    GAS_TIMING = "gas_timing"
    ROUTE_SELECTION = "route_selection"
    POOL_BEHAVIOR = "pool_behavior"
    MEV_PATTERN = "mev_pattern"
    LIQUIDITY_DEPTH = "liquidity_depth"
    VOLATILITY = "volatility"
    FEE_OPTIMIZATION = "fee_optimization"
    REBALANCE_TIMING = "rebalance_timing"
    VAULT_STRATEGY = "vault_strategy"
    EMERGENCY = "emergency"
    GENERAL = "general"
    OPERATOR_DIRECTIVE = "operator_directive"


class Condition(Part):
    """A test on one feature known before the decision: ``size_share >= 0.01``, ``router == "alpha"``."""

    feature: Name
    op: Literal[">=", "<", "=="]
    value: bool | FiniteFloat | str

    def holds(self, features: dict[str, bool | float | str]) -> bool:
        """Whether an episode's features meet it; a missing feature or one of another type does not.

        >>> Condition(feature="size", op=">=", value=2.0).holds({"size": 3.0})
        True
        """
        if self.feature not in features:
            return False
        cell = features[self.feature]
        if self.op == "==":
            return type(cell) is type(self.value) and cell == self.value
        if isinstance(cell, (bool, str)) or isinstance(self.value, (bool, str)):
            return False
        return cell >= self.value if self.op == ">=" else cell < self.value

    @property
    def slot(self) -> str:
        """What stays the same when a threshold shifts: the feature and side, or the exact category."""
        return f"{self.feature}=={self.value}" if self.op == "==" else f"{self.feature}{self.op}"


class Claim(Part):
    """Where the conditions hold, the metric is higher (or lower) than where they do not, within one group of episodes.

    ``level`` says what the group is: one ``tool:chain:pair`` key, one tool across pairs, or everything.
    """

    level: Literal["pair", "tool", "global"] = "pair"
    key: str
    metric: Name
    conditions: Annotated[tuple[Condition, ...], Field(min_length=1, max_length=2)]
    direction: Literal["higher", "lower"]

    @property
    def canonical(self) -> str:
        """Group, metric and condition slots: the same for a shifted threshold and for the opposite direction."""
        slots = "&".join(sorted(condition.slot for condition in self.conditions))
        return f"{self.level}|{self.key}|{self.metric}|{slots}"

    @property
    def insight_id(self) -> str:
        """The id of the insight that holds this claim, whatever its threshold and direction become."""
        return content_id("insight", self.canonical)


class Spread(Part):
    """Over how many pairs and tools a claim above the pair stands: how many could tell, and how many of them show it.

    ``heterogeneity`` is I² (Higgins and Thompson 2002): the share of the differences between the pairs' own effects that is not
    chance.
    """

    pairs: int = Field(ge=1)
    pairs_shown: int = Field(ge=0)
    tools: int = Field(ge=1)
    tools_shown: int = Field(ge=0)
    heterogeneity: Annotated[FiniteFloat, Field(ge=0, le=1)] = 0.0


class Evidence(Part):
    """What a claim rests on, from one confirmation on episodes that no earlier verdict used.

    ``effect`` is Cliff's delta (numeric metrics) or a risk difference (0/1 metrics), positive = higher inside the conditions, with
    the ends of its 95 % interval. ``inside``/``outside`` are medians (or rates) in ``unit``. ``q`` is the p-value after the
    Benjamini–Hochberg procedure over the window's candidates. ``episode_ids`` is a bounded sample, newest last.

    Above the pair effects are taken within pairs and averaged, levels too, and ``spread`` says over how many. A lesson from
    failures is a ``rate``: ``effect`` and ``inside`` are the share of ``n_inside`` executions that failed with one kind of error,
    ``outside`` is that share among the ``n_outside`` before them; ``kinds`` are the numbers of failures by kind, where the lesson
    names them.
    """

    kind: Literal["cliffs_delta", "risk_difference", "rate"]
    effect: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat
    n_inside: int = Field(ge=0)
    n_outside: int = Field(ge=0)
    inside: FiniteFloat
    outside: FiniteFloat
    unit: str
    p: Annotated[float, Field(ge=0, le=1)]
    q: Annotated[float, Field(ge=0, le=1)]
    first_ts: Moment
    last_ts: Moment
    episode_ids: tuple[str, ...] = Field(default=(), max_length=20)
    spread: Spread | None = None
    kinds: dict[Name, Annotated[int, Field(ge=0)]] | None = Field(default=None, max_length=32)

    @property
    def n(self) -> int:
        """Episodes compared."""
        return self.n_inside + self.n_outside

    @property
    def digest(self) -> str:
        """An id of all that it says."""
        return content_id("evidence", self.model_dump_json(exclude_none=True))
