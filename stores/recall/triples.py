"""Facts as triples — subject, relation, object — from the events themselves.

No model reads them out of prose: an event says who acted, with what, where, through whom, and how it ended. A triple holds from
the event's time on; one of an event that a reorganisation removed never held and is not made. Entities are told apart by kind and
identity (an address, not a symbol that anybody may choose); their surface is the words by which a question may name them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from schemas.episodes import Episode
from schemas.events import Token, ToolExecution
from schemas.insights import Insight
from stores.recall.text import words


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing that events and claims are about. Equal when kind and identity are."""

    kind: str
    identity: str
    surface: str = ""

    @property
    def name(self) -> str:
        """Kind and identity in one."""
        return f"{self.kind}:{self.identity}"

    def __hash__(self) -> int:
        return hash((self.kind, self.identity))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entity) and (self.kind, self.identity) == (other.kind, other.identity)


@dataclass(frozen=True, slots=True)
class Triple:
    """``subject relation object``, true from ``valid_from``; ``source`` is the id of the memory that says so."""

    subject: Entity
    relation: str
    object: Entity
    valid_from: datetime
    source: str


def episode_triples(episode: Episode) -> tuple[Triple, ...]:
    """What an episode says, as facts about its market and what was used there; none for one that was removed."""
    event = episode.event
    if event.removed:
        return ()
    market = _market(episode.key, event.pair_label)
    tool = Entity("tool", event.tool, event.tool)
    facts = [
        (Entity("agent", event.agent_id, event.agent_id), "used", tool),
        (tool, "acted in", market),
        (market, "is on", Entity("chain", event.chain, f"chain {event.chain}")),
        (tool, "ended in", Entity("status", event.status.value, event.status.value)),
        *((market, "trades", _token(token)) for token in event.tokens),
        *((tool, relation, entity) for relation, entity in _means(event)),
    ]
    if episode.regime:
        facts.append((market, "was in", Entity("regime", episode.regime, episode.regime)))
    return tuple(Triple(*fact, valid_from=episode.ts, source=episode.id) for fact in facts)


def insight_triples(insight: Insight) -> tuple[Triple, ...]:
    """What an insight is about: its market, its metric and each category that its claim names, as facts from its validation on."""
    tool, chain, _ = (*insight.key.split(":", 2), "", "")[:3]
    market = _market(insight.key, insight.label)
    facts = [(market, "is on", Entity("chain", chain, f"chain {chain}"))] if chain else []
    if tool:
        facts.append((Entity("tool", tool, tool), "acted in", market))
    facts.append((market, "has", Entity("category", insight.category.value, insight.category.value)))
    if insight.claim is not None:
        facts.append((market, "is measured by", Entity("metric", insight.claim.metric, insight.claim.metric)))
        facts += [
            (market, "depends on", Entity(condition.feature, str(condition.value), str(condition.value)))
            for condition in insight.claim.conditions
            if isinstance(condition.value, str)
        ]
    return tuple(Triple(*fact, valid_from=insight.validated_ts, source=insight.id) for fact in facts)


def named_in(query: str, entities: list[Entity]) -> set[Entity]:
    """Those entities whose identity or surface a query contains, word for word.

    >>> weth, chain = Entity("token", "0xc0ff", "WETH"), Entity("chain", "1", "chain 1")
    >>> sorted(found.name for found in named_in("weth on chain 1?", [weth, chain]))
    ['chain:1', 'token:0xc0ff']
    >>> named_in("weth on chain 10", [chain])
    set()
    """
    asked = f" {' '.join(words(query))} "
    return {entity for entity in entities if any(f" {form} " in asked for form in _forms(entity))}


def _forms(entity: Entity) -> set[str]:
    forms = {" ".join(words(entity.surface))}
    if len(entity.identity) > 3:
        forms.add(" ".join(words(entity.identity)))
    return forms - {""}


def _market(key: str, label: str) -> Entity:
    pair = (*key.split(":", 2), "", "")[2]
    return Entity("market", pair or key, label)


def _token(token: Token) -> Entity:
    return Entity("token", token.identity, token.label)


def _means(event: ToolExecution) -> list[tuple[str, Entity]]:
    """What an execution went through."""
    named = (("via", "router", event.router), ("at", "pool", event.pool), ("followed", "strategy", event.strategy))
    return [(relation, Entity(kind, value, value)) for relation, kind, value in named if value]
