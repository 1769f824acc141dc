"""A simulated desk's episodes as a retrieval task: what a question asks for is a property of the episode, so relevance is known.

Questions are put as an agent would, in other words than the reflection's: a market by its name the other way round, a band by its
name, a transaction by its beginning. The simulation is simulated, and its words are ours: the numbers say which recipe finds trades
better, not how well people's own questions are answered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from schemas.episodes import Episode, episode_id
from schemas.events import Status
from streams.sources.market.simulate import simulate
from workers import bands
from workers.reflect import reflect

EPISODES = 3_000

Test = Callable[[Episode], bool]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, its kind, and the ids of the episodes that it asks for."""

    kind: str
    text: str
    relevant: frozenset[str]


def episodes(seed: int, count: int = EPISODES) -> list[Episode]:
    """The desk's episodes, without vectors."""
    made = []
    for event in simulate(seed, count):
        told = reflect(event)
        made.append(
            Episode(
                id=episode_id(event),
                key=event.key,
                label=event.pair_label,
                event=event,
                metrics=told.metrics,
                features=told.features,
                reflection=told.text,
                sentence=told.sentence,
                vector=b"",
                model="none",
                importance=told.importance,
            )
        )
    return made


def failed(episode: Episode) -> bool:
    """Whether it came to nothing."""
    return episode.event.status not in (Status.SUCCESS, Status.PENDING)


def questions(of: list[Episode], seed: int, each: int = 12) -> list[Asked]:
    """``each`` questions of every kind about these episodes, each with at least one relevant episode."""
    random = Random(f"{seed}:questions")
    made = []
    for kind, make in _KINDS.items():
        found: dict[str, Asked] = {}
        for _ in range(each * 40):
            text, test = make(random.choice(of))
            relevant = frozenset(episode.id for episode in of if test(episode)) if text and text not in found else frozenset()
            if relevant:
                found[text] = Asked(kind, text, relevant)
            if len(found) == each:
                break
        made += found.values()
    return made


def _turned(label: str) -> str:
    return "/".join(reversed(label.split("/")))


def _router(one: Episode) -> tuple[str, Test]:
    router = one.event.router
    if router is None:
        return "", failed
    text = f"{one.event.tool} {_turned(one.label)} through router {router} on chain {one.event.chain}"
    return text, lambda other: other.key == one.key and other.event.router == router


def _failures(one: Episode) -> tuple[str, Test]:
    if not failed(one):
        return "", failed
    text = f"has a {one.event.tool} in {_turned(one.label)} failed on chain {one.event.chain}, and with what error?"
    return text, lambda other: other.key == one.key and failed(other)


def _bands(one: Episode) -> tuple[str, Test]:
    cost, share = one.metrics.get("cost_bps"), one.features.get("size_share")
    if cost is None or not isinstance(share, float):
        return "", failed
    wanted = (bands.COST_BPS.name(cost), bands.SIZE_SHARE.name(share))

    def same(other: Episode) -> bool:
        its_cost, its_share = other.metrics.get("cost_bps"), other.features.get("size_share")
        if other.key != one.key or its_cost is None or not isinstance(its_share, float):
            return False
        return (bands.COST_BPS.name(its_cost), bands.SIZE_SHARE.name(its_share)) == wanted

    return f"what does a {wanted[1]} swap of {_turned(one.label)} on chain {one.event.chain} look like, {wanted[0]} cost?", same


def _transaction(one: Episode) -> tuple[str, Test]:
    transaction = one.event.tx_hash
    return (f"what happened in {transaction}?", lambda other: other.event.tx_hash == transaction) if transaction else ("", failed)


def _pool(one: Episode) -> tuple[str, Test]:
    pool = one.event.pool
    return (f"recent activity in pool {pool}", lambda other: other.event.pool == pool) if pool else ("", failed)


def _tool(one: Episode) -> tuple[str, Test]:
    return (
        f"before I {one.event.tool} {_turned(one.label)}: earlier ones?",
        lambda other: (other.event.tool, other.label) == (one.event.tool, one.label),
    )


_KINDS: dict[str, Callable[[Episode], tuple[str, Test]]] = {
    "router": _router,
    "failures": _failures,
    "bands": _bands,
    "transaction": _transaction,
    "pool": _pool,
    "tool and market": _tool,
}
