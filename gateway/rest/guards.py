"""What stands before every route: the size of a request, the key, the rate."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.keys import Caller, KeyStore, Tier
from gateway.rest.problems import problem
from schemas.errors import BrainError

_BUCKETS = 10_000
BEARER = HTTPBearer(auto_error=False, scheme_name="key", description="`Authorization: Bearer dbk_…`, see `defi-brain keys create`")


class TooMany(BrainError):
    """The caller asks more often than it may. ``wait_s``: when to come again."""

    def __init__(self, wait_s: float) -> None:
        super().__init__("too many requests", hint=f"try again in {wait_s:.1f} s")
        self.wait_s = wait_s


class Unknown(BrainError):
    """No key, or one that is not ours or was revoked."""


class RateLimit:
    """A bucket of ``burst`` requests for each name, filled at ``rate`` a second. Safe to share; keeps the last names only."""

    def __init__(self, rate: float, burst: int, monotonic: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Take a request out of the bucket.

        Raises:
            TooMany: it is empty.
        """
        now = self._monotonic()
        with self._lock:
            level, since = self._buckets.get(name, (float(self._burst), now))
            level = min(float(self._burst), level + (now - since) * self._rate)
            if level < 1.0:
                raise TooMany((1.0 - level) / self._rate)
            self._buckets[name] = (level - 1.0, now)
            self._buckets.move_to_end(name)
            while len(self._buckets) > _BUCKETS:
                self._buckets.popitem(last=False)


class Gatekeeper:
    """Finds out who calls. Attempts without a good key are limited too, by address, so that keys cannot be tried out at speed.

    ``limit`` counts requests, ``messages`` what surrounds them.
    """

    def __init__(self, keys: KeyStore, limit: RateLimit, messages: RateLimit | None = None) -> None:
        self._keys = keys
        self._limit = limit
        self._messages = messages

    def admit(self, text: str | None, address: str) -> Caller:
        """Who calls with this key.

        Raises:
            Unknown: nobody we know.
            TooMany: too often.
        """
        caller = self.known(text, address)
        self.count(caller)
        return caller

    def known(self, text: str | None, address: str) -> Caller:
        """Who calls with this key; nothing is counted but attempts without a good one.

        Raises:
            Unknown: nobody we know.
            TooMany: too many such attempts.
        """
        key = self._keys.verify(text) if text else None
        if key is None:
            self._limit.take(f"address {address}")
            raise Unknown("a valid API key is needed", hint="send Authorization: Bearer KEY; defi-brain keys create makes one")
        return key.caller

    def message(self, caller: Caller) -> None:
        """Count a message of a protocol in which not every message is a request that counts.

        Raises:
            TooMany: too many of them.
        """
        if self._messages is not None:
            self._messages.take(f"key {caller.key_id}")

    def count(self, caller: Caller) -> None:
        """Count a request of somebody known.

        Raises:
            TooMany: too often.
        """
        self._limit.take(f"key {caller.key_id}")

    def still_valid(self, text: str) -> bool:
        """Whether a key has not been revoked since; for long answers."""
        return self._keys.verify(text) is not None


class Door:
    """ASGI middleware: who sends no good key is turned away, and who tries too many is told when to come again."""

    def __init__(self, app: ASGIApp, keeper: Gatekeeper) -> None:
        self._app = app
        self._keeper = keeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "http":
            scheme, _, key = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1").partition(" ")
            address = scope["client"][0] if scope.get("client") else "?"
            try:
                self._keeper.message(self._keeper.known(key.strip() if scheme.lower() == "bearer" else None, address))
            except (Unknown, TooMany) as error:
                await turned_away(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def turned_away(error: Unknown | TooMany) -> JSONResponse:
    """The answer to who is not admitted."""
    if isinstance(error, Unknown):
        return problem(401, "no_key", str(error), hint=error.hint, headers={"www-authenticate": "Bearer"})
    after = {"retry-after": str(max(1, round(error.wait_s + 0.5)))}
    return problem(429, "too_many_requests", str(error), hint=error.hint, headers=after)


def _caller(request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]) -> Caller:
    keeper: Gatekeeper = request.app.state.keeper
    address = request.client.host if request.client else "?"
    return keeper.admit(credentials.credentials if credentials else None, address)


AnyCaller = Annotated[Caller, Depends(_caller)]


def _reader(caller: AnyCaller) -> Caller:
    caller.need(Tier.READ)
    return caller


def _writer(caller: AnyCaller) -> Caller:
    caller.need(Tier.FEEDBACK)
    return caller


def _admin(caller: AnyCaller) -> Caller:
    caller.need(Tier.ADMIN)
    return caller


Reader = Annotated[Caller, Depends(_reader)]
FeedbackCaller = Annotated[Caller, Depends(_writer)]
AdminCaller = Annotated[Caller, Depends(_admin)]


class BodyLimit:
    """ASGI middleware: a request body over the limit is refused, announced or not; before the key is looked at."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > self._limit:
            await self._refuse(scope, receive, send)
            return
        await self._counted(scope, receive, send)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body up to the limit, then hand it on. Where the caller hangs up before its end there is nobody to answer, and
        what has come is not what was meant: half a form can be a whole other one."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._limit:
                await self._refuse(scope, receive, send)
                return
            if not message.get("more_body", False):
                break
        whole: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await self._app(scope, replay, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal: Callable[[Scope, Receive, Send], Awaitable[None]] = problem(
            413, "too_large", f"a request has at most {self._limit} bytes", headers={"connection": "close"}
        )
        await refusal(scope, receive, send)
