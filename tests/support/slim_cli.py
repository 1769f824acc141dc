"""The command line with an embedder that needs no model: as a process (``python -m``), or for a while in this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import gateway.brain
import gateway.composition
from gateway.cli import main
from schemas.settings import Settings
from tests.support.gateway import WordEmbedder


@contextmanager
def slim(settings: Settings) -> Iterator[WordEmbedder]:
    """In the place of the model."""
    yield WordEmbedder()


@contextmanager
def installed() -> Iterator[None]:
    """Commands that run inside use it."""
    with patch.object(gateway.composition, "open_embedder", slim), patch.object(gateway.brain, "open_embedder", slim):
        yield


if __name__ == "__main__":
    with installed():
        main()
