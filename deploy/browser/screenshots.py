"""Pictures of the operator's pages for the docs: ``python -m deploy.browser.screenshots --data-dir DIR``.

Serves the folder on loopback with a key made for the occasion and revoked afterwards, and has Chromium look at it.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from gateway.brain import open_service, utc_now
from gateway.composition import layout
from gateway.keys import KeyStore, Tier
from gateway.pages.app import create_pages
from gateway.pages.wiring import facts_of
from gateway.service import BrainService
from gateway.settings import load_settings
from schemas.errors import BrainError
from stores.sqlite import InsightFilter

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
NAME = "operator"


def main(arguments: Sequence[str] | None = None) -> int:
    """Make them; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--into", type=Path, default=IMAGES)
    given = parser.parse_args(arguments)
    given.into.mkdir(parents=True, exist_ok=True)
    try:
        with _served(given.data_dir) as (url, key, insight):
            for name in _shoot(url, key, insight, given.into):
                sys.stdout.write(f"{name}\n")
    except BrainError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


@contextmanager
def _served(data_dir: str) -> Iterator[tuple[str, str, str]]:
    """The address, a key, and the insight that has changed most."""
    arguments = {"data_dir": data_dir}
    settings = load_settings(**arguments)
    with ExitStack() as stack:
        service = stack.enter_context(open_service(settings, pipeline=False))
        keys = stack.enter_context(KeyStore(layout(settings).keys))
        made, secret = keys.create(NAME, Tier.FEEDBACK, utc_now())
        stack.callback(lambda: keys.revoke(made.id, utc_now()))
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        config = uvicorn.Config(create_pages(service, keys, facts_of(settings, service.log, arguments)), log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", secret, _liveliest(service, made.caller)
        finally:
            server.should_exit = True
            thread.join()


def _liveliest(service: BrainService, caller: Any) -> str:
    found = service.insights(caller, InsightFilter(), limit=1000).items
    if not found:
        raise BrainError("there is no insight to show")
    return max(found, key=lambda one: (one.claim is not None, one.revision, one.downvotes)).id


def _shoot(url: str, key: str, insight: str, into: Path) -> Iterator[Path]:
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise BrainError("there is no chromium (hint: deploy/browser/install)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, address, size, scheme in (
            ("overview", "/", WIDE, "light"),
            ("insights", "/insights", WIDE, "light"),
            ("insight", f"/insights/{insight}", WIDE, "light"),
            ("signals", "/signals", WIDE, "dark"),
            ("review-narrow", "/review", NARROW, "dark"),
        ):
            page = browser.new_context(base_url=url, viewport=size, color_scheme=scheme).new_page()
            page.goto("/sign-in")
            page.get_by_label("API key").fill(key)
            page.get_by_role("button", name="Sign in").click()
            page.goto(address)
            target = into / f"{name}.png"
            page.screenshot(path=target)
            page.context.close()
            yield target
        browser.close()


if __name__ == "__main__":
    raise SystemExit(main())
