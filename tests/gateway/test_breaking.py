"""The breaker at work, for sync and async callers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gateway.breaking import Breaker, CircuitOpen, TookTooLong
from workers.breakers.call import Phase, Rules


class Now:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def failing() -> int:
    raise OSError("down")


def breaker(now: Now | None = None, **rules: float) -> Breaker:
    return Breaker("thing", Rules(**rules), clock=now or Now(), innocent=(KeyError,))  # type: ignore[arg-type]


def test_a_call_returns_raises_and_falls_back() -> None:
    one = breaker()
    assert one.call(lambda: 7) == 7
    with pytest.raises(OSError, match="down"):
        one.call(failing)
    assert one.call(failing, lambda error: -1) == -1
    assert one.seen().counted == {"ok": 1, "failed": 2}


def test_it_opens_refuses_probes_and_closes() -> None:
    now = Now()
    one = breaker(now)
    for _ in range(5):
        assert one.call(failing, lambda error: 0) == 0
    seen = one.seen()
    assert (seen.phase, seen.opened, seen.retry_in_s) == (Phase.OPEN, 1, 30.0)
    called = []
    with pytest.raises(CircuitOpen) as raised:
        one.call(lambda: called.append(1))
    assert raised.value.retry_in_s == 30.0
    assert not called
    now.seconds = 30.0
    assert one.call(lambda: 1) == 1
    assert one.seen().phase is Phase.CLOSED


def test_an_innocent_error_is_an_answer() -> None:
    one = breaker()
    for _ in range(6):
        with pytest.raises(KeyError):
            one.call(lambda: {}["x"])
    assert one.seen().phase is Phase.CLOSED


def test_a_call_that_hangs_is_left_to_itself() -> None:
    release = threading.Event()
    one = breaker(timeout_s=0.05)
    with pytest.raises(TookTooLong):
        one.call(release.wait)
    release.set()
    assert one.seen().counted == {"timeout": 1}


def test_only_one_probe_is_out_however_many_ask() -> None:
    now = Now()
    one = breaker(now)
    for _ in range(5):
        one.call(failing, lambda error: 0)
    now.seconds = 31.0
    entered, release, refused = threading.Event(), threading.Event(), []

    def probe() -> bool:
        entered.set()
        return release.wait(5)

    thread = threading.Thread(target=one.call, args=(probe,))
    thread.start()
    assert entered.wait(5)
    for _ in range(3):
        one.call(lambda: 1, lambda error: refused.append(type(error)))
    release.set()
    thread.join()
    assert refused == [CircuitOpen] * 3
    assert one.seen().phase is Phase.CLOSED


def test_coroutines() -> None:
    async def run() -> None:
        one = breaker(timeout_s=0.05)

        async def good() -> int:
            return 3

        async def bad() -> int:
            raise OSError("down")

        async def own_timeout() -> int:
            raise TimeoutError("its own")

        assert await one.acall(good) == 3
        assert await one.acall(bad, lambda error: 4) == 4
        with pytest.raises(TimeoutError, match="its own"):
            await one.acall(own_timeout)
        with pytest.raises(TookTooLong):
            await one.acall(lambda: asyncio.Event().wait())
        assert one.seen().counted == {"ok": 1, "failed": 2, "timeout": 1}
        task = asyncio.ensure_future(one.acall(lambda: asyncio.Event().wait()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert one.seen().counted["abandoned"] == 1

    asyncio.run(run())
