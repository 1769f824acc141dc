"""Up to six keywords of an insight, without a model.

What a claim is about is known, so it comes first: its metric and the features of its conditions, and the insight's market. The rest
are the telling words of the sentence, rated as RAKE rates them (Rose, Engel, Cramer & Cowley, "Automatic Keyword Extraction from
Individual Documents", 2010): words between stop words and punctuation stand together, and a word that stands in long company says
more than one that stands often. Numbers are no keywords.
"""

from __future__ import annotations

import re
from collections import Counter

from schemas.insights import Insight
from stores.recall.text import STOP_WORDS, words

MOST = 6
LONGEST = 64
_SENTENCE = re.compile(r"[.,;:!?()\[\]\"“”…\n]+(?=\s|$)|\s[-–—]\s")
_SHORTEST = 3
_MORE = """
about after all also any been before being between both but can case cases could did each few more most not only other our out over
same should since some such than through too under until up very while you your higher lower least
"""
_PLAIN = STOP_WORDS | frozenset(_MORE.split())


def keywords(insight: Insight) -> tuple[str, ...]:
    """The keywords, what is surest first."""
    found = [*_stated(insight), *_telling(insight.text)]
    return tuple(dict.fromkeys(word[:LONGEST] for word in found if word))[:MOST]


def _stated(insight: Insight) -> list[str]:
    if insight.claim is None:
        return []
    conditions = insight.claim.conditions
    values = [one.value.lower() for one in conditions if isinstance(one.value, str)]
    return [insight.claim.metric, *(one.feature for one in conditions), *values, insight.label.lower()]


def _telling(text: str) -> list[str]:
    """Words by RAKE's ratio of company to frequency; equal ones in the order of the text."""
    company: Counter[str] = Counter()
    often: Counter[str] = Counter()
    for phrase in _phrases(text):
        for word in phrase:
            often[word] += 1
            company[word] += len(phrase)
    telling = [word for word in often if len(word) >= _SHORTEST and not word[0].isdigit()]
    place = {word: place for place, word in enumerate(often)}
    return sorted(telling, key=lambda word: (-company[word] / often[word], place[word]))


def _phrases(text: str) -> list[list[str]]:
    phrases: list[list[str]] = []
    for part in _SENTENCE.split(text):
        phrase: list[str] = []
        for word in words(part):
            if word in _PLAIN:
                phrases.append(phrase)
                phrase = []
            else:
                phrase.append(word)
        phrases.append(phrase)
    return [phrase for phrase in phrases if phrase]
