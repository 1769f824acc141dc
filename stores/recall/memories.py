"""Memory: what episodes and insights have in common when somebody asks.

A memory knows its text, its event time, what it is about, and what it mentions. The context line says in a few words where a
memory belongs; putting it before the text that is indexed lets a question find a memory by what its own words leave out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from schemas.claims import Category
from schemas.episodes import Episode
from schemas.insights import Insight
from stores.recall.triples import Entity, Triple, episode_triples, insight_triples


class Kind(StrEnum):
    """What a memory is."""

    EPISODE = "episode"
    INSIGHT = "insight"


@dataclass(frozen=True, slots=True)
class Memory:
    """One thing that can be recalled. ``pair`` is the market's identity as in the record key, ``label`` its name for people.

    ``confidence`` and ``category`` are an insight's, ``regime`` an episode's. ``cites`` are the episodes that an insight rests on.
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
    source: Episode | Insight
    category: Category | None = None
    regime: str | None = None
    confidence: Decimal | None = None
    simulated: bool = False
    change: int = 1
    triples: tuple[Triple, ...] = ()
    cites: tuple[str, ...] = ()

    @property
    def entities(self) -> tuple[Entity, ...]:
        """What it mentions, each once."""
        return tuple(dict.fromkeys(entity for triple in self.triples for entity in (triple.subject, triple.object)))

    @property
    def indexed(self) -> str:
        """The text with its context line before it: what words are matched against."""
        outcome = self.source.event.status if isinstance(self.source, Episode) else self.category
        return f"{context_line(self.tool, self.chain, self.label, self.regime, outcome)} {self.text}"


def context_line(tool: str, chain: str, pair: str, regime: str | None = None, outcome: str | None = None) -> str:
    """Where a memory belongs, in one line.

    >>> context_line("swap", "1", "USDC/WETH", "calm", "success")
    'swap USDC/WETH on chain 1, regime calm, success.'
    >>> context_line("research", "offchain", "market-notes")
    'research market-notes.'
    """
    where = f" on chain {chain}" if chain.isdigit() else ""
    parts = [f"{tool} {pair}{where}", f"regime {regime}" if regime else "", outcome or ""]
    return ", ".join(part for part in parts if part) + "."


def of_episode(episode: Episode) -> Memory:
    """An episode as a memory."""
    event = episode.event
    return Memory(
        id=episode.id,
        kind=Kind.EPISODE,
        text=episode.reflection,
        ts=episode.ts,
        tool=event.tool,
        chain=event.chain,
        pair=split_key(episode.key)[2],
        label=event.pair_label,
        source=episode,
        regime=episode.regime,
        simulated=event.simulated,
        triples=episode_triples(episode),
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
        source=insight,
        category=insight.category,
        regime=_regime(insight),
        confidence=insight.confidence,
        simulated=insight.simulated,
        change=insight.revision,
        triples=insight_triples(insight),
        cites=insight.evidence.episode_ids if insight.evidence else (),
    )


def split_key(key: str) -> tuple[str, str, str]:
    """Tool, chain and pair of a record key; what a key above one pair leaves out is empty.

    >>> split_key("swap:1:0xa/0xb"), split_key("swap"), split_key("")
    (('swap', '1', '0xa/0xb'), ('swap', '', ''), ('', '', ''))
    """
    parts = [*key.split(":", 2), "", ""]
    return parts[0], parts[1], parts[2]


def _regime(insight: Insight) -> str | None:
    """The regime that an insight's claim is bound to, if it is."""
    if insight.claim is None:
        return None
    bound = [condition.value for condition in insight.claim.conditions if condition.feature == "regime" and condition.op == "=="]
    return bound[0] if bound and isinstance(bound[0], str) else None
