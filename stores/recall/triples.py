"""Facts as triples — subject, relation, object — from the events themselves.

No model reads them out of prose: an event says who acted, with what, where, through whom, and how it ended. A triple holds from
the event's time on; one of an event that a reorganisation removed never held and is not made. Entities are told apart by kind and
identity (an address, not a symbol that anybody may choose); their surface is the words by which a question may name them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from schemas.episodes import Episode
from schemas.insights import Insight
from stores.places import OPEN, OPEN_SIMULATED
from stores.recall.names import names_in
from stores.recall.text import words

NAME = "name"
"""The kind of what a text names. One word of it is named by a question only where that writes it with a capital, too."""
_SHORTEST_IDENTITY = 4
"""Identities under this many characters (a chain's number) name nothing by themselves."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing that events and claims are about. Equal when kind and identity are."""

    kind: str
    identity: str
    surface: str = field(default="", compare=False)
    name: str = field(init=False, repr=False, compare=False)
    """Kind and identity in one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.kind}:{self.identity}")


@dataclass(frozen=True, slots=True)
class Triple:
    """``subject relation object``, true from ``valid_from``; ``source`` is the id of the memory that says so."""

    subject: Entity
    relation: str
    object: Entity
    valid_from: datetime
    source: str


Fact = tuple[Entity, str, Entity]


_MARKETS = 16_384
"""Markets whose facts are made once: the same ones come with every question, and memories of one share them."""


@lru_cache(maxsize=_MARKETS)
def place_facts(key: str, label: str) -> tuple[Fact, ...]:
    """What a record key says: which tool acted in which market, on which chain, of which tokens. A key may leave parts out.

    >>> for subject, relation, entity in place_facts("swap:1:0xa/0xb", "WETH/USDC"):
    ...     print(subject.name, relation, entity.name, entity.surface)
    tool:swap acted in market:1:0xa/0xb WETH/USDC
    market:1:0xa/0xb is on chain:1 chain 1
    market:1:0xa/0xb trades token:0xa WETH
    market:1:0xa/0xb trades token:0xb USDC
    """
    tool, chain, pair = split_key(key)
    market = market_of(key, label)
    facts: list[Fact] = [(Entity("tool", tool, tool), "acted in", market)] if tool else []
    if chain and chain not in (OPEN, OPEN_SIMULATED):
        facts.append((market, "is on", Entity("chain", chain, f"chain {chain}" if chain.isdigit() else chain)))
    identities, labels = pair.split("/"), label.split("/")
    if len(identities) == len(labels) and len(identities) > 1:
        facts += [
            (market, "trades", Entity("token", one, name.split()[-1] if name.split() else one))
            for one, name in zip(identities, labels, strict=True)
        ]
    return tuple(facts)


def market_of(key: str, label: str) -> Entity:
    """The market of a record key: a pair on a chain; of a key above the pair all that it is about, which no other tool shares."""
    _, chain, pair = split_key(key)
    return Entity("market", f"{chain}:{pair}" if pair and chain not in (OPEN, OPEN_SIMULATED) else key, label)


@lru_cache(maxsize=_MARKETS)
def outcome_facts(key: str, label: str, status: str, regime: str | None) -> tuple[Fact, ...]:
    """How an execution ended, and in which regime."""
    market = market_of(key, label)
    ended: Fact = (market, "ended in", Entity("status", status, status))
    return (ended, (market, "was in", Entity("regime", regime, regime))) if regime else (ended,)


def episode_triples(episode: Episode) -> tuple[Triple, ...]:
    """What an episode says; nothing, if its event was removed."""
    event = episode.event
    if event.removed:
        return ()
    market = market_of(episode.key, event.pair_label)
    facts = list(place_facts(episode.key, event.pair_label))
    facts += outcome_facts(episode.key, event.pair_label, event.status.value, episode.regime)
    facts.append((Entity("agent", event.agent_id, event.agent_id), "acted in", market))
    means = (("through", "router", event.router), ("at", "pool", event.pool), ("following", "strategy", event.strategy))
    facts += [(market, relation, Entity(kind, value, value)) for relation, kind, value in means if value]
    return stated(facts, episode.ts, episode.id)


def insight_triples(insight: Insight) -> tuple[Triple, ...]:
    """What an insight is about: its market, category and metric, and each thing that its claim's conditions name. What people and
    agents state has no claim; there the names in it are taken."""
    market = market_of(insight.key, insight.label)
    anywhere = insight.key in (OPEN, OPEN_SIMULATED, "-")  # what is about everything is tied to nothing by its market
    facts = [] if anywhere else list(place_facts(insight.key, insight.label))
    if not anywhere:
        facts.append((market, "has", Entity("category", insight.category.value, insight.category.value)))
    if insight.claim is not None:
        facts.append((market, "is measured by", Entity("metric", insight.claim.metric, insight.claim.metric)))
        facts += [
            (market, "depends on", Entity(condition.feature, condition.value, condition.value))
            for condition in insight.claim.conditions
            if isinstance(condition.value, str)
        ]
    else:
        facts += _told(insight.text)
    return stated(facts, insight.validated_ts, insight.id)


def _told(text: str) -> list[Fact]:
    """What a note says in words: its first name has to do with each of the others."""
    named = [Entity(NAME, name, name) for name in names_in(text)]
    return [(named[0], "is told of with", other) for other in named[1:]] or [(one, "is", one) for one in named]


def stated(facts: Iterable[Fact], since: datetime, source: str) -> tuple[Triple, ...]:
    """Facts with when they hold and who says so."""
    return tuple(Triple(*fact, valid_from=since, source=source) for fact in facts)


def named_in(query: str, entities: Iterable[Entity]) -> set[Entity]:
    """Those entities whose identity or surface a query contains, word for word.

    >>> weth, chain = Entity("token", "0xc0ff", "WETH"), Entity("chain", "1", "chain 1")
    >>> sorted(found.name for found in named_in("weth on chain 1?", [weth, chain]))
    ['chain:1', 'token:0xc0ff']
    >>> named_in("weth on chain 10", [chain])
    set()
    """
    asked = f" {' '.join(words(query))} "
    capital = set(names_in(query))
    return {
        entity
        for entity in entities
        if any(f" {form} " in asked for form in _forms(entity.surface, entity.identity))
        and (entity.kind != NAME or entity.identity in capital)
    }


def split_key(key: str) -> tuple[str, str, str]:
    """Tool, chain and pair of a record key; what a key leaves out is empty.

    >>> split_key("swap:1:0xa/0xb"), split_key("swap"), split_key("")
    (('swap', '1', '0xa/0xb'), ('swap', '', ''), ('', '', ''))
    """
    parts = [*key.split(":", 2), "", ""]
    return parts[0], parts[1], parts[2]


@lru_cache(maxsize=_MARKETS)
def _forms(surface: str, identity: str) -> frozenset[str]:
    forms = {" ".join(words(surface))}
    if len(identity) >= _SHORTEST_IDENTITY:
        forms.add(" ".join(words(identity)))
    return frozenset(forms - {""})
