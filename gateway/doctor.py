"""The doctor: each thing that can be wrong, looked at, with what to do about it."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gateway.composition import breakers_stage, layout
from gateway.settings import config_path, unknown_in_environment
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
        ("settings", _settings),
        ("data", _data),
        ("model", _model),
        ("sqlite", _sqlite),
        ("log", _log),
        ("insights", _insights),
        ("episodes", _episodes),
        ("vectors", _vectors),
        ("keys", _keys),
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
    try:
        return ", ".join(f"{name} {version(name)}" for name in (*PACKAGES, *(ON_KAFKA if settings.on_kafka else ())))
    except PackageNotFoundError as error:
        extra = "[kafka]" if error.name in ON_KAFKA else ""
        raise BrainError(f"{error.name} is not installed", hint=f'pip install "defi-brain{extra}"') from None


def _settings(settings: Settings) -> str:
    """Those that depend on each other, and what is meant to be one and is none."""
    from gateway.brain import recall_tuning

    for name, meant in unknown_in_environment().items():
        raise BrainError(f"{name} in the environment is no setting", hint=meant or "defi-brain config show lists them")
    breakers_stage(settings)
    recall_tuning(settings)
    file = config_path()
    return f"{file if file.is_file() else 'no file'}, arguments and environment fit together"


def _data(settings: Settings) -> str:
    root = settings.data_dir
    there = next(folder for folder in (root, *root.absolute().parents) if folder.exists())
    if not there.is_dir():
        raise BrainError(f"{there} is not a folder", hint="name another one with --data-dir or DEFI_BRAIN_DATA_DIR")
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        raise BrainError(f"{there} cannot be read and written", hint="correct the folder's owner or mode")
    return f"{root} can be read and written" if there == root else f"{root} is not there yet; it is made when first written"


def _model(settings: Settings) -> str:
    """Its files are what they should be, and it turns a sentence into a vector."""
    from stores.embedding import find_model, open_model

    files = find_model(settings.model_dir)
    open_model(settings.model_dir, dimension=settings.model_dimension, threads=1, batch=1).embed(["a large swap"])
    return f"{files.model_id(settings.model_dimension)}, files verified"


def _made_by(settings: Settings) -> tuple[str, int]:
    """The model that the stores' vectors have to be of."""
    from stores.embedding import open_model

    model = open_model(settings.model_dir, dimension=settings.model_dimension)
    return model.model_id, model.dimension


def _sqlite(_: Settings) -> str:
    from stores.sqlite.connection import describe_backend

    return describe_backend()


def _log(settings: Settings) -> str:
    """It can be read, and written: a transaction that holds it for longer than any of ours is found."""
    from gateway.composition import open_log

    if settings.on_kafka:
        return _cluster(settings)
    if not settings.log_path.exists():
        return f"{settings.log_path} is not there yet"
    if not settings.log_path.is_file():
        raise BrainError(f"{settings.log_path} is not a file", hint="move it away, or name another folder with --data-dir")
    with open_log(settings) as log:
        with log.writing():
            pass
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


def _not_there(settings: Settings, path: Path, stage: str) -> str:
    """A store that nothing was written to yet; one that was, and is gone, is a finding. A cluster's is in one folder of several."""
    from gateway.composition import open_log

    if not settings.on_kafka and settings.log_path.is_file():
        try:
            with open_log(settings) as log:
                read = sum(log.stage_offsets(stage).values())
        except BrainError:  # the log's own finding
            read = 0
        if read:
            raise BrainError(
                f"{path} is gone: {read} records were in it", hint="start defi-brain up: it is filled again from the log"
            )
    return f"{path} is not there yet"


def _insights(settings: Settings) -> str:
    """The model in use made them, and nobody holds the file."""
    from stores.sqlite import InsightStore
    from stores.sqlite.connection import open_connection

    path = layout(settings).insights
    if not path.exists():
        return _not_there(settings, path, "writer")
    with InsightStore.open(path, _made_by(settings)) as store:
        insights, signals = store.counts()
    with closing(open_connection(path)) as connection, connection.transaction():
        pass
    return f"{insights} insights, {signals} signals"


def _episodes(settings: Settings) -> str:
    """The model in use made them, and they are found by words: the index is read, too."""
    from stores.episodes import EpisodeStore

    path = layout(settings).episodes
    if not path.exists():
        return _not_there(settings, path, "episodes")
    if not path.is_dir():
        raise BrainError(f"{path} is not a folder", hint="move it away: the pipeline makes the store again from the log")
    with EpisodeStore.open(path, _made_by(settings)) as store:
        store.search_text("swap", limit=1)
        return f"{store.count()} episodes"


def _vectors(settings: Settings) -> str:
    """The cache of vectors, which nothing depends on but speed."""
    from stores.sqlite.connection import open_connection

    path = layout(settings).vectors
    if not path.exists():
        return f"{path} is not there yet"
    try:
        open_connection(path, readonly=True).close()
    except BrainError as error:
        raise BrainError(str(error), hint="it is a cache: delete it while nothing runs") from None
    return f"{path.stat().st_size / 1e6:.1f} MB of cached vectors"


def _keys(settings: Settings) -> str:
    from gateway.keys import KeyStore

    path = layout(settings).keys
    if not path.exists():
        return f"{path} is not there yet: defi-brain keys create NAME makes a key"
    with KeyStore(path) as store:
        return f"{sum(key.revoked is None for key in store.list())} keys in use"
