"""One Prometheus for each module of tests that watch something with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.prometheus import Watcher


@pytest.fixture(scope="module")
def watcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watcher]:
    one = Watcher(tmp_path_factory.mktemp("prometheus"))
    yield one
    one.prometheus.close()
