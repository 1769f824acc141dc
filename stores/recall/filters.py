"""What may be asked of the memory besides words, as values. A filter decides before the best are taken, never after."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from schemas.claims import Category
from stores.places import takes_in
from stores.recall.errors import BadRecall
from stores.recall.memories import Kind, Memory
from stores.recall.regimes import fits

EVERY_KIND = frozenset(Kind)


@dataclass(frozen=True, slots=True)
class RecallFilters:
    """Conditions that all must hold; what is None or empty does not count.

    ``pair`` is the market's identity, as in the record key. Insights of a tool and of everything hold in each of its places, so
    they pass (``stores/places.py``). Times are event times (an insight's: its last validation), from
    ``since`` (inclusive) until ``until`` (exclusive). ``categories`` are of insights, so an episode does not pass them;
    ``min_confidence`` is about beliefs, and an episode, which is a fact, passes it. ``regime`` is that of an episode, or one of
    those that an insight's evidence is from; an insight of which that is not known passes (``stores/recall/regimes.py``).
    ``directives`` False leaves out the operator's, for who hands them over by another way.
    """

    kinds: frozenset[Kind] = EVERY_KIND
    tool: str | None = None
    chain: str | None = None
    pair: str | None = None
    categories: frozenset[Category] = frozenset()
    regime: str | None = None
    min_confidence: Decimal | None = None
    since: datetime | None = None
    until: datetime | None = None
    include_simulated: bool = True
    directives: bool = True

    def __post_init__(self) -> None:
        """Refuse what has no meaning.

        Raises:
            BadRecall: no kinds, a confidence outside 0 … 1, a time without a zone.
        """
        if not self.kinds:
            raise BadRecall("a filter that lets no kind of memory through", hint="episode, insight")
        if self.min_confidence is not None and not (self.min_confidence.is_finite() and 0 <= self.min_confidence <= 1):
            raise BadRecall(f"a confidence lies in 0 … 1, not at {self.min_confidence}")
        for name in ("since", "until"):
            zoned(getattr(self, name), name)

    def passes(self, memory: Memory) -> bool:
        """Whether a memory meets every condition."""
        return (
            self.there(memory)
            and (not self.categories or memory.category in self.categories)
            and (self.regime is None or fits(memory, self.regime))
            and (self.min_confidence is None or memory.confidence is None or memory.confidence >= self.min_confidence)
            and (self.since is None or memory.ts >= self.since)
            and (self.until is None or memory.ts < self.until)
        )

    @property
    def only_places(self) -> bool:
        """Whether nothing else is asked for than what :meth:`there` decides."""
        return not self.categories and all(one is None for one in (self.regime, self.min_confidence, self.since, self.until))

    def there(self, memory: Memory) -> bool:
        """Whether it is of a wanted kind and holds where that is asked for. An episode is of one place, whatever that is called."""
        if memory.kind not in self.kinds or (memory.simulated and not self.include_simulated):
            return False
        if memory.category is Category.OPERATOR_DIRECTIVE and not self.directives:
            return False
        if memory.kind is Kind.EPISODE:
            return self.tool in (None, memory.tool) and self.chain in (None, memory.chain) and self.pair in (None, memory.pair)
        about = (memory.tool, memory.chain, memory.pair)
        return takes_in(about, self.tool, self.chain, self.pair, simulated=memory.simulated)


def zoned(moment: datetime | None, name: str) -> None:
    """A time that says which one it is.

    Raises:
        BadRecall: it has no zone.
    """
    if moment is not None and moment.tzinfo is None:
        raise BadRecall(f"{name} has no time zone, so it is ambiguous", hint="add Z or +00:00")
