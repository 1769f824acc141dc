"""Who is at the browser: a key is shown once, at sign-in; then a cookie names a session that only this process knows.

The cookie is ``HttpOnly`` and ``SameSite=Strict``, so no other site can send it; every form also carries a token of the session.
A session ends after some hours, at sign-out, with the process, or with its key: that is looked up at each request.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

from gateway.keys import Caller, KeyStore

COOKIE = "defi_brain_session"
HOURS = 12
_MOST = 1_000


@dataclass(frozen=True, slots=True)
class Session:
    """A visitor who is signed in. ``form_token`` must come back with every form."""

    caller: Caller
    form_token: str
    ends: float


class Sessions:
    """Sessions of this process; safe to share between threads. Only hashes of cookies are kept."""

    def __init__(
        self, keys: KeyStore, monotonic: Callable[[], float], random: Callable[[int], str] = secrets.token_urlsafe
    ) -> None:
        self._keys = keys
        self._monotonic = monotonic
        self._random = random
        self._lock = threading.Lock()
        self._held: OrderedDict[str, Session] = OrderedDict()

    def open(self, key_text: str) -> str | None:
        """A new session's cookie; None where the key is none of ours, or was revoked."""
        key = self._keys.verify(key_text)
        if key is None:
            return None
        cookie = self._random(32)
        session = Session(key.caller, self._random(32), self._monotonic() + HOURS * 3600)
        with self._lock:
            self._held[_hashed(cookie)] = session
            if len(self._held) > _MOST:
                self._drop_one()
        return cookie

    def _drop_one(self) -> None:
        """The oldest session of the key that has most: whoever signs in over and over signs nobody else out."""
        ((most, _),) = Counter(one.caller.key_id for one in self._held.values()).most_common(1)
        del self._held[next(cookie for cookie, one in self._held.items() if one.caller.key_id == most)]

    def of(self, cookie: str | None) -> Session | None:
        """The session of a cookie, while it lasts and its key is in use."""
        with self._lock:
            session = self._held.get(_hashed(cookie)) if cookie else None
        if session is None or session.ends < self._monotonic() or not self._keys.in_use(session.caller.key_id):
            return None
        return session

    def close(self, cookie: str | None) -> None:
        """End a session."""
        with self._lock:
            self._held.pop(_hashed(cookie or ""), None)


def own_form(session: Session, token: str) -> bool:
    """Whether a form's token is the session's."""
    return hmac.compare_digest(session.form_token.encode(), token.encode())


def set_cookie(request: Request, response: Response, cookie: str) -> None:
    """Give the browser its cookie; over TLS for TLS only."""
    response.set_cookie(
        COOKIE, cookie, max_age=HOURS * 3600, httponly=True, samesite="strict", path="/", secure=request.url.scheme == "https"
    )


def _hashed(cookie: str) -> str:
    return sha256(cookie.encode("utf-8", "replace")).hexdigest()
