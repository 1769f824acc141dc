"""Data folders that a model can be asked about."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.taught import Brain, open_brain, teach


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled folder, made once."""
    folder: Path = tmp_path_factory.mktemp("taught")
    teach(folder)
    return folder


@pytest.fixture
def brain(taught: Path, tmp_path: Path) -> Iterator[Brain]:
    """A copy of it, at work."""
    shutil.copytree(taught, tmp_path / "data")
    with open_brain(tmp_path / "data") as opened:
        yield opened
