"""Two-hop questions through the real stores: HotpotQA's 1,000 paragraphs as notes, organised, asked with and without the walk.

``python -m bench.twohop [--write]`` writes the paragraphs as an agent would, lets the organiser link them, and asks the 100
questions through ``Recall``. ``--write`` puts the table into ``docs/recall.md``.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from bench import hotpot
from bench.retrieval import open_embedder, write
from gateway.organiser import organise
from schemas.operations import RememberNote
from schemas.topics import OPERATIONS
from stores.embedding.cache import CachedEmbedder
from stores.recall.live import LiveInsights
from stores.recall.recall import Recall
from stores.recall.tuning import RecallTuning
from stores.sqlite import WritableInsightStore
from streams.stages.writer import InsightWriter
from workers.ledger import Operation
from workers.stage import Delivery, Position

START = datetime(2026, 1, 1, tzinfo=UTC)
PLAIN = RecallTuning(max_results=50, boost_recent=False, grading=False, graph=False)
_LONGEST = 2_000


def notes(pool: hotpot.Pool) -> list[RememberNote]:
    """Each paragraph as a note under its title."""
    return [
        RememberNote(
            op_id=f"note {title}", insight_id=title, ts=START + timedelta(seconds=n), author="bench", reason="",
            text=text[:_LONGEST], importance=0.5,
        )
        for n, (title, text) in enumerate(pool.paragraphs.items())
    ]  # fmt: skip


def fill(store: WritableInsightStore, embedder: CachedEmbedder, operations: Sequence[Operation]) -> None:
    """Through the writer, after what is there."""
    first = store.next_offset(OPERATIONS.name, 0)
    placed = [Delivery(Position(OPERATIONS.name, 0, first + n), b"", one, 0) for n, one in enumerate(operations)]
    writer = InsightWriter(store, embedder)
    for start in range(0, len(placed), 256):
        refused = writer.handle(placed[start : start + 256]).refusals
        if refused:
            raise SystemExit(f"{len(refused)} records were refused: {refused[0].reason}, {refused[0].detail}")


def table(folder: Path, embedder: CachedEmbedder) -> list[str]:
    """Recall of supporting paragraphs."""
    pool = hotpot.load()
    rows = ["| asked through the stores | R@2 | R@5 | R@10 | both@5 |", "|---|---|---|---|---|"]
    with WritableInsightStore.open(folder / "brain.db", (embedder.model_id, embedder.dimension)) as store:
        fill(store, embedder, notes(pool))
        live = LiveInsights(store, embedder)
        recall = Recall(None, live, embedder, PLAIN)

        def row(name: str, tuning: RecallTuning) -> None:
            rows.append(f"| {name} | {_found(recall, pool, tuning)} |")
            print(rows[-1], flush=True)

        row("plain", PLAIN)
        row("walk, nothing organised", PLAIN.with_changes(graph=True))
        fill(store, embedder, organise(store, list(store.whole())))
        print(f"{sum(store.link_counts().values())} links: {store.link_counts()}")
        row("plain, organised", PLAIN)
        row("walk over the organiser's links", PLAIN.with_changes(graph=True))
    return rows


def _found(recall: Recall, pool: hotpot.Pool, tuning: RecallTuning) -> str:
    got = [[hit.id for hit in recall.recall(one.text, now=START, limit=10, tuning=tuning).hits] for one in pool.questions]
    gold = [set(one.supporting) for one in pool.questions]
    shares = [np.mean([len(want & set(ids[:k])) / len(want) for ids, want in zip(got, gold, strict=True)]) for k in (2, 5, 10)]
    both = np.mean([want <= set(ids[:5]) for ids, want in zip(got, gold, strict=True)])
    return " | ".join([*(f"{share:.3f}" for share in shares), f"{both:.2f}"])


def main() -> None:
    """Print the table; write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into docs/recall.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = table(Path(name), open_embedder())
    if arguments.write:
        write("twohop", rows)


if __name__ == "__main__":
    main()
