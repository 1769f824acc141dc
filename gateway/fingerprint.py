"""One hash over everything that is remembered: equal exactly when two brains know the same (law 1)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from stores.episodes import EpisodeStore
from stores.sqlite import InsightStore


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """SHA-256 of the whole, and of each store with the number of its lines."""

    sha256: str
    episodes: str
    episode_lines: int
    insights: str
    insight_lines: int


def fingerprint(episodes: EpisodeStore, insights: InsightStore) -> Fingerprint:
    """The fingerprint of both stores: ids, texts, confidences, counts, evidence. Nothing of clocks, offsets or vectors.

    Each store is read in one state, whatever a writer does meanwhile.
    """
    episode_hash, episode_lines = _digest(episodes.fingerprint_parts())
    with insights.snapshot():
        insight_hash, insight_lines = _digest(insights.fingerprint_parts())
    whole = hashlib.sha256(f"{episode_hash}\n{insight_hash}\n".encode()).hexdigest()
    return Fingerprint(whole, episode_hash, episode_lines, insight_hash, insight_lines)


def _digest(lines: Iterable[bytes | str]) -> tuple[str, int]:
    digest = hashlib.sha256()
    count = 0
    for line in lines:
        digest.update(line.encode() if isinstance(line, str) else line)
        digest.update(b"\n")
        count += 1
    return digest.hexdigest(), count
