"""A real browser on real pages: Chromium over a furnished brain behind a real server.

Where Playwright or Chromium is missing the tests are skipped with one line, except in CI, where they fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.keys import Tier
from gateway.pages.app import create_pages
from gateway.pages.facts import Facts, SettingFact, StageFact
from tests.support.gateway import Brain, running_brain
from tests.support.pages import furnish
from tests.support.serving import served

FACTS = Facts(
    settings=lambda: (SettingFact("data_dir", "data", "default", "folder where everything is kept"),),
    stages=lambda: (StageFact("embed", 40, 38, 1, 1, 7), StageFact("writer", 20, 20, 0, 0, 0)),
)
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
Visit = Callable[..., Any]


def unavailable(reason: str) -> None:
    """Skip the test, or fail it in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"no browser: {reason}", pytrace=False)
    pytest.skip(f"no browser: {reason}")


@pytest.fixture(scope="module")  # Playwright's loop runs while it is open, and asyncio.run fails beside it
def chromium() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable("Playwright is not installed (make install-dev)")
    path = os.environ.get("DEFI_BRAIN_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        unavailable("there is no chromium (deploy/browser/install)")
    with sync_playwright() as playwright:
        # No sandbox: tests may run as root in a container, and the pages are our own.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory, chromium: Any) -> Iterator[Brain]:
    folder: Path = tmp_path_factory.mktemp("brain")
    with running_brain(folder) as running:
        yield running


@pytest.fixture(scope="module")
def ids(brain: Brain) -> dict[str, str]:
    return furnish(brain)


@pytest.fixture(scope="module")
def address(brain: Brain, ids: dict[str, str]) -> Iterator[str]:
    with served(create_pages(brain.service, brain.keys, FACTS, rate=10_000, burst=10_000)) as url:
        yield url


@pytest.fixture(scope="module")
def keys(brain: Brain) -> dict[Tier, str]:
    return {tier: brain.key(f"{tier}-browser", tier) for tier in Tier}


@pytest.fixture
def visit(chromium: Any, address: str, keys: dict[Tier, str]) -> Iterator[Visit]:
    """A signed-in page of a tier; at the end nothing may have been written to the console as an error."""
    opened: list[Any] = []
    problems: list[str] = []

    def open_page(tier: Tier | None = Tier.FEEDBACK, path: str = "/", **options: Any) -> Any:
        context = chromium.new_context(base_url=address, **({"viewport": WIDE} | options))
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        if tier is None:
            page.goto(path)
        else:
            page.goto("/sign-in")
            page.get_by_label("API key").fill(keys[tier])
            page.get_by_role("button", name="Sign in").click()
            page.goto(path)
        return page

    yield open_page
    for context in opened:
        context.close()
    expected = ("status of 4",)  # a page that is an error is told to the console by the browser itself
    assert [one for one in problems if not any(known in one for known in expected)] == []
