"""What each way of retrieving finds: ``python -m bench.retrieval [--write]``.

Two tasks whose answers are known without a judge: HotpotQA (two supporting paragraphs a question, one pool of 1,000), and a
simulated desk's episodes (what a question asks for is a property of the episode). Both legs give their best 50, as recall does; a
recipe sees nothing else. ``--write`` puts the tables into ``docs/recall.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from bench import desk, hotpot
from schemas.episodes import Episode
from stores.embedding.cache import CachedEmbedder
from stores.embedding.onnx import open_model
from stores.recall.bm25 import Bm25
from stores.recall.fusion import DEFAULT_RECIPE, RECIPES, ranked
from stores.recall.graph import LinkGraph, Links
from stores.recall.memories import Memory, context_line, of_episode
from stores.recall.mirror import VectorMirror
from stores.recall.triples import named_in

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "bench-vectors.db"
PAGE = ROOT / "docs" / "recall.md"
DEPTH = 50

Ranking = list[str]
Sources = dict[str, dict[str, float]]
Ranker = Callable[[str, Sources, Mapping[str, Memory]], Ranking]


class Legs:
    """Both ways into a set of texts: words, and vectors (of other texts for the same ids, where given)."""

    def __init__(self, embedder: CachedEmbedder, texts: Mapping[str, str], embedded: Mapping[str, str] | None = None) -> None:
        self._embedder = embedder
        self.lexical = Bm25(texts.items())
        self.dense = VectorMirror(embedder.dimension)
        self._ids = frozenset(texts)
        said = embedded or texts
        for key, vector in zip(said, embedder.embed(list(said.values())), strict=True):
            self.dense.put(key, vector, 1)

    def sources(self, query: str, without: frozenset[str] = frozenset()) -> Sources:
        """The best of each leg, leaving some ids out."""
        vector = self._embedder.embed_query([query])[0]
        near = self.dense.nearest(vector, DEPTH, self._ids - without)
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
        "maxnorm, 0.7 dense": fused("maxnorm", 0.7),
        "maxnorm, 0.3 dense": fused("maxnorm", 0.3),
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


INDEXED: dict[str, Callable[[Memory, str], str]] = {
    "reflection": lambda memory, sentence: memory.text,
    "+ context line": lambda memory, sentence: f"{_context(memory)} {memory.text}",
    "+ banded sentence": lambda memory, sentence: f"{sentence}. {memory.text}",
    "+ both": lambda memory, sentence: f"{_context(memory)} {sentence}. {memory.text}",
}
"""What BM25 may read of an episode."""
KEPT = "+ banded sentence"
"""What it does read."""


def _context(memory: Memory) -> str:
    return context_line(memory.tool, memory.chain, memory.label, memory.regime, memory.outcome)


class Desk:
    """Episodes of several simulated desks, and what is asked about each."""

    def __init__(self, embedder: CachedEmbedder, seeds: Sequence[int]) -> None:
        self._embedder = embedder
        self.desks = []
        for seed in seeds:
            episodes = desk.episodes(seed)
            self.desks.append((episodes, {one.id: of_episode(one) for one in episodes}, desk.questions(episodes, seed)))
        self.kinds = list(dict.fromkeys(asked.kind for _, _, questions in self.desks for asked in questions))

    def found(self, read: Callable[[Memory, str], str]) -> list[list[Sources]]:
        """What both legs give for each question of each desk, where BM25 reads this of each episode."""
        answers = []
        for episodes, memories, questions in self.desks:
            indexed = {one.id: read(memories[one.id], one.sentence) for one in episodes}
            legs = Legs(self._embedder, indexed, {one.id: one.sentence for one in episodes})
            answers.append([legs.sources(asked.text) for asked in questions])
        return answers

    def precision(self, found: Sequence[Sequence[Sources]], rank: Ranker) -> dict[str, float]:
        """Share of the first five that are relevant (of as many as there are), by kind of question, and the mean of kinds."""
        by_kind: dict[str, list[float]] = {kind: [] for kind in self.kinds}
        for answers, (_, memories, questions) in zip(found, self.desks, strict=True):
            for sources, asked in zip(answers, questions, strict=True):
                best = rank(asked.text, sources, memories)[:5]
                by_kind[asked.kind].append(len(asked.relevant & set(best)) / min(5, len(asked.relevant)))
        means = {kind: float(np.mean(shares)) for kind, shares in by_kind.items()}
        return {**means, "mean": float(np.mean(list(means.values())))}


def previous_table(embedder: CachedEmbedder, count: int = 1_500) -> list[str]:
    """Precision at five where what is embedded, indexed or both has the previous episode of the same key before it, as the previous
    turn helps in conversations."""
    episodes = desk.episodes(11, count)
    memories = {one.id: of_episode(one) for one in episodes}
    asked = desk.questions(episodes, 11)
    last: dict[str, Episode] = {}
    before: dict[str, str] = {}
    for one in episodes:
        before[one.id] = f"{last[one.key].sentence}. " if one.key in last else ""
        last[one.key] = one
    plain = {one.id: one.sentence for one in episodes}
    words = {one.id: f"{one.sentence}. {one.reflection}" for one in episodes}
    rows = ["| the previous episode is | precision at 5 |", "|---|---|"]
    for name, embeds, indexes in (
        ("left out", False, False),
        ("embedded", True, False),
        ("indexed", False, True),
        ("both", True, True),
    ):
        texts = {one: (before[one] if indexes else "") + text for one, text in words.items()}
        said = {one: (before[one] if embeds else "") + text for one, text in plain.items()}
        legs = Legs(embedder, texts, said)
        shares: dict[str, list[float]] = {}
        for question in asked:
            best = walked(question.text, recipes()[DEFAULT_RECIPE](legs.sources(question.text)), memories)[:5]
            shares.setdefault(question.kind, []).append(len(question.relevant & set(best)) / min(5, len(question.relevant)))
        rows.append(f"| {name} | {np.mean([np.mean(found) for found in shares.values()]):.3f} |")
        print(rows[-1], flush=True)
    return rows


def walked(text: str, scores: Mapping[str, float], memories: Mapping[str, Memory]) -> Ranking:
    """The order after a walk over the candidates' links."""
    candidates = [memories[key] for key in scores]
    entities = {entity for memory in candidates for entity in memory.entities}
    facts = [(triple.subject.name, triple.object.name) for memory in candidates for triple in memory.triples]
    graph = LinkGraph(Links({memory.id: [entity.name for entity in memory.entities] for memory in candidates}, facts))
    return order(graph.rank(scores, [entity.name for entity in named_in(text, entities)]))


def desk_table(embedder: CachedEmbedder) -> list[str]:
    """Precision at five over simulated episodes, by recipe and by what is indexed."""
    task = Desk(embedder, (11, 12, 13))
    rows = [f"| indexed | recipe | {' | '.join(task.kinds)} | mean |", "|---|---|" + "---|" * (len(task.kinds) + 1)]

    def row(indexed: str, name: str, found: dict[str, float]) -> None:
        rows.append(f"| {indexed} | {name} | {' | '.join(f'{share:.2f}' for share in found.values())} |")
        print(rows[-1], flush=True)

    def ranked_by(recipe: Callable[[Sources], dict[str, float]]) -> Ranker:
        return lambda text, sources, memories: order(recipe(sources))

    def walked_by(recipe: Callable[[Sources], dict[str, float]]) -> Ranker:
        return lambda text, sources, memories: walked(text, recipe(sources), memories)

    best = recipes()[DEFAULT_RECIPE]
    for indexed, read in INDEXED.items():
        found = task.found(read)
        for name in recipes() if indexed in ("reflection", KEPT) else ("BM25", DEFAULT_RECIPE):
            row(indexed, name, task.precision(found, ranked_by(recipes()[name])))
        if indexed == "reflection":
            apart = [[_own_cosines(sources) for sources in answers] for answers in found]
            row(indexed, f"{DEFAULT_RECIPE}, cosines of word matches not at hand", task.precision(apart, ranked_by(best)))
        row(indexed, f"{DEFAULT_RECIPE} + walk", task.precision(found, walked_by(best)))
    return rows


def _own_cosines(sources: Sources) -> Sources:
    """What the episode store gives: a cosine for what the vectors found, the least of them for what only words found."""
    near = dict(sorted(sources["dense"].items(), key=lambda hit: (-hit[1], hit[0]))[:DEPTH])
    least = min(near.values(), default=0.0)
    return {"dense": dict.fromkeys(sources["lexical"], least) | near, "lexical": sources["lexical"]}


def write(name: str, rows: Sequence[str]) -> None:
    """Put a table between its marks in the page."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, _, rest = PAGE.read_text().partition(begin)
    _, _, after = rest.partition(end)
    if not after:
        raise SystemExit(f"{PAGE} has no marks for {name}")
    PAGE.write_text(before + begin + "\n".join(rows) + "\n" + end + after)


def main() -> None:
    """Print every table; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/recall.md")
    parser.add_argument("--previous", action="store_true", help="only what the previous episode as context is worth")
    arguments = parser.parse_args()
    embedder = open_embedder()
    if arguments.previous:
        found = previous_table(embedder)
        if arguments.write:
            write("previous", found)
        return
    tables = {"hotpotqa": hotpot_table(embedder), "desk": desk_table(embedder)}
    if arguments.write:
        for name, rows in tables.items():
            write(name, rows)


if __name__ == "__main__":
    main()
