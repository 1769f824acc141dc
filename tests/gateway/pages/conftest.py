"""One furnished brain and its pages for the module's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from gateway.keys import Tier
from gateway.pages.app import create_pages
from gateway.pages.facts import Facts, SettingFact, StageFact
from tests.support.gateway import Brain, running_brain
from tests.support.pages import furnish

FACTS = Facts(
    settings=lambda: (SettingFact("data_dir", "data", "default", "folder where everything is kept"),),
    stages=lambda: (StageFact("embed", 40, 38, 1, 1, 7),),
)
SignIn = Callable[[Tier], TestClient]


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    folder: Path = tmp_path_factory.mktemp("brain")
    with running_brain(folder) as running:
        yield running


@pytest.fixture(scope="module")
def ids(brain: Brain) -> dict[str, str]:
    return furnish(brain)


@pytest.fixture(scope="module")
def pages(brain: Brain) -> Starlette:
    return create_pages(brain.service, brain.keys, FACTS, rate=10_000, burst=10_000)


@pytest.fixture(scope="module")
def signed_in(brain: Brain, pages: Starlette, ids: dict[str, str]) -> SignIn:
    """A browser of each tier, signed in."""
    keys = {tier: brain.key(f"{tier}-visitor", tier) for tier in Tier}

    def sign_in(tier: Tier) -> TestClient:
        client = TestClient(pages, raise_server_exceptions=False)
        assert client.post("/sign-in", data={"key": keys[tier]}).status_code == 200
        return client

    return sign_in
