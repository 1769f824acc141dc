"""New topics on the shared broker for each test that asks for ``kafka``."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.settings import Settings
from tests.support.kafka import fresh_topics, settings_for, shared_broker


@pytest.fixture
def kafka(tmp_path: Path) -> Settings:
    """Settings of a cluster with empty topics."""
    settings = settings_for(shared_broker(), tmp_path)
    fresh_topics(settings)
    return settings
