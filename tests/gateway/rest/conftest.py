"""One brain and one API for the module's tests: what they write has names of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from gateway.keys import Tier
from gateway.rest.app import Limits, create_app
from tests.support.gateway import Brain, running_brain


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    folder: Path = tmp_path_factory.mktemp("brain")
    with running_brain(folder) as running:
        yield running


@pytest.fixture(scope="module")
def client(brain: Brain) -> Iterator[TestClient]:
    app = create_app(brain.service, brain.keys, Limits(rate=10_000, burst=10_000, body_bytes=500_000))
    with TestClient(app, raise_server_exceptions=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def keys(brain: Brain) -> dict[str, dict[str, str]]:
    """Headers by tier."""
    return {str(tier): {"authorization": f"Bearer {brain.key(f'{tier}-key', tier)}"} for tier in Tier}
