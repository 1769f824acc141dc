"""What each way of retrieving finds: ``python -m bench.retrieval [--write]``.

Two tasks whose answers are known without a judge: HotpotQA (two supporting paragraphs a question, one pool of 1,000), and a
simulated desk's episodes (what a question asks for is a property of the episode). Both legs give their best 50, as recall does; a
recipe sees nothing else. ``--write`` puts the tables into ``docs/recall.md``.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from bench import hotpot
from stores.embedding.cache import CachedEmbedder
from stores.embedding.onnx import open_model
from stores.recall.bm25 import Bm25
from stores.recall.fusion import RECIPES, ranked
from stores.recall.mirror import VectorMirror

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "bench-vectors.db"
PAGE = ROOT / "docs" / "recall.md"
DEPTH = 50

Ranking = list[str]
Sources = dict[str, dict[str, float]]


class Legs:
    """Both ways into a set of texts: words, and vectors (of other texts for the same ids, where given)."""

    def __init__(self, embedder: CachedEmbedder, texts: Mapping[str, str], embedded: Mapping[str, str] | None = None) -> None:
        self._embedder = embedder
        self.lexical = Bm25(texts.items())
        self.dense = VectorMirror(embedder.dimension)
        said = embedded or texts
        for key, vector in zip(said, embedder.embed(list(said.values())), strict=True):
            self.dense.put(key, vector, 1)

    def sources(self, query: str, without: frozenset[str] = frozenset()) -> Sources:
        """The best of each leg, leaving some ids out."""
        vector = self._embedder.embed_query([query])[0]
        near = self.dense.nearest(vector, DEPTH, lambda ids: np.array([key not in without for key in ids]))
        found = [hit for hit in self.lexical.search(query, DEPTH + len(without)) if hit[0] not in without][:DEPTH]
        lexical = dict(found)
        dense = dict(near) | self.dense.cosines(vector, lexical)
        return {"dense": dense, "lexical": lexical}


def open_embedder() -> CachedEmbedder:
    """The default model; what was embedded once is kept between runs."""
    CACHE.parent.mkdir(exist_ok=True)
    return CachedEmbedder(open_model(), CACHE)


def order(scores: Mapping[str, float]) -> Ranking:
    """Best first."""
    return sorted(scores, key=lambda key: (-scores[key], key))


def recipes() -> dict[str, Callable[[Sources], dict[str, float]]]:
    """Every way to one list."""

    def fused(name: str, dense_weight: float) -> Callable[[Sources], dict[str, float]]:
        weights = {"dense": dense_weight, "lexical": 1.0 - dense_weight}
        return lambda sources: {key: hit.score for key, hit in ranked(RECIPES[name](sources, weights))}

    return {
        "BM25": lambda sources: sources["lexical"],
        "MiniLM": lambda sources: sources["dense"],
        **{name: fused(name, 0.5) for name in RECIPES},
        "convex, 0.7 dense": fused("convex", 0.7),
        "convex, 0.3 dense": fused("convex", 0.3),
    }


def hotpot_table(embedder: CachedEmbedder) -> list[str]:
    """Recall of supporting paragraphs, plain and with a walk over the links."""
    pool = hotpot.load()
    legs, mentions = Legs(embedder, pool.paragraphs), hotpot.Mentions(pool)
    whole = mentions.graph(pool.paragraphs)
    found = [legs.sources(question.text) for question in pool.questions]
    named = [mentions.entities.read(question.text) for question in pool.questions]
    rows = ["| recipe | R@2 | R@5 | R@10 | both@5 |", "|---|---|---|---|---|"]

    def row(name: str, rankings: Sequence[Ranking]) -> None:
        gold = [set(question.supporting) for question in pool.questions]
        at = {
            k: np.mean([len(set(got[:k]) & want) / len(want) for got, want in zip(rankings, gold, strict=True)]) for k in (2, 5, 10)
        }
        both = np.mean([want <= set(got[:5]) for got, want in zip(rankings, gold, strict=True)])
        rows.append(f"| {name} | {at[2]:.3f} | {at[5]:.3f} | {at[10]:.3f} | {both:.2f} |")
        print(rows[-1], flush=True)

    for name, recipe in recipes().items():
        row(name, [order(recipe(sources)) for sources in found])
    for name in ("BM25", "MiniLM", *RECIPES):
        scored = [recipes()[name](sources) for sources in found]
        walks = list(zip(scored, named, strict=True))
        row(f"{name} + walk over all links", [order(whole.rank(scores, seeds)) for scores, seeds in walks])
        walked = [order(mentions.graph(scores).rank(scores, seeds)) for scores, seeds in walks]
        row(f"{name} + walk over the candidates' links", walked)
    return rows


def write(name: str, rows: Sequence[str]) -> None:
    """Put a table between its marks in the page."""
    text = PAGE.read_text()
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.S)
    PAGE.write_text(pattern.sub(lambda match: match.group(1) + "\n".join(rows) + match.group(2), text))


def main() -> None:
    """Print every table; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/recall.md")
    arguments = parser.parse_args()
    embedder = open_embedder()
    tables = {"hotpotqa": hotpot_table(embedder)}
    if arguments.write:
        for name, rows in tables.items():
            write(name, rows)


if __name__ == "__main__":
    main()
