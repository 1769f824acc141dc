"""The doctor: each thing that can be wrong, looked at, with what to do about it."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

from gateway.composition import layout
from schemas.errors import BrainError
from schemas.settings import Settings

PACKAGES = ("apsw", "lancedb", "onnxruntime", "pydantic", "river", "sqlite-vec", "tokenizers")

ON_KAFKA = ("aiokafka", "faust-streaming")


@dataclass(frozen=True, slots=True)
class Finding:
    """One check and its outcome."""

    name: str
    ok: bool
    detail: str
    hint: str | None = None


def examine(settings: Settings) -> Iterator[Finding]:
    """Every check, in the order in which they build on each other; a check that raises is a finding, not an end."""
    checks: tuple[tuple[str, Callable[[Settings], str]], ...] = (
        ("python", _python),
        ("packages", _packages),
        ("data", _data),
        ("model", _model),
        ("sqlite", _sqlite),
        ("log", _log),
        ("insights", _insights),
        ("episodes", _episodes),
    )
    for name, check in checks:
        try:
            yield Finding(name, True, check(settings))
        except BrainError as error:
            yield Finding(name, False, str(error), error.hint)
        except Exception as error:
            yield Finding(name, False, f"{type(error).__name__}: {error}")


def _python(_: Settings) -> str:
    return f"{platform.python_implementation()} {platform.python_version()}"


def _packages(settings: Settings) -> str:
    return ", ".join(f"{name} {version(name)}" for name in (*PACKAGES, *(ON_KAFKA if settings.on_kafka else ())))


def _data(settings: Settings) -> str:
    root = settings.data_dir
    if not root.exists():
        return f"{root} is not there yet; it is made when first written"
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        raise BrainError(f"{root} cannot be read and written", hint="correct the folder's owner or mode")
    return f"{root} can be read and written"


def _model(settings: Settings) -> str:
    from stores.embedding import find_model

    files = find_model(settings.model_dir)
    return f"{files.model_id(settings.model_dimension)}, files verified"


def _sqlite(_: Settings) -> str:
    from stores.sqlite.connection import describe_backend

    return describe_backend()


def _log(settings: Settings) -> str:
    from gateway.composition import open_log

    if settings.on_kafka:
        return _cluster(settings)
    if not settings.log_path.is_file():
        return f"{settings.log_path} is not there yet"
    with open_log(settings) as log:
        log.check()
        waiting = sum(lag.records for lag in log.lags() if lag.kind == "stage")
        return f"{settings.log_path} is sound, {waiting} records wait for a stage"


def _cluster(settings: Settings) -> str:
    import asyncio

    from gateway.kafka import open_any_log, pipeline_lags
    from streams.kafka.topics import check_topics

    with open_any_log(settings):
        findings = asyncio.run(check_topics(settings))
        if findings:
            told = "; ".join(f"{one.topic} {one.problem}" for one in findings)
            raise BrainError(f"{settings.broker}: {told}", hint="defi-brain topics apply corrects settings of topics")
        waiting = sum(lag.records for lag in pipeline_lags(settings))
        return f"{settings.broker} answers, its topics are as they should be, {waiting} records wait for a worker"


def _insights(settings: Settings) -> str:
    from stores.sqlite import InsightStore

    path = layout(settings).insights
    if not path.is_file():
        return f"{path} is not there yet"
    with InsightStore.open(path) as store:
        insights, signals = store.counts()
        return f"{insights} insights, {signals} signals"


def _episodes(settings: Settings) -> str:
    from stores.episodes import EpisodeStore

    path = layout(settings).episodes
    if not path.is_dir():
        return f"{path} is not there yet"
    with EpisodeStore.open(path) as store:
        return f"{store.count()} episodes"
