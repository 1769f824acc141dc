"""Names in a sentence, by form: what a note mentions, so that notes which mention the same are tied.

Events say what they are about; a note says it in words. A run of words with capitals or digits is a name ("Router Gamma", "Curve
3pool", "Bank of England"), and so is an address or hash. The name that a note begins with is its subject, and what other notes say
of a subject is what ties them to it. Nothing is looked up: a name that no other memory mentions ties nothing and does no harm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stores.recall.text import MAX_CHARS, STOP_WORDS, words

MOST = 48
"""Names taken from one text."""

_PART = r"[A-Z0-9](?:[\w'’&/-]|\.(?=\w))*"
"""A full stop belongs to a name inside it only, or names would run on into the next sentence."""
_RUN = re.compile(rf"{_PART}(?:\s+(?:(?:of|the|and|de|du|la|von|van|for|in|&)\s+)*{_PART})*")
_HEX = re.compile(r"\b0x[0-9a-fA-F]{6,64}\b")
_LEADING = STOP_WORDS | {
    "she",
    "while",
    "since",
    "during",
    "before",
    "after",
    "although",
    "also",
    "one",
    "two",
    "do",
    "never",
    "always",
}
_SHORTEST = 3
_TELLING = 4


def names_in(text: str) -> tuple[str, ...]:
    """The names in a text as words, each once, in order.

    >>> names_in("Router Gamma fails. It does so on Curve 3pool at 0xA0b86991 when gas is high.")
    ('router gamma', 'curve 3pool', '0xa0b86991')
    """
    read = text[:MAX_CHARS]
    found = [(match.start(), run) for match in _RUN.finditer(read) if (run := _name(match.group()))]
    found += [(match.start(), match.group().lower()) for match in _HEX.finditer(read)]
    return tuple(dict.fromkeys(name for _, name in sorted(found)))[:MOST]


def _name(run: str) -> str:
    told = words(run)
    while told and told[0] in _LEADING:
        told = told[1:]
    if not told or all(word[0].isdigit() for word in told) or (len(told) == 1 and len(told[0]) < _SHORTEST):
        return ""
    return " ".join(told)


def subject_of(text: str) -> str:
    """The name that a text begins with: what it is about; empty where it begins with none.

    >>> subject_of("Router Gamma fails at night."), subject_of("At night Router Gamma fails.")
    ('router gamma', '')
    """
    named = names_in(text)
    start = " ".join(words(text[:200]))
    return named[0] if named and f"{start} ".startswith(f"{named[0]} ") else ""


def spoken_of(texts: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Which texts speak of what others are about, by id: the subjects that stand in each, word for word, its own included."""
    subjects = {subject for text in texts.values() if len(subject := subject_of(text)) >= _TELLING}
    found = {}
    for one, text in texts.items():
        told = f" {' '.join(words(text))} "
        found[one] = tuple(sorted(subject for subject in subjects if f" {subject} " in told))
    return found
