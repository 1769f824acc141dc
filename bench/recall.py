"""What recall costs: 100,000 episodes and 10,000 insights, in one run on one machine.

``python -m bench.recall [--episodes N] [--insights N] [--queries N] [--folder DIR]`` fills both stores with a simulated desk's
episodes and claims about its markets, and prints medians and 95th percentiles: of recall, with and without the query's embedding
(by the real model), of its parts, and of brute force in numpy beside them; then how resident memory moves over ``--queries`` more
questions. Documents' vectors are drawn, not embedded: what they mean is not measured here. A ``--folder`` is filled once and used
again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt

from bench.episodes import DIMENSION, Drawn
from schemas.claims import Category, Claim, Condition
from schemas.insights import Insight
from schemas.topics import EPISODES_RECORDED
from stores.embedding.onnx import open_model
from stores.episodes import EpisodeStore, WritableEpisodeStore
from stores.episodes.engine import lean_import
from stores.heap import one_arena
from stores.recall.filters import RecallFilters
from stores.recall.live import LiveInsights
from stores.recall.recall import Recall
from stores.recall.sources import Question
from stores.recall.stored import EpisodeSource
from stores.sqlite import InsightStore, WritableInsightStore
from streams.sources.market import simulate
from streams.stages.embed import ReflectEmbed
from streams.stages.episodes import EpisodeSink
from workers.stage import Delivery, Position

BATCH = 1024
NOW = datetime(2026, 6, 1, tzinfo=UTC)
FEATURES = ("size_share", "volatility", "pool_depth_usd", "hour", "gas_gwei", "fee_pips")
METRICS = ("cost_bps", "gas_native", "slippage_bps", "failed")
Vector = npt.NDArray[np.float32]


class Mixed:
    """The real model for questions, drawn vectors for documents."""

    model_id, dimension = Drawn.model_id, DIMENSION

    def __init__(self) -> None:
        self._model, self._drawn = open_model(), Drawn()
        self.embed = self._drawn.embed

    def embed_query(self, texts: Sequence[str]) -> Vector:
        """By the model."""
        return self._model.embed_query(texts)


class Given:
    """A vector that is at hand already: recall without the query's embedding."""

    model_id, dimension = Drawn.model_id, DIMENSION
    embed = Drawn().embed

    def embed_query(self, texts: Sequence[str]) -> Vector:
        """Drawn from the words."""
        return Drawn().embed(texts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill, ask, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--insights", type=int, default=10_000)
    parser.add_argument("--asked", type=int, default=300, help="questions for the latencies")
    parser.add_argument("--queries", type=int, default=0, help="further questions for the resident memory")
    parser.add_argument("--folder", type=Path, help="where the stores are, or are made")
    given = parser.parse_args(arguments)
    one_arena()
    lean_import()
    if given.folder is not None:
        _run(given.folder, given)
        return
    with tempfile.TemporaryDirectory() as name:
        _run(Path(name), given)


def _run(folder: Path, given: argparse.Namespace) -> None:
    _fill(folder, given.episodes, given.insights)
    with EpisodeStore.open(folder / "episodes") as episodes, InsightStore.open(folder / "brain.db") as insights:
        at_hand = Given()
        live = LiveInsights(insights, at_hand)
        source = EpisodeSource(episodes, mirrored=True)
        asked = questions(given.asked)
        vectors = [at_hand.embed_query([text])[0] for text in asked]
        plain = Recall(source, live, at_hand)
        plain.recall(asked[0], now=NOW)
        print(f"{episodes.count()} episodes, {len(live)} insights, {len(asked)} questions; resident {_resident_mb():.0f} MB")
        if given.queries:
            _steady(plain, given.queries)
        model = Mixed()
        whole = Recall(source, live, model)
        steps: dict[str, Callable[[int], object]] = {
            "recall, the question's vector at hand": lambda n: plain.recall(asked[n], now=NOW),
            "recall, embedding included": lambda n: whole.recall(asked[n], now=NOW),
            "recall of one market": lambda n: plain.recall(asked[n], RecallFilters(tool="swap", chain="1"), now=NOW),
            "the question's embedding": lambda n: model.embed_query([asked[n]]),
            "insights, both ways": lambda n: live.find(Question(asked[n], vectors[n], RecallFilters(), 50)),
            "insights, nearest 10": lambda n: live.nearest(vectors[n], 10),
            "episodes, both ways": lambda n: source.find(Question(asked[n], vectors[n], RecallFilters(), 50)),
            "episodes, words": lambda n: episodes.search_text(asked[n], limit=50),
            "episodes, nearest 50": lambda n: episodes.search_vector(vectors[n], limit=50),
        }
        for name, step in steps.items():
            print(_row(name, _times(step, len(asked))), flush=True)
        matrix = np.random.default_rng(1).standard_normal((given.episodes + given.insights, DIMENSION), dtype=np.float32)
        print(_row(f"numpy, brute force over {len(matrix)} vectors", _times(partial(_nearest, matrix, vectors), len(asked))))


def questions(count: int) -> list[str]:
    """Questions about the desk's markets, in several forms."""
    rng = Random(5)
    pairs = ("WETH/USDC", "WBTC/WETH", "USDC/DAI", "ARB/WETH", "USDC/USDT")
    forms = (
        "did a {size} swap of {pair} through router {router} fail?",
        "cost of {pair} on chain {chain} when gas is {size}",
        "recent slippage in {pair}, {size} trades, router {router}",
        "which pool for {pair} at hour {hour}?",
    )
    return [
        rng.choice(forms).format(
            size=rng.choice(("small", "large", "very large", "tiny")), pair=rng.choice(pairs), hour=rng.randrange(24),
            router=rng.choice(("alpha", "beta", "gamma")), chain=rng.choice((1, 10, 42161)),
        )
        for _ in range(count)
    ]  # fmt: skip


def _fill(folder: Path, episodes: int, insights: int) -> None:
    info = (Drawn.model_id, DIMENSION)
    done = folder / "filled"
    if done.exists():
        WritableInsightStore.open(folder / "brain.db", info).close()  # brings an older schema up to date
        return
    folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with WritableEpisodeStore.open(folder / "episodes", info) as store:
        sink = EpisodeSink(store)
        for batch in _batches(episodes):
            sink.handle(batch)
        store.compact()
    with WritableInsightStore.open(folder / "brain.db", info) as into, into.transaction() as transaction:
        for one in _insights(insights):
            transaction.put(one, Drawn().embed([one.text])[0])
    done.touch()
    print(f"filled in {time.perf_counter() - began:.0f} s")


def _batches(count: int) -> Iterator[list[Delivery]]:
    stage, offset = ReflectEmbed(Drawn(), 10**15), 0
    events = iter(simulate(3, count))
    while part := list(islice(events, BATCH)):
        deliveries = [Delivery(Position("market", 0, offset + n), None, event, 0) for n, event in enumerate(part)]
        told = stage.handle(deliveries).emissions
        yield [Delivery(Position(EPISODES_RECORDED.name, 0, offset + n), None, one.message, 0) for n, one in enumerate(told)]
        offset += len(part)


def _insights(count: int) -> Iterator[Insight]:
    rng = Random(9)
    for number in range(count):
        metric, feature = rng.choice(METRICS), rng.choice(FEATURES)
        key, label = f"swap:{rng.choice((1, 10, 42161))}:0x{number % 200:040x}/0x{number % 7:040x}", f"T{number % 200}/USDC"
        claim = Claim(
            key=key,
            metric=metric,
            conditions=(Condition(feature=feature, op=">=", value=round(rng.random(), 4)),),
            direction=rng.choice(("higher", "lower")),
        )
        when = NOW - timedelta(hours=rng.randrange(2000))
        yield Insight(
            id=f"insight-{number:06}",
            text=f"{metric} of {label} is {claim.direction} when {feature} is at least {claim.conditions[0].value}, case {number}",
            category=rng.choice([one for one in Category if one is not Category.OPERATOR_DIRECTIVE]),
            confidence=Decimal(rng.randrange(30, 100)) / 100,
            revision=1,
            key=key,
            label=label,
            claim=claim,
            importance=round(rng.random(), 3),
            created_ts=when,
            validated_ts=when,
            author="bench",
            simulated=True,
        )


def _times(step: Callable[[int], object], count: int) -> list[float]:
    for n in range(min(10, count)):
        step(n)
    found = []
    for n in range(count):
        began = time.perf_counter()
        step(n)
        found.append((time.perf_counter() - began) * 1e3)
    return found


def _row(name: str, found: Sequence[float]) -> str:
    return f"{name:<44}{np.percentile(found, 50):8.2f} ms p50{np.percentile(found, 95):9.2f} ms p95"


def _nearest(matrix: Vector, vectors: Sequence[Vector], n: int) -> list[int]:
    scores = matrix @ vectors[n]
    best = np.argpartition(-scores, 50)[:50]
    return [int(place) for place in best[np.argsort(-scores[best])]]


def _steady(recall: Recall, count: int) -> None:
    """Ask on and on; what is resident at each tenth."""
    asked = questions(1000)
    told: list[str] = []
    for n in range(count):
        recall.recall(asked[n % len(asked)], now=NOW)
        if (n + 1) % max(1, count // 10) == 0:
            told.append(f"{_resident_mb():.0f}")
            print(f"after {n + 1} questions: resident {told[-1]} MB", flush=True)


def _resident_mb() -> float:
    import psutil

    return float(psutil.Process().memory_info().rss) / (1 << 20)


if __name__ == "__main__":
    main()
