"""Memory: what episodes and insights have in common when somebody asks.

A memory knows its text, its event time, what it is about, and what it mentions. The context line says in a few words where a
memory belongs; put before the text that is indexed, it lets a question find a memory by what its own words leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from schemas.claims import Category
from schemas.episodes import Episode
from schemas.insights import Insight
from stores.recall.triples import Entity, Triple, episode_triples, insight_triples, split_key


class Kind(StrEnum):
    """What a memory is."""

    EPISODE = "episode"
    INSIGHT = "insight"


@dataclass(frozen=True, slots=True)
class Memory:
    """One thing that can be recalled. ``pair`` is the market's identity as in the record key, ``label`` its name for people.

    ``outcome`` is an episode's status. ``confidence`` and ``category`` are an insight's; ``regime`` is an episode's, or that
    which an insight's claim is bound to, and ``regimes`` are the shares of its evidence (``regimes.tagged`` looks both up);
    ``since`` and ``until`` are the first and the last time of that evidence. ``cites`` are the episodes that an insight rests on.
    ``change`` numbers the states of one memory: an insight's revision, 1 for an episode.
    """

    id: str
    kind: Kind
    text: str
    ts: datetime
    tool: str
    chain: str
    pair: str
    label: str
    outcome: str | None = None
    category: Category | None = None
    regime: str | None = None
    confidence: Decimal | None = None
    importance: float = 0.0
    simulated: bool = False
    change: int = 1
    stated: bool = False
    triples: tuple[Triple, ...] = field(default=(), repr=False)
    cites: tuple[str, ...] = field(default=(), repr=False)
    regimes: Mapping[str, float] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None
    sentence: str = field(default="", repr=False)
    entities: tuple[Entity, ...] = field(init=False, repr=False, compare=False)
    """What it mentions, each once."""

    def __post_init__(self) -> None:
        mentioned = dict.fromkeys(entity for triple in self.triples for entity in (triple.subject, triple.object))
        object.__setattr__(self, "entities", tuple(mentioned))

    @property
    def key(self) -> str:
        """The record key."""
        return ":".join(part for part in (self.tool, self.chain, self.pair) if part)

    @property
    def indexed(self) -> str:
        """The text with its banded sentence or, where it has none, its context line before it: what words are matched against."""
        told = self.sentence and f"{self.sentence}."
        return f"{told or context_line(self.tool, self.chain, self.label, self.regime, self.outcome or self.category)} {self.text}"


def context_line(tool: str, chain: str, pair: str, regime: str | None = None, outcome: str | None = None) -> str:
    """Where a memory belongs, in one line.

    >>> context_line("swap", "1", "USDC/WETH", "calm", "success")
    'swap USDC/WETH on chain 1, regime calm, success.'
    >>> context_line("research", "offchain", "market-notes")
    'research market-notes.'
    """
    where = f" on chain {chain}" if chain.isdigit() else ""
    parts = [f"{tool} {pair}{where}".strip(), f"regime {regime}" if regime else "", outcome or ""]
    return ", ".join(part for part in parts if part) + "."


def of_episode(episode: Episode) -> Memory:
    """An episode as a memory."""
    event = episode.event
    tool, chain, pair = split_key(episode.key)
    return Memory(
        id=episode.id,
        kind=Kind.EPISODE,
        text=episode.reflection,
        ts=episode.ts,
        tool=tool,
        chain=chain,
        pair=pair,
        label=event.pair_label,
        outcome=event.status.value,
        regime=episode.regime,
        importance=episode.importance,
        simulated=event.simulated,
        triples=episode_triples(episode),
        sentence=episode.sentence,
    )


def of_insight(insight: Insight) -> Memory:
    """An insight as a memory; its time is that of its last validation."""
    tool, chain, pair = split_key(insight.key)
    return Memory(
        id=insight.id,
        kind=Kind.INSIGHT,
        text=insight.text,
        ts=insight.validated_ts,
        tool=tool,
        chain=chain,
        pair=pair,
        label=insight.label,
        category=insight.category,
        regime=_regime(insight),
        confidence=insight.confidence,
        importance=insight.importance,
        simulated=insight.simulated,
        change=insight.revision,
        stated=insight.claim is None,
        triples=insight_triples(insight),
        cites=insight.evidence.episode_ids if insight.evidence else (),
        since=insight.evidence.first_ts if insight.evidence else None,
        until=insight.evidence.last_ts if insight.evidence else None,
    )


def _regime(insight: Insight) -> str | None:
    if insight.claim is None:
        return None
    bound = [condition.value for condition in insight.claim.conditions if condition.feature == "regime" and condition.op == "=="]
    return bound[0] if bound and isinstance(bound[0], str) else None
