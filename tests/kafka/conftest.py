"""One broker for the session, new topics for each test that asks for ``kafka``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.settings import Settings
from tests.support.kafka import any_broker, fresh_topics, settings_for


@pytest.fixture(scope="session")
def broker_address() -> Iterator[str]:
    """``HOST:PORT`` of a broker that nobody kills."""
    with any_broker() as address:
        yield address


@pytest.fixture
def kafka(broker_address: str, tmp_path: Path) -> Settings:
    """Settings of a cluster with empty topics."""
    settings = settings_for(broker_address, tmp_path)
    fresh_topics(settings)
    return settings
