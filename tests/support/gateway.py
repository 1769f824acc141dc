"""A small brain at work for tests of the gateway: a log, both stores, every stage in a thread, an embedder without a model."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gateway.composition import Layout, open_sinks, stage_slots
from gateway.keys import ApiKey, Caller, KeyStore, Tier
from gateway.llm.service import Bounds
from gateway.ranking import LearnedRanking
from gateway.service import BrainService
from schemas.settings import Settings
from stores.episodes import EpisodeStore
from stores.recall.live import LiveInsights
from stores.recall.recall import Recall
from stores.recall.regimes import Regimes
from stores.recall.stored import EpisodeSource
from stores.sqlite import InsightStore
from streams.embedded.driver import EmbeddedDriver
from streams.embedded.log import EmbeddedLog
from streams.publisher import Publisher
from tests.support.sqlite import START, HashEmbedder, at
from workers.ports import Vectors

READER = Caller("reader", Tier.READ)
AGENT = Caller("agent", Tier.FEEDBACK)
OTHER = Caller("other", Tier.FEEDBACK)
ADMIN = Caller("admin", Tier.ADMIN)
WAIT = 20.0


class WordEmbedder(HashEmbedder):
    """Vectors that are near where words are shared: the sum of the words' own vectors."""

    def __init__(self) -> None:
        super().__init__("word-vectors", 64)

    def vector(self, text: str) -> Vectors:
        words = ["", *(word.strip(".,!?") for word in text.lower().split())]
        total = sum((super(WordEmbedder, self).vector(word) for word in words), start=super().vector("") * 0)
        row: Vectors = total / float((total @ total) ** 0.5)
        return row

    def embed_query(self, texts: Any) -> Vectors:
        return self.embed(texts)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **by: float) -> None:
        """Move it on."""
        self.now += timedelta(**by)


@dataclass(frozen=True)
class Brain:
    """The parts that tests touch."""

    service: BrainService
    log: EmbeddedLog
    insights: InsightStore
    clock: Clock
    keys: KeyStore
    folder: Path

    def key(self, name: str, tier: Tier) -> str:
        """A new key's text."""
        made: tuple[ApiKey, str] = self.keys.create(name, tier, START)
        return made[1]

    def publish(self, *messages: Any) -> None:
        """Publish operations or executions and wait until the writer has read all operations."""
        Publisher(self.log).publish_many(messages)
        self.settle()

    def settle(self) -> None:
        """Wait until every stage has read what is in the log, and what changed is announced."""
        while True:
            seen = self.log.changes()
            if not sum(lag.records for lag in self.log.lags() if lag.kind == "stage") and not self.insights.stats().outbox:
                return
            self.log.wait(seen, 0.25)


@contextmanager
def running_brain(folder: Path, *, works: bool = True, **more: Any) -> Iterator[Brain]:
    """A brain at work in a folder; or one whose stages stand still, so that nothing that is written is applied.

    ``more`` are settings that differ from the defaults.
    """
    settings = Settings(data_dir=folder, window_min_episodes=50, **more)
    where = Layout(folder)
    embedder = WordEmbedder()
    clock = Clock(at(24 * 365))
    with ExitStack() as stack:
        log = stack.enter_context(EmbeddedLog(folder / "log.db", clock_ms=lambda: int(clock().timestamp() * 1000)))
        sinks = stack.enter_context(open_sinks(where, embedder))
        driver = stack.enter_context(EmbeddedDriver(log, stage_slots(settings, embedder, sinks)))
        stop = threading.Event()
        thread = threading.Thread(target=driver.run, args=(stop,))

        def end() -> None:
            stop.set()
            thread.join()

        if works:
            thread.start()
            stack.callback(end)
        insights = stack.enter_context(InsightStore.open(where.insights))
        episodes = stack.enter_context(EpisodeStore.open(where.episodes))
        keys = stack.enter_context(KeyStore(where.keys))
        recall = Recall(
            EpisodeSource(episodes, mirrored=True),
            LiveInsights(insights, embedder),
            embedder,
            regimes=Regimes(insights),
            preference=LearnedRanking(insights, episodes),
        )
        service = BrainService(
            log=log, insights=insights, episodes=episodes, recall=recall, embedder=embedder, clock=clock, pipeline=lambda: "here",
            bounds=Bounds.of(settings),
        )  # fmt: skip
        yield Brain(service, log, insights, clock, keys, folder)
