"""What each page shows, as plain JSON values: the ``.json`` of a page is this, and its template shows nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from decimal import Decimal
from typing import Any

from gateway.keys import Caller, Tier
from gateway.pages import ask
from gateway.pages.ask import Query
from gateway.pages.facts import Facts
from gateway.service import BrainService
from gateway.views import history_view, insight_view, memory_view
from schemas.episodes import Episode
from schemas.insights import Insight
from schemas.signals import Signal
from schemas.types import iso
from stores.episodes import Hit, Place
from stores.sqlite import Changed, SignalFilter
from stores.sqlite.links import Link

Data = dict[str, Any]
REVIEWED = 20
DOUBTED = Decimal("0.6")
_PAGE = 25


class Views:
    """Pages' contents for a caller."""

    def __init__(self, service: BrainService, facts: Facts) -> None:
        self._service = service
        self._facts = facts

    def overview(self, caller: Caller, query: Query) -> Data:
        """One glance: what is held, whether the stages keep up, what changed last."""
        stats = self._service.stats(caller)
        since = self._service.now() - timedelta(days=1)
        return {
            "stats": stats.model_dump(mode="json"),
            "stages": [asdict(one) for one in self._facts.stages()],
            "briefing": self._service.briefing(caller).model_dump(mode="json"),
            "changes": [_changed(one) for one in self._service.changes(caller, limit=8).items],
            "signals": [_signal(one) for one in self._service.signals(caller, SignalFilter(), limit=6).items],
            "signals_last_day": self._service.count_signals(caller, SignalFilter(since=since)),
            "directives": self._viewed(caller, self._service.directives(caller)),
        }

    def insights(self, caller: Caller, query: Query) -> Data:
        """Insights, notes and directives with facets."""
        where, order = ask.insight_filter(query)
        limit = ask.number(query, "limit", 1, 200, _PAGE)
        page = self._service.insights(caller, where, order=order, limit=limit, cursor=ask.text(query, "cursor", 400))
        return {
            "items": self._viewed(caller, page.items),
            "facets": self._service.insight_facets(caller, where),
            "cursor": page.cursor,
        }

    def insight(self, caller: Caller, insight_id: str, query: Query) -> Data:
        """One insight: claim, evidence, its whole history and how it was used."""
        found = self._service.insight(caller, insight_id)
        used = self._service.use_count(caller, found.id)
        return {
            "insight": self._viewed(caller, [found])[0],
            "history": [history_view(one).model_dump(mode="json") for one in self._service.history(caller, found.id)],
            "episodes": self._supporting(caller, found),
            "links": [_link(one, found.id) for one in self._service.links_of(caller, found.id)],
            "used": None if used is None else {"recalled": used.recalled, "used": used.used, "last": iso(used.last)},
            "may_act": caller.tier.allows(Tier.FEEDBACK),
            "may_forget": caller.tier.allows(Tier.ADMIN),
        }

    def _viewed(self, caller: Caller, insights: Sequence[Insight]) -> list[Data]:
        """Insights with how they stand."""
        stand = self._service.standings(caller, insights)
        return [insight_view(one, stand[one.id]).model_dump(mode="json") for one in insights]

    def _supporting(self, caller: Caller, insight: Insight) -> list[Data]:
        """The sample of episodes that the evidence names, as far as they are there."""
        behind = (episode_id for one in (insight.evidence, insight.latest) if one for episode_id in one.episode_ids)
        return [{"id": episode_id} for episode_id in dict.fromkeys(behind)]

    def episodes(self, caller: Caller, query: Query) -> Data:
        """Episodes with facets: the latest first, or with words the best."""
        wanted = ask.episode_filter(query)
        words = ask.text(query, "q", ask.MOST_TEXT)
        limit = ask.number(query, "limit", 1, 200, _PAGE)
        cursor = None
        if words:
            hits = list(self._service.search_episodes(caller, words, wanted, limit))
        else:
            hits = list(self._service.latest_episodes(caller, wanted, limit + 1, ask.place_of(ask.text(query, "cursor", 400))))
            if len(hits) > limit:
                hits = hits[:limit]
                cursor = ask.cursor_of(Place(hits[-1].ts, hits[-1].id))
        return {
            "items": [_hit(one) for one in hits],
            "facets": self._service.episode_facets(caller, wanted),
            "cursor": cursor,
        }

    def episode(self, caller: Caller, episode_id: str, query: Query) -> Data:
        """One episode: what was published, what was made of it, and what lies near."""
        found: Episode = self._service.episode(caller, episode_id)
        return {
            "episode": found.model_dump(mode="json", exclude={"vector"}, exclude_none=True),
            "time": iso(found.ts),
            "neighbours": [_hit(one) for one in self._service.neighbours(caller, episode_id)],
        }

    def recall(self, caller: Caller, query: Query) -> Data:
        """What an agent would be handed for a question, and why."""
        words = ask.text(query, "q", ask.MOST_TEXT)
        if words is None:
            return {"answer": None}
        found = self._service.recall(caller, words, as_of=ask.when(query, "as_of"))
        result = found.result
        return {
            "answer": {
                "recall_id": found.recall_id,
                "grade": result.grade.value,
                "probability": result.probability,
                "withheld": result.withheld,
                "unknown": result.unknown,
                "memories": [memory_view(hit).model_dump(mode="json") for hit in result.hits],
            }
        }

    def review(self, caller: Caller, query: Query) -> Data:
        """What an operator should look at: active, learned, and doubted; the least sure first."""
        doubted, waiting = self._service.in_doubt(caller, DOUBTED, REVIEWED)
        return {
            "items": self._viewed(caller, doubted),
            "waiting": waiting,
            "may_act": caller.tier.allows(Tier.FEEDBACK),
        }

    def directives(self, caller: Caller, query: Query) -> Data:
        """Directives in force, and with ``ended=yes`` those that are over."""
        found = self._service.directives(caller, include_ended=query.get("ended") == "yes")
        return {"items": self._viewed(caller, found), "may_act": caller.tier.allows(Tier.FEEDBACK)}

    def briefing(self, caller: Caller, query: Query) -> Data:
        """The briefing as an agent gets it."""
        return {"briefing": self._service.briefing(caller).model_dump(mode="json")}

    def signals(self, caller: Caller, query: Query) -> Data:
        """Drift, regimes, breakers: the latest event first."""
        limit = ask.number(query, "limit", 1, 200, 50)
        page = self._service.signals(caller, ask.signal_filter(query), limit=limit, cursor=ask.text(query, "cursor", 400))
        return {"items": [_signal(one) for one in page.items], "cursor": page.cursor}

    def configuration(self, caller: Caller, query: Query) -> Data:
        """Effective settings with their sources."""
        caller.need(Tier.READ)
        return {"settings": [asdict(one) for one in self._facts.settings()]}

    def audit(self, caller: Caller, query: Query) -> Data:
        """Who changed what."""
        page = self._service.changes(
            caller,
            ask.text(query, "author"),
            ask.text(query, "kind"),
            limit=ask.number(query, "limit", 1, 200, 50),
            cursor=ask.text(query, "cursor", 400),
        )
        return {
            "items": [_changed(one) for one in page.items],
            "facets": self._service.change_facets(caller),
            "cursor": page.cursor,
        }


def _link(link: Link, of: str) -> Data:
    plain = {"other": link.other(of), "outward": link.source == of, "relation": str(link.relation), "strength": link.strength}
    return plain | {"author": link.author, "reason": link.reason, "time": iso(link.ts)}


def _hit(hit: Hit) -> Data:
    return {
        "id": hit.id,
        "time": iso(hit.ts),
        "key": hit.key,
        "label": hit.label,
        "tool": hit.tool,
        "status": hit.status,
        "failed": hit.failed,
        "importance": hit.importance,
        "simulated": hit.simulated,
        "retracted": hit.retracted,
        "score": round(hit.score, 6),
        "reflection": hit.reflection,
    }


def _signal(signal: Signal) -> Data:
    plain: Data = signal.model_dump(mode="json", exclude_none=True)
    return plain


def _changed(one: Changed) -> Data:
    return {
        "insight_id": one.insight_id,
        "revision": one.revision,
        "operation_id": one.op_id,
        "kind": one.kind,
        "time": iso(one.ts),
        "author": one.author,
        "reason": one.reason,
        "confidence_before": None if one.confidence_before is None else float(one.confidence_before),
        "confidence_after": float(one.confidence_after),
    }
