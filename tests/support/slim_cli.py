"""The command line with an embedder that needs no model: for tests that start it as a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import gateway.brain
import gateway.composition
from gateway.cli import main
from schemas.settings import Settings
from tests.support.gateway import WordEmbedder


@contextmanager
def slim(settings: Settings) -> Iterator[WordEmbedder]:
    """In the place of the model."""
    yield WordEmbedder()


gateway.composition.open_embedder = slim  # type: ignore[assignment]
gateway.brain.open_embedder = slim  # type: ignore[assignment]

if __name__ == "__main__":
    main()
