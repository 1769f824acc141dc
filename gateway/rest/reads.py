"""Routes that read: recall, insights, episodes, signals, directives, briefing, statistics."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from gateway.protection import BreakersView
from gateway.regimes import RegimeHistoryView, RegimesView
from gateway.rest.bodies import RecallBody, When
from gateway.rest.guards import Reader
from gateway.rest.problems import documented
from gateway.service import BrainService
from gateway.views import (
    BriefingView,
    FoundEpisode,
    HistoryView,
    InsightView,
    PageView,
    RecallView,
    StatsView,
    View,
    found_episode,
    history_view,
    insight_view,
    memory_view,
)
from schemas.claims import Category
from schemas.episodes import Episode
from schemas.insights import InsightStatus
from stores.episodes import EpisodeFilter
from stores.sqlite import InsightFilter, Order, SignalFilter

router = APIRouter(prefix="/v1")

Id = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[!-~]+$")]
Words = Annotated[str, Query(max_length=8_000)]
Some = Annotated[str | None, Query(min_length=1, max_length=256)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[str | None, Query(min_length=1, max_length=400)]
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "You have this state already (If-None-Match)."}}


class EpisodeHitView(FoundEpisode):
    """An episode that was found."""

    reflection: str


class EpisodeHitsView(View):
    """Episodes that were found, the best first."""

    items: tuple[EpisodeHitView, ...]


class EpisodeView(View):
    """An episode with its metrics, features and event; without its vector."""

    id: str
    episode: dict[str, Any]


class SignalsView(View):
    """A part of the signals; go on with ``cursor`` where there is one."""

    items: tuple[dict[str, Any], ...]
    cursor: str | None = None


class HistoriesView(View):
    """Every operation on an insight, the first first."""

    items: tuple[HistoryView, ...]


class DirectivesView(View):
    """Directives, the most urgent first."""

    items: tuple[InsightView, ...]


def service_of(request: Request) -> BrainService:
    """The service behind an application."""
    service: BrainService = request.app.state.service
    return service


def conditional(request: Request, body: View, tag: str | None = None) -> Response:
    """A body with its ETag, or 304 where the caller has it. Without a tag it is a hash of the body."""
    plain = body.model_dump(mode="json")
    response = JSONResponse(plain)
    etag = f'"{tag or sha256(bytes(response.body)).hexdigest()[:32]}"'
    known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    if etag in known or "*" in known:
        return Response(status_code=304, headers={"etag": etag})
    response.headers["etag"] = etag
    return response


@router.post("/recall", response_model=RecallView, responses=documented())
def recall(request: Request, caller: Reader, body: RecallBody) -> RecallView:
    """The few memories that bear on a question, graded, each with why."""
    found = service_of(request).recall(
        caller, body.query, body.filters.wanted(), body.limit, now=body.now, as_of=body.as_of, regime=body.regime
    )
    result = found.result
    return RecallView(
        recall_id=found.recall_id,
        grade=result.grade.value,
        probability=result.probability,
        memories=tuple(memory_view(hit) for hit in result.hits),
        withheld=result.withheld,
        unknown=result.unknown,
    )


@router.get("/insights", response_model=PageView, responses=documented() | NOT_MODIFIED)
def insights(
    request: Request,
    caller: Reader,
    category: Annotated[list[Category] | None, Query()] = None,
    min_confidence: Annotated[Decimal | None, Query(ge=0, le=1, max_digits=12, decimal_places=6)] = None,
    status: Literal["active", "archived", "all"] = "active",
    key: Some = None,
    tool: Some = None,
    chain: Some = None,
    pair: Some = None,
    metric: Some = None,
    include_simulated: bool = True,
    problematic: bool = False,
    order: Order = Order.CONFIDENCE,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """A page of insights, notes and directives, the surest or the latest first. Keyset paging: go on with the cursor.

    ``problematic`` asks for those after which decisions ended badly at least as often as well.
    """
    where = InsightFilter(
        categories=tuple(category or ()),
        min_confidence=min_confidence,
        status=None if status == "all" else InsightStatus(status),
        key=key,
        tool=tool,
        chain=chain,
        pair=pair,
        metric=metric,
        include_simulated=include_simulated,
        problematic=problematic,
    )
    page = service_of(request).insights(caller, where, order=order, limit=limit, cursor=cursor)
    stand = service_of(request).standings(caller, page.items)
    return conditional(request, PageView(items=tuple(insight_view(one, stand[one.id]) for one in page.items), cursor=page.cursor))


@router.get("/insights/{insight_id}", response_model=InsightView, responses=documented(404, 410) | NOT_MODIFIED)
def insight(request: Request, caller: Reader, insight_id: Id) -> Response:
    """One insight. Its ETag is its revision, with how it stands where there is something to say of that."""
    found = service_of(request).insight(caller, insight_id)
    stands = service_of(request).standings(caller, [found])[found.id]
    return conditional(request, insight_view(found, stands), stands.tag(found))


@router.get("/insights/{insight_id}/history", response_model=HistoriesView, responses=documented(404) | NOT_MODIFIED)
def history(request: Request, caller: Reader, insight_id: Id) -> Response:
    """Every operation on an insight, with who and why."""
    entries = service_of(request).history(caller, insight_id)
    return conditional(request, HistoriesView(items=tuple(history_view(one) for one in entries)), str(entries[-1].revision))


@router.get("/episodes/search", response_model=EpisodeHitsView, responses=documented())
def search_episodes(
    request: Request,
    caller: Reader,
    q: Words,
    key: Some = None,
    tool: Some = None,
    chain: Some = None,
    pair: Some = None,
    regime: Some = None,
    failed: bool | None = None,
    since: When | None = None,
    until: When | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> EpisodeHitsView:
    """Episodes by words and by meaning."""
    wanted = EpisodeFilter(key=key, tool=tool, chain=chain, pair=pair, regime=regime, failed=failed, since=since, until=until)
    hits = service_of(request).search_episodes(caller, q, wanted, limit)
    return EpisodeHitsView(items=tuple(EpisodeHitView(**found_episode(hit), reflection=hit.reflection) for hit in hits))


@router.get("/episodes/{episode_id}", response_model=EpisodeView, responses=documented(404, 410) | NOT_MODIFIED)
def episode(request: Request, caller: Reader, episode_id: Id) -> Response:
    """One episode."""
    found = service_of(request).episode(caller, episode_id)
    return conditional(request, EpisodeView(id=found.id, episode=episode_plain(found)))


def episode_plain(episode: Episode) -> Mapping[str, Any]:
    """An episode as JSON values, without its vector."""
    return episode.model_dump(mode="json", exclude={"vector"}, exclude_none=True)


@router.get("/signals", response_model=SignalsView, responses=documented() | NOT_MODIFIED)
def signals(
    request: Request,
    caller: Reader,
    kind: Literal["drift", "regime", "breaker"] | None = None,
    level: Literal["pair", "tool", "global"] | None = None,
    key: Some = None,
    metric: Some = None,
    since: When | None = None,
    until: When | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Drift alarms, changes of regime and other signals, the latest first."""
    where = SignalFilter(kind=kind, level=level, key=key, metric=metric, since=since, until=until)
    page = service_of(request).signals(caller, where, limit=limit, cursor=cursor)
    items = tuple(one.model_dump(mode="json", exclude_none=True) for one in page.items)
    return conditional(request, SignalsView(items=items, cursor=page.cursor))


@router.get("/regimes", response_model=RegimesView, responses=documented() | NOT_MODIFIED)
def regimes(request: Request, caller: Reader, regime: Some = None, simulated: bool = True, now: When | None = None) -> Response:
    """In which regime each market is, as of ``now`` or as last told."""
    found = service_of(request).regimes(caller, now=now, include_simulated=simulated, regime=regime)
    return conditional(request, RegimesView(items=found))


@router.get("/regimes/history", response_model=RegimeHistoryView, responses=documented(404) | NOT_MODIFIED)
def regime_history(request: Request, caller: Reader, key: Annotated[str, Query(min_length=1, max_length=256)]) -> Response:
    """The regimes that a record key has been in, and the model that tells them."""
    return conditional(request, service_of(request).regime_history(caller, key))


@router.get("/directives", response_model=DirectivesView, responses=documented() | NOT_MODIFIED)
def directives(
    request: Request, caller: Reader, key: Some = None, include_ended: bool = False, now: When | None = None
) -> Response:
    """Directives in force, the high priority first."""
    found = service_of(request).directives(caller, now=now, key=key, include_ended=include_ended)
    stand = service_of(request).standings(caller, found)
    return conditional(request, DirectivesView(items=tuple(insight_view(one, stand[one.id]) for one in found)))


@router.get("/briefing", response_model=BriefingView, responses=documented() | NOT_MODIFIED)
def briefing(request: Request, caller: Reader, scheduled: bool = False) -> Response:
    """What matters most: three to six bullets with the ids of the memories behind them. ``scheduled``: the latest that was made on
    schedule, if there is one yet."""
    service = service_of(request)
    latest = service.briefed(caller) if scheduled else None
    return conditional(request, service.briefing(caller) if latest is None else latest.view)


@router.get("/breakers", response_model=BreakersView, responses=documented() | NOT_MODIFIED)
def breakers(request: Request, caller: Reader, now: When | None = None) -> Response:
    """How every portfolio stands: whether positions may be opened, and whether that can still be judged. Obey it."""
    return conditional(request, service_of(request).breakers(caller, now=now))


@router.get("/stats", response_model=StatsView, responses=documented() | NOT_MODIFIED)
def stats(request: Request, caller: Reader) -> Response:
    """What the memory holds, and who applies what is written."""
    return conditional(request, service_of(request).stats(caller))
