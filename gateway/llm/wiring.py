"""The composition of a model: settings in; an asker, a proposer, and rounds in the background out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from random import Random
from typing import Protocol

from gateway.breaking import Breaker
from gateway.composition import open_episodes, open_insights
from gateway.llm.asker import Asker, Budget
from gateway.llm.history import History
from gateway.llm.openai import OpenAICompatible
from gateway.llm.port import LanguageModel, ModelRefused
from gateway.llm.propose import Proposer, Round
from schemas.errors import BrainError
from schemas.settings import Settings
from streams.log import LogAppender, LogReader
from workers.breakers.call import Rules

LOGGER = logging.getLogger(__name__)
NAME = "language model"
NO_MODEL = "set DEFI_BRAIN_LLM_URL to an OpenAI-compatible endpoint; nothing needs one"


class AnyLog(LogAppender, LogReader, Protocol):
    """What a model's composition needs of a log."""


def utc_now() -> datetime:
    """The wall clock: it dates what is said, and decides nothing."""
    return datetime.now(UTC)


def model_breaker(settings: Settings) -> Breaker:
    """The circuit around the model's endpoint: the specification's numbers, and the settings' time limit."""
    return Breaker(NAME, Rules(timeout_s=settings.llm_timeout_s), innocent=(ModelRefused,))


@contextmanager
def open_model(settings: Settings) -> Iterator[OpenAICompatible]:
    """The endpoint of the settings.

    Raises:
        BrainError: there is none, or httpx is missing.
    """
    if not settings.llm_url:
        raise BrainError("there is no language model", hint=NO_MODEL)
    model = OpenAICompatible(
        settings.llm_url,
        settings.llm_model,
        key_file=settings.llm_key_file,
        format=settings.llm_format,
        timeout_s=settings.llm_timeout_s,
    )
    try:
        yield model
    finally:
        model.close()


def make_asker(
    settings: Settings,
    model: LanguageModel,
    history: History,
    breaker: Breaker,
    *,
    clock: Callable[[], datetime] = utc_now,
    sleep: Callable[[float], object] = time.sleep,
) -> Asker:
    """An asker with the budget that the log says is left."""
    history.refresh()
    return Asker(
        model,
        breaker,
        Budget(settings.llm_tokens_per_hour, history.spent),
        clock=clock,
        retries=settings.llm_retries,
        max_tokens=settings.llm_max_tokens,
        sleep=sleep,
        random=Random(),  # noqa: S311 - jitter
    )


@contextmanager
def open_proposer(
    settings: Settings, log: AnyLog, breaker: Breaker | None = None, model: LanguageModel | None = None
) -> Iterator[Proposer]:
    """A proposer over the stores of the data folder.

    Raises:
        BrainError: there is no model, or there are no stores yet.
    """
    with ExitStack() as stack:
        asked = model if model is not None else stack.enter_context(open_model(settings))
        episodes = stack.enter_context(open_episodes(settings))
        insights = stack.enter_context(open_insights(settings))
        history = History(log)
        asker = make_asker(settings, asked, history, breaker or model_breaker(settings))
        yield Proposer(
            asker,
            log,
            episodes,
            insights,
            history,
            q=settings.llm_fdr,
            limit=settings.evidence_limit,
            summary_chars=settings.llm_summary_chars,
        )


class Rounds:
    """Rounds of proposals in a thread of their own, every ``llm_every_s``. Whatever fails is logged and tried again then."""

    def __init__(self, settings: Settings, log: AnyLog, breaker: Breaker) -> None:
        self._settings = settings
        self._log = log
        self._breaker = breaker
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proposals", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._settings.llm_every_s):
            try:
                done = self.once()
                LOGGER.info("a round of proposals: %d answers, %d operations", len(done.said), len(done.operations))
            except Exception as error:  # the pipeline goes on without a model, whatever it was
                LOGGER.warning("no round of proposals: %s: %s", type(error).__name__, error)

    def once(self) -> Round:
        """One round now.

        Raises:
            BrainError: there is nothing to ask about yet, or nobody to ask.
        """
        with open_proposer(self._settings, self._log, self._breaker) as proposer:
            return proposer.round()

    def stop(self) -> None:
        """End it. A question that is out is not waited for: it holds nothing."""
        self._stop.set()
        self._thread.join(timeout=1.0)


@contextmanager
def rounds(settings: Settings, log: AnyLog, breaker: Breaker | None = None) -> Iterator[Rounds | None]:
    """Rounds in the background within the block, where the settings name a model."""
    if not settings.llm_url:
        yield None
        return
    running = Rounds(settings, log, breaker or model_breaker(settings))
    try:
        yield running
    finally:
        running.stop()
