"""Waiting for what another process or thread has to bring about."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable


def until(
    condition: Callable[[], bool],
    what: str = "it came to that",
    timeout_s: float = 90.0,
    *,
    living: subprocess.Popen[bytes] | None = None,
) -> None:
    """Wait until the condition holds; fail where it never does, or where the process that it depends on has ended."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert living is None or living.poll() is None, f"the process ended before {what}"
        assert time.monotonic() < deadline, f"in {timeout_s:.0f} s it never came true that {what}"
        time.sleep(0.05)
