"""Errors as ``application/problem+json`` (RFC 9457): a stable ``code``, one line of detail, and a hint where there is one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from gateway.errors import Conflict, Gone, NotFound, RequestProblem, Unprocessable
from gateway.keys import NotAllowed
from schemas.errors import BrainError
from stores.recall.errors import BadRecall
from stores.sqlite import BadQuery

LOGGER = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"


class FieldProblem(BaseModel):
    """What is wrong with one part of a request."""

    where: str
    code: str
    detail: str


class Problem(BaseModel):
    """An error. ``type`` is a URN that ends in ``code``."""

    model_config = ConfigDict(extra="forbid")

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str | None = None
    errors: list[FieldProblem] = Field(default_factory=list)


_STATUS: tuple[tuple[type[BaseException], HTTPStatus], ...] = (
    (NotAllowed, HTTPStatus.FORBIDDEN),
    (NotFound, HTTPStatus.NOT_FOUND),
    (Gone, HTTPStatus.GONE),
    (Conflict, HTTPStatus.CONFLICT),
    (Unprocessable, HTTPStatus.UNPROCESSABLE_ENTITY),
    (RequestProblem, HTTPStatus.BAD_REQUEST),
    (BadRecall, HTTPStatus.BAD_REQUEST),
    (BadQuery, HTTPStatus.BAD_REQUEST),
    (BrainError, HTTPStatus.SERVICE_UNAVAILABLE),
)
_CODES: dict[type[BaseException], str] = {NotAllowed: "tier_too_low", BadRecall: "bad_recall", BadQuery: "bad_query"}


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    hint: str | None = None,
    errors: list[FieldProblem] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """A response."""
    body = Problem(
        type=f"urn:defi-brain:problem:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        code=code,
        detail=detail,
        hint=hint,
        errors=errors or [],
    )
    return JSONResponse(body.model_dump(exclude_none=True), status, dict(headers or {}), MEDIA_TYPE)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route that may answer with these problems; every route may with those that need no route."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in sorted({400, 401, 403, 413, 422, 429, 503, *statuses})
    }


def status_of(error: BrainError) -> int:
    """The HTTP status of one of our errors."""
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def of_error(error: BrainError) -> JSONResponse:
    """The problem of one of our errors."""
    status = status_of(error)
    code = error.code if isinstance(error, RequestProblem) else _CODES.get(type(error), "unavailable")
    return problem(status, code, str(error), hint=error.hint)


def install(app: FastAPI) -> None:
    """Answer every error of an application as a problem."""

    @app.exception_handler(BrainError)
    def ours(request: Request, error: BrainError) -> JSONResponse:
        return of_error(error)

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> JSONResponse:
        code = {404: "no_such_path", 405: "method_not_allowed", 400: "not_json"}.get(error.status_code, "http_error")
        return problem(error.status_code, code, str(error.detail), headers=error.headers)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        found = [
            FieldProblem(where=".".join(str(step) for step in one["loc"]), code=one["type"], detail=_clean(one["msg"]))
            for one in error.errors()[:20]
        ]
        return problem(422, "invalid_request", f"{found[0].where}: {found[0].detail}", errors=found)

    @app.exception_handler(Exception)
    def fault(request: Request, error: Exception) -> JSONResponse:
        LOGGER.error("a request to %s failed", request.url.path, exc_info=error)
        return problem(500, "fault", "something is wrong here, not with the request")


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()[:500]
