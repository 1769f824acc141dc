"""Does what was found answer the question? Correct, ambiguous or incorrect, from the results themselves; no model judges.

One threshold on one score is weak, whatever the score. Signals together are better: how near the nearest is, how far the best by
words stands out, how much of the question — its words, its names, its pairs of words, its addresses — the first results hold. A
logistic regression turns them into the probability that one of the first five is relevant. All are shares or cosines, so they mean
the same whichever index the candidates come from.

The constants are a fit of ``python -m bench.grading``, which says how well they hold through the stores.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from enum import StrEnum
from itertools import pairwise

from stores.recall.text import MAX_CHARS, STOP_WORDS, query_terms, words

INTERCEPT = -5.90
WEIGHTS = (0.49, 3.18, 3.16, 0.96, -1.44, 2.48)
"""By signal, in the order of :class:`Signals`."""

CORRECT_FROM = 0.65
"""From here on 85 % was right in the cases of the bench, where three of four questions had no answer to find."""

INCORRECT_BELOW = 0.09
"""Withholding what scores less costs at most 2.5 % of the questions that were answered."""

_NAME = re.compile(r"(?<!^)\b[A-Z0-9][\w'’.&/-]*")
"""A word with a capital or a digit, but for the question's first, which has its capital by grammar."""

JUDGED = 5
"""How many results are looked at: what is shown by default."""


class Grade(StrEnum):
    """The verdict on a whole result. ``ungraded`` where grading is off."""

    CORRECT = "correct"
    AMBIGUOUS = "ambiguous"
    INCORRECT = "incorrect"
    UNGRADED = "ungraded"


@dataclass(frozen=True, slots=True)
class Signals:
    """What the verdict rests on; all but the first are shares, 0 … 1, and "the first" are the first five.

    ``nearest``: the best cosine. ``coverage``: of the question's words, the most that one of the first has. ``names``: of the words
    that the question writes with a capital or a digit, what the first have. ``phrases``: of its pairs of neighbouring words, what
    they have. ``missed``: of its long words with a digit (addresses, hashes, versions), what they lack. ``gap``: by how much of its
    score the best by words exceeds the sixth.
    """

    nearest: float
    coverage: float
    names: float
    phrases: float
    missed: float
    gap: float


@dataclass(frozen=True, slots=True)
class Judged:
    """A result as the judge sees it: what was matched, and what each source said (None: nothing)."""

    text: str
    cosine: float | None
    lexical: float | None


def signals(question: str, results: Sequence[Judged]) -> Signals:
    """The signals of a ranked list of candidates, the best first; at least one.

    >>> found = signals("gas of 0xa0b8c9d0", [Judged("gas was high", 0.5, 2.0), Judged("other", 0.1, None)])
    >>> found.nearest, found.coverage, found.missed, found.gap
    (0.5, 0.5, 1.0, 1.0)
    """
    asked = query_terms(question)
    texts = [words(result.text) for result in results[:JUDGED]]
    bags = [frozenset(text) for text in texts]
    first = frozenset[str]().union(*bags)
    names = {word for name in _NAME.findall(question[:MAX_CHARS]) for word in words(name)} - STOP_WORDS
    pairs = [pair for pair in pairwise(words(question)) if not STOP_WORDS.issuperset(pair)]
    told = {pair for text in texts for pair in pairwise(text)}
    long = [term for term in asked.terms if len(term) > 3 and any(character.isdigit() for character in term)]
    return Signals(
        nearest=max((result.cosine for result in results if result.cosine is not None), default=0.0),
        coverage=max(asked.share(bag) for bag in bags),
        names=_share([name in first for name in names]) if names else 1.0,
        phrases=_share([pair in told for pair in pairs]),
        missed=_share([not asked.in_words(term, first) for term in long]),
        gap=_gap(sorted((result.lexical or 0.0 for result in results), reverse=True)),
    )


def probability(found: Signals) -> float:
    """That one of the first five results is relevant."""
    total = INTERCEPT + sum(weight * value for weight, value in zip(WEIGHTS, astuple(found), strict=True))
    return 1.0 / (1.0 + math.exp(-min(max(total, -60.0), 60.0)))


def grade(chance: float) -> Grade:
    """The verdict on a probability.

    >>> grade(0.99), grade(0.01)
    (<Grade.CORRECT: 'correct'>, <Grade.INCORRECT: 'incorrect'>)
    """
    if chance >= CORRECT_FROM:
        return Grade.CORRECT
    return Grade.INCORRECT if chance < INCORRECT_BELOW else Grade.AMBIGUOUS


SIGNALS = tuple(field.name for field in fields(Signals))
"""Their names, in the order of the weights."""


def _share(holds: Sequence[bool]) -> float:
    return sum(holds) / len(holds) if holds else 0.0


def _gap(scores: Sequence[float]) -> float:
    if not scores or scores[0] <= 0.0:
        return 0.0
    return (scores[0] - (scores[JUDGED] if len(scores) > JUDGED else 0.0)) / scores[0]
