"""HotpotQA distractors as a retrieval task: 100 hard two-hop questions over the pool of all their 1,000 paragraphs.

Entities are read from the text by rule: a paragraph's title, and runs of capitalised words. A title that occurs in another
paragraph is what a hyperlink is. Trades need no such reader: their entities come with the event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stores.recall.graph import LinkGraph, Links
from stores.recall.text import STOP_WORDS, words

FILE = Path(__file__).resolve().parents[2] / "shared" / "data" / "retrieval" / "hotpotqa_distractor_100.json"

_NAME = r"[A-Z0-9][\w'’.&-]*"
_RUN = re.compile(rf"{_NAME}(?:\s+(?:(?:of|the|and|de|du|la|von|van|for|in|&)\s+)*{_NAME})*")
_LEADING = STOP_WORDS | {"she", "while", "since", "during", "before", "after", "although", "also", "one", "two"}


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the titles of the two paragraphs that support its answer."""

    text: str
    supporting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pool:
    """Paragraphs by title, title put before each, and the questions about them."""

    paragraphs: dict[str, str]
    questions: tuple[Question, ...]


def load() -> Pool:
    """Read the file. Raises FileNotFoundError where it is not there."""
    rows = json.loads(FILE.read_text())
    paragraphs: dict[str, str] = {}
    for row in rows:
        for title, sentences in zip(row["context"]["title"], row["context"]["sentences"], strict=True):
            paragraphs.setdefault(title, f"{title}. {''.join(sentences)}")
    questions = (Question(row["question"], tuple(sorted(set(row["supporting_facts"]["title"])))) for row in rows)
    return Pool(paragraphs, tuple(questions))


class Entities:
    """Reads the entities of a text, given the titles of the pool."""

    def __init__(self, titles: list[str]) -> None:
        self.title = {title: " ".join(words(re.sub(r"\([^)]*\)", "", title))) for title in titles}
        self._titles = set(self.title.values()) - {""}
        self._longest = max(len(title.split()) for title in self._titles)

    def read(self, text: str) -> set[str]:
        """Names in a text, as words."""
        return self._runs(text) | self._links(words(text))

    def _runs(self, text: str) -> set[str]:
        found = set()
        for match in _RUN.finditer(text):
            run = words(match.group())
            while run and run[0] in _LEADING:
                run = run[1:]
            if len(run) > 1 or (run and len(run[0]) > 2 and not run[0].isdigit()):
                found.add(" ".join(run))
        return found

    def _links(self, text: list[str]) -> set[str]:
        """The pool's titles in a text, the longest first."""
        found, place = set(), 0
        while place < len(text):
            for length in range(min(self._longest, len(text) - place), 0, -1):
                name = " ".join(text[place : place + length])
                if name in self._titles and (length > 1 or (len(name) > 3 and name not in STOP_WORDS)):
                    found.add(name)
                    place += length
                    break
            else:
                place += 1
        return found


class Mentions:
    """What each paragraph of a pool mentions, read once."""

    def __init__(self, pool: Pool) -> None:
        self.entities = Entities(list(pool.paragraphs))
        self._subject = self.entities.title
        self._names = {
            title: tuple(sorted(self.entities.read(text) | ({self._subject[title]} - {""})))
            for title, text in pool.paragraphs.items()
        }

    def of(self, title: str) -> tuple[str, tuple[str, ...]]:
        """A paragraph's subject, and all that it mentions."""
        return self._subject[title], self._names[title]

    def graph(self, titles: Iterable[str]) -> LinkGraph:
        """The graph of some paragraphs: what they mention, and that a paragraph's subject has to do with each of it."""
        mentions = {title: self._names[title] for title in titles}
        facts = [
            (self._subject[title], name) for title, names in mentions.items() for name in names if name != self._subject[title]
        ]
        return LinkGraph(Links(mentions, facts))
