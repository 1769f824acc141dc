"""Regimes for callers: in which one each market is, how it came there, and what of the episodes is from which.

Mixed into :class:`~gateway.service.BrainService`, which owns the stores. Every method takes the caller first and checks its tier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pydantic import Field

from gateway.errors import NotFound
from gateway.keys import Caller, Tier
from gateway.views import View
from schemas.signals import RegimeModel
from schemas.types import iso
from stores.episodes import EpisodeFilter
from stores.episodes import Hit as EpisodeHit
from stores.recall.recall import Recall
from stores.recall.regimes import spans_of
from stores.sqlite import InsightStore
from stores.sqlite.regimes import Stretch, Timelines


class RegimeView(View):
    """A market in a regime: ``since`` then, ``until`` another (absent: to this day)."""

    key: str
    regime: str
    since: str
    until: str | None = None
    known: str = Field(description="when that was sure")
    probability: float = Field(description="of the regime, when it was sure")
    metric: str = Field(description="what it is told from")
    simulated: bool = False
    model_id: str


class RegimeStateView(View):
    """One state of a model. ``typical`` is in the metric's unit; ``share`` of the time, ``lasts`` in observations, on average."""

    name: str
    typical: float
    share: float
    lasts: float | None


class RegimesView(View):
    """Markets and their regimes."""

    items: tuple[RegimeView, ...]


class RegimeHistoryView(View):
    """The regimes that a market has been in, the first first, and the model that told the last one."""

    items: tuple[RegimeView, ...]
    metric: str
    observations: int = Field(description="what the model was fitted on")
    states: tuple[RegimeStateView, ...]


class RegimeReads:
    """Reads of timelines."""

    _insights: InsightStore
    _recall: Recall

    def regimes(
        self, caller: Caller, *, now: datetime | None = None, include_simulated: bool = True, regime: str | None = None
    ) -> tuple[RegimeView, ...]:
        """Every market whose regime is known, by key: as of ``now``, or as last told."""
        caller.need(Tier.READ)
        return present(self._insights.stretches(), now, include_simulated=include_simulated, regime=regime)

    def regime_history(self, caller: Caller, key: str) -> RegimeHistoryView:
        """The regimes that a record key has been in; where there are real and simulated ones, the real ones first.

        Raises:
            NotFound: none is known.
        """
        caller.need(Tier.READ)
        return history(self._insights, key)

    def _narrowed(self, wanted: EpisodeFilter) -> EpisodeFilter:
        """The filter with the times at which markets were in the wanted regime."""
        return wanted if wanted.regime is None else narrowed(wanted, self._recall.timelines())

    def _tagged(self, hits: Sequence[EpisodeHit]) -> list[EpisodeHit]:
        """Episodes with the regimes that their markets were in."""
        timelines = self._recall.timelines()
        return [with_regime(hit, timelines) for hit in hits]


def present(
    stretches: Sequence[Stretch], now: datetime | None = None, *, include_simulated: bool = True, regime: str | None = None
) -> tuple[RegimeView, ...]:
    """The last stretch of each key that was known at ``now``."""
    last: dict[tuple[str, bool], Stretch] = {}
    for one in stretches:
        if now is None or (one.since <= now and one.known <= now):
            last[(one.key, one.simulated)] = one
    return tuple(
        regime_view(one)
        for one in last.values()
        if (include_simulated or not one.simulated) and (regime is None or one.regime == regime)
    )


def history(store: InsightStore, key: str) -> RegimeHistoryView:
    """A key's timeline with its last model.

    Raises:
        NotFound: there is none.
    """
    line = store.stretches(key)
    model = store.regime_model(line[-1].model_id) if line else None
    if model is None:
        raise NotFound(f"no regime of {key!r} is known", hint="defi-brain regimes list shows the keys that have one")
    return RegimeHistoryView(
        items=tuple(regime_view(one) for one in line), metric=line[-1].metric, observations=model.n, states=state_views(model)
    )


def state_views(model: RegimeModel) -> tuple[RegimeStateView, ...]:
    """A model's states for people, the calmest first."""
    return tuple(
        RegimeStateView(
            name=state.name,
            typical=state.typical,
            share=round(state.share, 4),
            lasts=round(1.0 / (1.0 - row[place]), 1) if row[place] < 1.0 else None,
        )
        for place, (state, row) in enumerate(zip(model.states, model.transition, strict=True))
    )


def regime_view(one: Stretch) -> RegimeView:
    """A stretch for callers."""
    return RegimeView(
        key=one.key,
        regime=one.regime,
        since=iso(one.since),
        until=None if one.until is None else iso(one.until),
        known=iso(one.known),
        probability=one.probability,
        metric=one.metric,
        simulated=one.simulated,
        model_id=one.model_id,
    )


def narrowed(wanted: EpisodeFilter, timelines: Timelines) -> EpisodeFilter:
    """A filter on a regime, with the times at which the wanted markets were in it."""
    if wanted.regime is None:
        return wanted
    narrow = {"key": wanted.key, "tool": wanted.tool, "chain": wanted.chain, "pair": wanted.pair}
    return replace(wanted, spans=spans_of(timelines, wanted.regime, narrow, simulated=wanted.simulated))


def with_regime(hit: EpisodeHit, timelines: Timelines) -> EpisodeHit:
    """A found episode with the regime that its market was in, unless it was recorded with one."""
    stretch = timelines.at(hit.key, hit.simulated, hit.ts) if hit.regime is None else None
    return hit if stretch is None else replace(hit, regime=stretch.regime)
