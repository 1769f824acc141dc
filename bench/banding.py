"""What embedding a banded sentence costs in retrieval, against embedding the exact reflection: ``python -m bench.banding``.

Simulated desks, questions with known relevance (``bench/desk.py``), precision at five, mean over the kinds. BM25 reads the
reflection either way. ``distinct`` is how many texts went through the model; ``near`` how many of an episode's ten nearest
neighbours by the reflection are also within the ten nearest distances by the sentence.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from bench import desk
from bench.retrieval import Legs, open_embedder, order, recipes
from stores.recall.fusion import DEFAULT_RECIPE


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22])
    given = parser.parse_args(arguments)
    embedder = open_embedder()
    precision: dict[tuple[str, str], list[float]] = {}
    distinct: dict[str, int] = {"sentence": 0, "reflection": 0}
    near: list[float] = []
    for seed in given.seeds:
        episodes = desk.episodes(seed, given.episodes)
        asked = desk.questions(episodes, seed)
        reflections = {one.id: one.reflection for one in episodes}
        vectors = {}
        for what in distinct:
            texts = {one.id: str(getattr(one, what)) for one in episodes}
            distinct[what] += len(set(texts.values()))
            legs = Legs(embedder, reflections, texts)
            vectors[what] = embedder.embed(list(texts.values()))
            for name in ("MiniLM", DEFAULT_RECIPE):
                precision.setdefault((what, name), []).append(_precision(legs, asked, name))
        near.append(_near(vectors["reflection"], vectors["sentence"]))
    count = given.episodes * len(given.seeds)
    print(f"{count} simulated episodes, seeds {given.seeds}; P@5, mean of {len({one.kind for one in asked})} kinds of question")
    for (what, name), found in precision.items():
        print(f"embedded {what:<10}  {name:<8}  {np.mean(found):.3f}   ({distinct[what]} of {count} texts distinct)")
    print(f"near: {np.mean(near):.2f} of the reflection's ten nearest are among the sentence's nearest")


def _precision(legs: Legs, asked: Sequence[desk.Asked], recipe: str) -> float:
    by_kind: dict[str, list[float]] = {}
    for one in asked:
        best = order(recipes()[recipe](legs.sources(one.text)))[:5]
        by_kind.setdefault(one.kind, []).append(len(one.relevant & set(best)) / min(5, len(one.relevant)))
    return float(np.mean([np.mean(found) for found in by_kind.values()]))


def _near(exact: np.ndarray, banded: np.ndarray, k: int = 10) -> float:
    """Equal sentences are equally near, so the banded neighbourhood is all within the k-th distance."""
    by_exact, by_band = exact @ exact.T, banded @ banded.T
    shares = []
    for row in range(len(exact)):
        by_exact[row, row] = by_band[row, row] = -2.0
        nearest = np.argsort(-by_exact[row])[:k]
        shares.append(float(np.mean(by_band[row, nearest] >= np.sort(by_band[row])[-k] - 1e-6)))
    return float(np.mean(shares))


if __name__ == "__main__":
    main()
