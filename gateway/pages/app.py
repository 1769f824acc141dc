"""The pages' application: addresses, who may see them, and how errors look.

Stable addresses: ``/insights/ID``, ``/episodes/ID``, lists with their questions in the query; with ``.json`` at the end of the path
the same as JSON, for which a key in ``Authorization`` will do instead of a session.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gateway.errors import RequestProblem
from gateway.keys import Caller, KeyStore
from gateway.pages import actions
from gateway.pages.facts import Facts, no_facts
from gateway.pages.live import live
from gateway.pages.render import HEADERS, Renderer, as_json, elsewhere, own_path
from gateway.pages.session import COOKIE, Session, Sessions, own_form, set_cookie
from gateway.pages.views import Views
from gateway.patience import Patience
from gateway.rest.guards import BodyLimit, Gatekeeper, RateLimit, TooMany, Unknown
from gateway.rest.problems import of_error, problem, status_of
from gateway.rest.updates import Lookout
from gateway.service import BrainService
from schemas.errors import BrainError

LOGGER = logging.getLogger(__name__)
STATIC = Path(__file__).parent / "static"
LIMIT_BYTES = 100_000
WAIT_S = 5.0
"""How long a form waits until what it says is applied."""
Show = Callable[[Caller, Mapping[str, str]], dict[str, Any]]
ShowOne = Callable[[Caller, str, Mapping[str, str]], dict[str, Any]]


def create_pages(
    service: BrainService,
    keys: KeyStore,
    facts: Facts | None = None,
    *,
    rate: float = 50.0,
    burst: int = 100,
    monotonic: Callable[[], float] = time.monotonic,
) -> Starlette:
    """The application over a service; ``rate`` and ``burst`` are requests of one visitor."""
    pages = _Pages(service, keys, facts or no_facts(), RateLimit(rate, burst, monotonic), monotonic)
    return Starlette(
        routes=pages.routes(),
        middleware=[Middleware(BodyLimit, limit=LIMIT_BYTES)],
        exception_handlers={
            404: pages.not_found,
            HTTPException: pages.not_so,
            BrainError: pages.refused,
            ValueError: pages.refused,
            Exception: pages.fault,
        },
    )


class _Pages:
    """The handlers. What they share is their service and who is signed in."""

    def __init__(
        self, service: BrainService, keys: KeyStore, facts: Facts, limit: RateLimit, monotonic: Callable[[], float]
    ) -> None:
        self._service = service
        self._views = Views(service, facts)
        self._limit = limit
        self._keeper = Gatekeeper(keys, limit)
        self._sessions = Sessions(keys, monotonic)
        self._renderer = Renderer()
        self._lookout = Lookout(service.log)
        self._patience = Patience(WAIT_S)

    def routes(self) -> list[Route | Mount]:
        """Every address."""
        views = self._views
        lists: dict[str, Show] = {
            "overview": views.overview,
            "insights": views.insights,
            "episodes": views.episodes,
            "review": views.review,
            "signals": views.signals,
            "recall": views.recall,
            "directives": views.directives,
            "briefing": views.briefing,
            "audit": views.audit,
            "configuration": views.configuration,
        }
        ones: dict[str, ShowOne] = {"insight": views.insight, "episode": views.episode}
        routes: list[Route | Mount] = [
            Route("/sign-in", self.sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
            Route("/live", self.live),
            Route("/directives", self.submit_directive, methods=["POST"]),
            Route("/notes", self.submit_note, methods=["POST"]),
            Route("/insights/{insight_id}/{action}", self.act, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        for name, show in lists.items():
            path = "/" if name == "overview" else f"/{name}"
            routes += [Route(path, self._shown(name, show)), Route(f"/{name}.json", self._shown(name, show))]
        for name, show_one in ones.items():
            shown = self._one_shown(name, show_one)
            routes += [Route(f"/{name}s/{{it}}.json", shown), Route(f"/{name}s/{{it}}", shown)]
        return routes

    # --- reading

    def _shown(self, name: str, show: Show) -> Callable[[Request], Response]:
        def handler(request: Request) -> Response:
            return self._answer(request, name, lambda caller: show(caller, request.query_params))

        return handler

    def _one_shown(self, name: str, show: ShowOne) -> Callable[[Request], Response]:
        def handler(request: Request) -> Response:
            it = request.path_params["it"]
            return self._answer(request, name, lambda caller: show(caller, it, request.query_params))

        return handler

    def _answer(self, request: Request, name: str, data: Callable[[Caller], dict[str, Any]]) -> Response:
        if _wants_json(request):
            return as_json(data(self._json_caller(request)))
        session = self._session(request)
        if session is None:
            return elsewhere(f"/sign-in?{urlencode({'next': _address(request)})}")
        return self._renderer.page(request, f"{name}.html", data(session.caller) | {"request_id": _request_id}, session)

    def _json_caller(self, request: Request) -> Caller:
        session = self._session(request)
        if session is not None:
            return session.caller
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        return self._keeper.admit(text if kind.lower() == "bearer" else None, _from(request))

    def _session(self, request: Request) -> Session | None:
        """Who is signed in.

        Raises:
            TooMany: the visitor asks more often than it may.
        """
        session = self._sessions.of(request.cookies.get(COOKIE))
        if session is not None:
            self._limit.take(f"key {session.caller.key_id}")
        return session

    # --- signing in and out

    async def sign_in(self, request: Request) -> Response:
        """The door."""
        target = own_path(request.query_params.get("next", "/"))
        if request.method == "GET":
            return self._renderer.page(request, "sign_in.html", {"next": target, "refused": ""}, None)
        form = await _form(request)
        if not _same_origin(request):
            raise RequestProblem("the form came from another site")
        await run_in_threadpool(self._limit.take, f"address {_from(request)}")
        cookie = await run_in_threadpool(self._sessions.open, form.get("key", "").strip())
        if cookie is None:
            data = {"next": target, "refused": "That is no key of this brain, or it was revoked."}
            return self._renderer.page(request, "sign_in.html", data, None, 401)
        response = elsewhere(target)
        set_cookie(request, response, cookie)
        return response

    async def sign_out(self, request: Request) -> Response:
        """Out."""
        await self._own_form(request)
        self._sessions.close(request.cookies.get(COOKIE))
        response = elsewhere("/sign-in")
        response.delete_cookie(COOKIE, path="/")
        return response

    # --- acting

    async def act(self, request: Request) -> Response:
        """Something is done to an insight."""
        session, form = await self._own_form(request)
        insight_id, action = request.path_params["insight_id"], request.path_params["action"]
        said = await self._patience.write(lambda s: actions.act(self._service, session.caller, action, insight_id, form, s))
        return _back(form, "/insights" if action == "forget" else f"/insights/{quote(insight_id, safe='')}", said)

    async def submit_directive(self, request: Request) -> Response:
        """A directive."""
        session, form = await self._own_form(request)
        said = await self._patience.write(lambda s: actions.direct(self._service, session.caller, form, s))
        return _back(form, "/directives", said)

    async def submit_note(self, request: Request) -> Response:
        """A note."""
        session, form = await self._own_form(request)
        said = await self._patience.write(lambda s: actions.remember(self._service, session.caller, form, s))
        return _back(form, "/insights", said)

    async def _own_form(self, request: Request) -> tuple[Session, dict[str, str]]:
        """A form that the visitor's own page sent.

        Raises:
            Unknown: nobody is signed in.
            RequestProblem: it is another site's form, or an old one.
        """
        form = await _form(request)
        session = await run_in_threadpool(self._session, request)
        if session is None:
            raise Unknown("you are not signed in", hint="sign in and send the form again")
        if not _same_origin(request) or not own_form(session, form.get("form_token", "")):
            raise RequestProblem("the form is not of this session", hint="load the page again")
        return session, form

    async def live(self, request: Request) -> Response:
        """Changes as they happen."""
        cookie = request.cookies.get(COOKIE)
        if await run_in_threadpool(self._session, request) is None:
            return problem(401, "no_session", "you are not signed in", headers=HEADERS)
        stream = live(self._service.log, self._lookout, lambda: self._sessions.of(cookie) is not None)
        return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)

    # --- errors

    def not_found(self, request: Request, error: Exception) -> Response:
        """No such address."""
        return self._error(request, 404, "There is no such page.", None)

    def not_so(self, request: Request, error: Exception) -> Response:
        """Another method than the address has, or a form that cannot be read."""
        assert isinstance(error, HTTPException)
        response = self._error(request, error.status_code, f"{error.detail.rstrip('.')}.", None)
        response.headers.update(error.headers or {})
        return response

    def refused(self, request: Request, error: Exception) -> Response:
        """One of our errors: what is wrong, and what to do."""
        status = _status_of(error)
        if _wants_json(request):
            if isinstance(error, BrainError) and not isinstance(error, (Unknown, TooMany)):
                return of_error(error)
            return problem(status, _CODES.get(status, "bad_request"), str(error))
        return self._error(request, status, str(error), getattr(error, "hint", None))

    def fault(self, request: Request, error: Exception) -> Response:
        """Ours."""
        LOGGER.error("a page at %s failed", request.url.path, exc_info=error)
        return self._error(request, 500, "Something is wrong here, not with the request.", None)

    def _error(self, request: Request, status: int, detail: str, hint: str | None) -> Response:
        session = self._sessions.of(request.cookies.get(COOKIE))
        data = {"status": status, "detail": detail, "hint": hint}
        if _wants_json(request):
            return problem(status, _CODES.get(status, "bad_request"), detail)
        return self._renderer.page(request, "error.html", data, session, status)


_CODES = {401: "no_key", 404: "no_such_path", 405: "method_not_allowed", 429: "too_many_requests", 500: "fault"}


def _status_of(error: Exception) -> int:
    if isinstance(error, Unknown):
        return 401
    if isinstance(error, TooMany):
        return 429
    return status_of(error) if isinstance(error, BrainError) else 400


def _wants_json(request: Request) -> bool:
    return request.url.path.endswith(".json")


def _address(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _from(request: Request) -> str:
    return request.client.host if request.client else "?"


def _request_id() -> str:
    return secrets.token_hex(16)


def _same_origin(request: Request) -> bool:
    """Browsers say where a form comes from; one from elsewhere is not ours."""
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def _form(request: Request) -> dict[str, str]:
    return {name: value for name, value in (await request.form()).items() if isinstance(value, str)}


def _back(form: Mapping[str, str], default: str, said: str) -> Response:
    target = own_path(form.get("back", default))
    path, _, mark = target.partition("#")
    joint = "&" if "?" in path else "?"
    return elsewhere(f"{path}{joint}{urlencode({'said': said})}" + (f"#{mark}" if mark else ""))
