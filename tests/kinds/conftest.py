"""One brain for all kinds: a log, SQLite, LanceDB, every stage at work. Each test writes of an animal of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Brain, running_brain


@pytest.fixture(scope="package")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    folder: Path = tmp_path_factory.mktemp("brain")
    with running_brain(folder) as running:
        yield running
