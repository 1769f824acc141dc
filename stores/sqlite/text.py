"""Any text as a full-text query that cannot fail.

FTS5 has a query language, and a hyphen, an apostrophe or a lone quote in a question is a syntax error in it. So each word becomes
a quoted string — inside quotes nothing is special but the quote, which is doubled — and the words are joined by OR: BM25 puts what
has more and rarer ones first. A word's own punctuation does not matter, because FTS5 splits the quoted string exactly as it split
the text: ``0.30`` finds ``0.30 %``. An address shortened from the right (``0xa0b8``, ``0xa0b8…eb48``) is searched as a prefix.

Full-text search knows words only. What it cannot find is found by substring over the folded text: Chinese or Thai, which put no
spaces between words, and parts of a word.
"""

from __future__ import annotations

import re
import unicodedata

MAX_TERMS = 48
"""Distinct words taken from one query; FTS5 gives up on an expression of some hundred."""

_BREAKS = re.compile(r"[\s…、。，！？；：「」『』（）《》]+|\.{2,}")
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_SHORT_HEX = re.compile(r"0x[0-9a-f]{2,63}\Z")


def terms(query: str) -> list[str]:
    """The distinct words of a query: folded, without control characters and outer punctuation.

    >>> terms("Don't swap -- 0xA0B8…EB48, (ever)?")
    ["don't", 'swap', '0xa0b8', 'eb48', 'ever']
    """
    valid = query.encode("utf-8", "replace").decode()
    clean = "".join(" " if unicodedata.category(character) == "Cc" else character for character in valid)
    words = (_EDGES.sub("", folded(word)) for word in _BREAKS.split(clean))
    return list(dict.fromkeys(word for word in words if word))[:MAX_TERMS]


def folded(text: str) -> str:
    """Text for comparison by substring: compatibility forms unified, case folded.

    >>> folded("ＵＳＤＣ Straße")
    'usdc strasse'
    """
    return unicodedata.normalize("NFKC", text).casefold()


def match_expression(words: list[str]) -> str | None:
    """An FTS5 expression for folded words; None where there are none.

    >>> match_expression(["pre-trade", "0xa0b8"])
    '"pre-trade" OR "0xa0b8"*'
    """
    quoted = ('"{}"{}'.format(word.replace('"', '""'), "*" if _SHORT_HEX.match(word) else "") for word in words)
    return " OR ".join(quoted) or None


def unspaced(words: list[str]) -> bool:
    """Whether any word is of a script that writes words without spaces."""
    return any(_UNSPACED.search(word) for word in words)
