"""Says how well the judge of results judges, through the stores, and fits it again: ``python -m bench.grading [--write]``.

Labelled without a judge: a result is right if one of its first five is relevant. Questions with an answer are HotpotQA's and those
about simulated desks; questions without one are the same with every relevant memory taken out — what is left is as near as can be —
and each task's questions put to the other's memories. A question's copies stay together: it is never judged by a fit that saw it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench import desk, hotpot
from bench.retrieval import open_embedder, write
from bench.twohop import fill, notes
from gateway.organiser import organise
from schemas.topics import EPISODES_RECORDED
from stores.embedding.cache import CachedEmbedder
from stores.episodes import WritableEpisodeStore
from stores.episodes.store import MAX_HITS
from stores.recall.grading import CORRECT_FROM, INCORRECT_BELOW, INTERCEPT, SIGNALS, WEIGHTS, Signals
from stores.recall.live import LiveInsights
from stores.recall.recall import Recall
from stores.recall.sources import Candidate, Found, Question, Source
from stores.recall.stored import EpisodeSource
from stores.recall.tuning import RecallTuning
from stores.sqlite import Link, WritableInsightStore
from workers.stage import Position

NOW = datetime(2025, 3, 1, tzinfo=UTC)
JUDGING = RecallTuning(grading=True)
FOLDS = 5
RIDGE = 1.0
PRECISION = 0.85
"""What ``correct`` promises: this share of the results called so are."""
LOST = 0.025
"""The share of answered questions that ``incorrect`` may cost."""

Row = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """A question put to a set of memories, and whether what came was right. ``group`` is the question."""

    part: str
    group: str
    signals: Signals
    right: bool


class _Without:
    """A source that hides some memories."""

    def __init__(self, inner: Source) -> None:
        self._inner = inner
        self.hidden: frozenset[str] = frozenset()

    def find(self, question: Question) -> Found:
        """As many as asked for of those that are not hidden."""
        found = self._inner.find(replace(question, depth=min(MAX_HITS, question.depth + len(self.hidden))))
        kept = [one for one in found.candidates if one.memory.id not in self.hidden]
        near = {one.memory.id for one in sorted(kept, key=lambda one: -(one.cosine or -1.0))[: question.depth]}
        told = {one.memory.id for one in sorted(kept, key=lambda one: -(one.lexical or -1.0))[: question.depth]}
        return Found(tuple(one for one in kept if one.memory.id in near or (one.lexical is not None and one.memory.id in told)))


class _WithoutInsights(_Without):
    """The same of insights, whose links are walked."""

    def __init__(self, inner: LiveInsights) -> None:
        super().__init__(inner)
        self._insights = inner

    def links(self, insight_ids: Iterable[str]) -> Sequence[Link]:
        """Links between insights that are not hidden."""
        found = self._insights.links(one for one in insight_ids if one not in self.hidden)
        return [link for link in found if not {link.source, link.target} & self.hidden]

    def candidate(self, insight_id: str, question: Question) -> Candidate | None:
        """An insight that is not hidden."""
        return None if insight_id in self.hidden else self._insights.candidate(insight_id, question)


@dataclass(frozen=True, slots=True)
class Task:
    """A store of memories, and questions about them with what is relevant to each."""

    name: str
    source: _Without
    recall: Recall
    questions: tuple[tuple[str, frozenset[str]], ...]


def _hotpot(embedder: CachedEmbedder, store: WritableInsightStore) -> Task:
    pool = hotpot.load()
    fill(store, embedder, notes(pool))
    fill(store, embedder, organise(store, list(store.whole())))
    source = _WithoutInsights(LiveInsights(store, embedder))
    asked = tuple((question.text, frozenset(question.supporting)) for question in pool.questions)
    return Task("HotpotQA", source, Recall(None, source, embedder, JUDGING), asked)


def _desk(embedder: CachedEmbedder, store: WritableEpisodeStore, seed: int) -> Task:
    episodes = desk.episodes(seed)
    vectors = embedder.embed([one.sentence for one in episodes])
    kept = [
        one.model_copy(update={"vector": vector.tobytes(), "model": embedder.model_id})
        for one, vector in zip(episodes, vectors, strict=True)
    ]
    store.record([(Position(EPISODES_RECORDED.name, 0, n), one) for n, one in enumerate(kept)])
    store.compact()
    source = _Without(EpisodeSource(store, mirrored=True))
    asked = tuple((one.text, one.relevant) for one in desk.questions(episodes, seed))
    return Task("desk", source, Recall(source, None, embedder, JUDGING), asked)


def cases(embedder: CachedEmbedder, folder: Path) -> Iterator[Case]:
    """Every labelled case, through stores that are made in a folder."""
    info = (embedder.model_id, embedder.dimension)
    with ExitStack() as stores:
        tasks = [_hotpot(embedder, stores.enter_context(WritableInsightStore.open(folder / "brain.db", info)))]
        for seed in (21, 22):
            kept = stores.enter_context(WritableEpisodeStore.open(folder / f"episodes-{seed}", info))
            tasks.append(_desk(embedder, kept, seed))
        for task in tasks:
            yield from _cases(task, [other for other in tasks if other.name != task.name])


def _cases(task: Task, others: Sequence[Task]) -> Iterator[Case]:
    plain = JUDGING.with_changes(grading=False)
    for text, relevant in task.questions:
        task.source.hidden = frozenset()
        hits = task.recall.recall(text, now=NOW, tuning=plain).hits
        found = task.recall.recall(text, now=NOW).signals
        if found is not None:
            yield Case(f"{task.name}, answer there", text, found, any(hit.id in relevant for hit in hits))
        task.source.hidden = relevant
        found = task.recall.recall(text, now=NOW).signals
        if found is not None:
            yield Case(f"{task.name}, answer taken out", text, found, False)
    task.source.hidden = frozenset()
    for other in others:
        for text, _ in other.questions:
            found = task.recall.recall(text, now=NOW).signals
            if found is not None:
                yield Case(f"questions about {other.name} to {task.name}", text, found, False)


def fit(features: Row, right: Row) -> tuple[float, Row]:
    """Logistic regression by Newton's method, a ridge on standardised weights; intercept and weights in the features' units."""
    mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-9
    design = np.column_stack([np.ones(len(features)), (features - mean) / scale])
    penalty = np.diag([0.0, *[RIDGE] * features.shape[1]])
    weights = np.zeros(design.shape[1])
    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(-design @ weights))
        gradient = design.T @ (right - chance) - penalty @ weights
        curvature = design.T @ (design * (chance * (1.0 - chance))[:, None]) + penalty
        step = np.linalg.solve(curvature, gradient)
        weights += step
        if np.abs(step).max() < 1e-10:
            break
    return float(weights[0] - (weights[1:] * mean / scale).sum()), weights[1:] / scale


def apply(intercept: float, weights: Row, features: Row) -> Row:
    """Probabilities."""
    return np.asarray(1.0 / (1.0 + np.exp(-(intercept + features @ weights))))


def auc(scores: Row, right: Row) -> float:
    """The chance that a right case scores over a wrong one; ties count a half."""
    good, bad = scores[right > 0], scores[right == 0]
    return float(np.mean((good[:, None] > bad[None, :]) + 0.5 * (good[:, None] == bad[None, :])))


def out_of_fold(features: Row, right: Row, groups: Sequence[str]) -> Row:
    """Each case's probability by a fit that did not see its question."""
    names = sorted(set(groups))
    np.random.default_rng(0).shuffle(names)
    fold = {name: place % FOLDS for place, name in enumerate(names)}
    folds = np.array([fold[group] for group in groups])
    chance = np.zeros(len(right))
    for number in range(FOLDS):
        held = folds == number
        chance[held] = apply(*fit(features[~held], right[~held]), features[held])
    return chance


def thresholds(chance: Row, right: Row) -> tuple[float, float]:
    """From where a result is called correct and below which it is withheld; in steps of 0.01."""
    steps = np.arange(0.01, 1.0, 0.01)
    correct = next((step for step in steps if right[chance >= step].mean() >= PRECISION), 0.99)
    incorrect = max((step for step in steps if (chance[right > 0] < step).mean() <= LOST), default=0.01)
    return float(round(correct, 2)), float(round(min(incorrect, correct), 2))


def report(found: Sequence[Case]) -> list[str]:
    """The table of the constants in ``stores/recall/grading.py``; prints what a new fit would put there."""
    features = np.array([astuple(case.signals) for case in found])
    right = np.array([float(case.right) for case in found])
    again = out_of_fold(features, right, [case.group for case in found])
    chance, high, low = apply(INTERCEPT, np.array(WEIGHTS), features), CORRECT_FROM, INCORRECT_BELOW
    rows = ["| signal | AUC alone |", "|---|---|"]
    rows += [
        f"| {name} | {max(auc(column, right), auc(-column, right)):.3f} |" for name, column in zip(SIGNALS, features.T, strict=True)
    ]
    rows += [
        f"| **all, as shipped** | **{auc(chance, right):.3f}** |",
        f"| all, fitted again, out of fold | {auc(again, right):.3f} |",
        "",
    ]
    rows += ["| cases | n | right | called correct | ambiguous | incorrect |", "|---|---|---|---|---|---|"]
    parts = np.array([case.part for case in found])
    for part in dict.fromkeys(parts):
        mine = parts == part
        shares = [
            (chance[mine] >= high).mean(),
            ((chance[mine] < high) & (chance[mine] >= low)).mean(),
            (chance[mine] < low).mean(),
        ]
        rows.append(
            f"| {part} | {mine.sum()} | {right[mine].mean():.0%} | " + " | ".join(f"{share:.0%}" for share in shares) + " |"
        )
    called, withheld = chance >= high, chance < low
    rows += [
        "",
        f"Of what is called correct {right[called].mean():.0%} is; of what is withheld {right[withheld].mean():.1%} was right.",
    ]
    rows.append(
        f"Brier score {np.mean((chance - right) ** 2):.3f}; fitted again, out of fold, {np.mean((again - right) ** 2):.3f}; "
        f"always saying the base rate {right.mean() * (1 - right.mean()):.3f}."
    )
    intercept, weights = fit(features, right)
    print(f"INTERCEPT = {intercept:.2f}\nWEIGHTS = ({', '.join(f'{weight:.2f}' for weight in weights)})")
    print("CORRECT_FROM = {}\nINCORRECT_BELOW = {}".format(*thresholds(again, right)))
    print("with the shipped weights: CORRECT_FROM = {}, INCORRECT_BELOW = {}".format(*thresholds(chance, right)))
    return rows


def main() -> None:
    """Print the table and the constants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/recall.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = report(list(cases(open_embedder(), Path(name))))
    print("\n".join(rows))
    if arguments.write:
        write("grading", rows)


if __name__ == "__main__":
    main()
