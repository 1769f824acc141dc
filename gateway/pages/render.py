"""Answers: a page's data as HTML, or the same data as JSON where the path ends in ``.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from gateway.pages.chart import confidence_chart, timeline
from gateway.pages.session import Session
from schemas.types import moment

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "private, no-store",
}
MENU = (
    ("/", "Overview"),
    ("/insights", "Insights"),
    ("/episodes", "Episodes"),
    ("/review", "Review"),
    ("/signals", "Signals"),
    ("/recall", "Recall"),
    ("/directives", "Directives"),
    ("/briefing", "Briefing"),
    ("/audit", "Audit"),
    ("/configuration", "Configuration"),
)


_ADDRESS = re.compile(r"\b(0x[0-9a-fA-F]{4})[0-9a-fA-F]{32}([0-9a-fA-F]{4})\b")


class Renderer:
    """Templates of this package. Everything in them is escaped; a name that the data lacks is an error and not an empty string."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("gateway.pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._environment.globals.update(menu=MENU, confidence_chart=confidence_chart, timeline=timeline, seconds=seconds)
        self._environment.filters.update(short=short, day=day, figure=figure, brief=brief)

    def page(
        self, request: Request, template: str, data: Mapping[str, Any], session: Session | None, status: int = 200
    ) -> Response:
        """A page."""
        query = dict(request.query_params)

        def with_query(**changes: str | None) -> str:
            """This page's address with some of its questions changed; a place in the list does not outlive a change, nor what was
            said of the last form."""
            kept = {name: value for name, value in {**query, "cursor": None, "said": None, **changes}.items() if value}
            return f"{request.url.path}?{urlencode(kept)}" if kept else request.url.path

        text = self._environment.get_template(template).render(
            **data,
            asked=query,
            here=request.url.path,
            json_here=_json_path(request),
            with_query=with_query,
            session=session,
            said=query.get("said", ""),
        )
        return HTMLResponse(text, status, HEADERS)


def as_json(data: Mapping[str, Any]) -> Response:
    """The same as JSON."""
    return JSONResponse(data, headers=HEADERS)


def elsewhere(path: str) -> Response:
    """After a form: to a page of ours."""
    return RedirectResponse(path, 303, HEADERS)


def own_path(path: str) -> str:
    """A path on this server, or the first page where it is none: nobody is sent away from here.

    >>> own_path("/insights?status=all"), own_path("//evil.example"), own_path("https://evil.example")
    ('/insights?status=all', '/', '/')
    """
    clean = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if clean else "/"


def short(value: str) -> str:
    """The first eight characters of an id."""
    return value[:8]


def brief(value: str) -> str:
    """A text in which each address is as wallets show it.

    >>> brief("swap:1:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48:cost_bps")
    'swap:1:0xa0b8…eb48:cost_bps'
    """
    return _ADDRESS.sub(r"\1…\2", value)


def day(value: str) -> str:
    """A moment for people: date and time to the second, in UTC.

    >>> day("2026-01-31T12:34:56.789Z")
    '2026-01-31 12:34:56'
    """
    return value[:19].replace("T", " ")


def seconds(value: str) -> float:
    """A moment as Unix seconds."""
    return moment(value)[0].timestamp()


def figure(value: Any) -> str:
    """A number as people read it: four significant digits, thousands apart; anything else as it is.

    >>> figure(1234567), figure(0.123456), figure(True), figure(None)
    ('1,234,567', '0.1235', 'yes', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e6 else f"{value:,.0f}"
    return str(value)


def _json_path(request: Request) -> str:
    path = "/overview" if request.url.path == "/" else request.url.path
    return f"{path}.json" + (f"?{request.url.query}" if request.url.query else "")
