"""Recall tuning, as the second document fixes it, and the boosts that it governs.

Ages are differences of event times: between a memory's and the ``now`` of the caller's decision. Nothing here reads a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from stores.recall.errors import BadRecall
from stores.recall.fusion import DEFAULT_RECIPE, RECIPES

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class RecallTuning:
    """How recall scores and cuts. The first six are the specification's.

    ``min_score`` is a cosine; ``boost_halflife`` is in days; ``boost_weight`` is the most that recency can add to a score of
    0 … 1. ``regime_weight`` is added to what is from the present regime. ``recipe`` names the fusion, ``depth`` is
    how many candidates each source gives, ``graph`` turns the walk over links on, ``grading`` the verdict on the whole result.
    """

    min_score: float = 0.0
    max_results: int = 20
    default_limit: int = 5
    boost_recent: bool = True
    boost_halflife: float = 30.0
    boost_weight: float = 0.15
    regime_weight: float = 0.05
    recipe: str = DEFAULT_RECIPE
    depth: int = 50
    graph: bool = True
    grading: bool = True

    def __post_init__(self) -> None:
        """Refuse what has no meaning.

        Raises:
            BadRecall: a value out of its range, or a recipe that does not exist.
        """
        if not -1.0 <= self.min_score <= 1.0:
            raise BadRecall(f"min_score is a cosine, not {self.min_score}", hint="-1 to 1")
        if not 1 <= self.default_limit <= self.max_results <= 1_000:
            raise BadRecall("limits are out of order", hint="1 <= default_limit <= max_results <= 1000")
        if not 0.0 < self.boost_halflife <= 36_500.0:
            raise BadRecall(f"boost_halflife is {self.boost_halflife}", hint="days, over 0")
        if not (0.0 <= self.boost_weight <= 1.0 and 0.0 <= self.regime_weight <= 1.0):
            raise BadRecall("a boost's weight is out of range", hint="0 to 1")
        if self.recipe not in RECIPES:
            raise BadRecall(f"there is no recipe {self.recipe!r}", hint=f"one of {', '.join(RECIPES)}")
        if not self.max_results <= self.depth <= 1_000:
            raise BadRecall(f"depth is {self.depth}", hint="max_results to 1000")

    def with_changes(self, **changes: Any) -> RecallTuning:
        """The same with some values replaced.

        Raises:
            BadRecall: a name that is not one of ours, or a value that is refused.
        """
        unknown = set(changes) - {field.name for field in fields(self)}
        if unknown:
            raise BadRecall(
                f"no such setting: {', '.join(sorted(unknown))}", hint=f"one of {', '.join(f.name for f in fields(self))}"
            )
        return replace(self, **changes)

    def limit(self, asked: int | None) -> int:
        """How many results to give: the default when not asked, never more than ``max_results``.

        Raises:
            BadRecall: less than 1.
        """
        if asked is None:
            return self.default_limit
        if isinstance(asked, bool) or asked < 1:
            raise BadRecall(f"limit is {asked}", hint=f"1 to {self.max_results}")
        return min(asked, self.max_results)


def recency(ts: datetime, now: datetime, half_life_days: float) -> float:
    """How recent a memory is, 1 at ``now``, a half after each half-life. What is dated after ``now`` counts as now.

    >>> from datetime import UTC, timedelta
    >>> now = datetime(2026, 3, 1, tzinfo=UTC)
    >>> recency(now - timedelta(days=30), now, 30.0), recency(now + timedelta(days=1), now, 30.0)
    (0.5, 1.0)
    """
    age = max(0.0, (now - ts).total_seconds() / _DAY_S)
    return float(0.5 ** (age / half_life_days))
