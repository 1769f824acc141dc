"""Links between insights, as recall walks them: what is tied to the candidates, and the memories at the other ends.

A memory that a link leads to from one of the best is a candidate too, even where neither words nor vectors found it: it is then as
near as its own cosine says, and the walk decides whether it comes before others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from stores.recall.sources import Candidate, Question
from stores.sqlite import Link

FROM_BEST = 10
"""Insights whose links are followed to memories that were not found."""
MOST = 8
"""Memories that come in by links alone."""
WALKED = frozenset({"SUPPORTS", "EXTENDS", "CONTRASTS", "PREREQUISITE"})
"""Links that are walked. RELATED mostly says what the vectors say already, and walking it was a little worse than not (see
``docs/recall.md``)."""
WEAKEST = 0.45


@runtime_checkable
class Ties(Protocol):
    """Insights with the links between them."""

    def links(self, insight_ids: Iterable[str]) -> Sequence[Link]:
        """Every link with one of the insights at either end."""
        ...

    def candidate(self, insight_id: str, question: Question) -> Candidate | None:
        """An insight that may be found with this question, with its cosine; None where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Tied:
    """Candidates that came by links alone, ``via`` which link each, and every link among candidates with its strength."""

    candidates: tuple[Candidate, ...] = ()
    links: tuple[tuple[str, str, float], ...] = ()
    via: Mapping[str, str] = field(default_factory=dict)


def follow(ties: Ties, found: Sequence[str], question: Question) -> Tied:
    """What links lead to from the best of the insights that were found, in the order of rank, and which links tie all of them."""
    links = [link for link in ties.links(found) if link.relation in WALKED]
    here = set(found)
    new: dict[str, Candidate] = {}
    via: dict[str, str] = {}
    for one in found[:FROM_BEST]:
        ends = sorted(
            (link for link in links if one in (link.source, link.target)), key=lambda link: (-link.strength, link.other(one))
        )
        for link in ends:
            other = link.other(one)
            if len(new) == MOST or link.strength < WEAKEST:
                break
            if other not in here and other not in new and (candidate := ties.candidate(other, question)) is not None:
                new[other], via[other] = candidate, f"{link.relation} {one}"
    here |= new.keys()
    among = [(link.source, link.target, link.strength) for link in links if link.source in here and link.target in here]
    return Tied(tuple(new.values()), tuple(among), via)
