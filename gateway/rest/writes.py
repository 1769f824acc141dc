"""Routes that write: each publishes an operation in the caller's name. ``?wait=applied`` answers when it is applied."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse

from gateway.patience import Patience
from gateway.protection import ValuationView
from gateway.rest.bodies import AdjustBody, DirectiveBody, ExecutionBody, NoteBody, ReasonBody, RequestId, UseBody, ValuationBody
from gateway.rest.guards import AdminCaller, FeedbackCaller
from gateway.rest.problems import documented, problem
from gateway.rest.reads import Id, service_of
from gateway.views import WriteView

router = APIRouter(prefix="/v1")

Wait = Annotated[
    Literal["applied"] | None, Query(description="answer when it is applied, or after some seconds (ten, if not set otherwise)")
]
ANSWERS: dict[int | str, dict[str, Any]] = {
    **documented(404, 409, 410),
    200: {"model": WriteView, "description": "Applied."},
    202: {"model": WriteView, "description": "In the log; it will be applied."},
}


def answered(view: WriteView) -> JSONResponse:
    """A write's answer: 200 applied, 202 pending, 409 refused."""
    if view.state == "refused":
        return problem(409, view.reason or "refused", view.detail or "the operation does not apply")
    return JSONResponse(view.model_dump(mode="json"), 200 if view.state == "applied" else 202)


async def written(request: Request, wait: str | None, work: Callable[..., WriteView]) -> JSONResponse:
    """Do a write, which takes ``wait_s``, in a thread, and answer it."""
    return answered(await patience_of(request).write(lambda seconds: work(wait_s=seconds), wait=wait is not None))


def patience_of(request: Request) -> Patience:
    """Where an application's writes wait."""
    patience: Patience = request.app.state.patience
    return patience


@router.post("/insights/{insight_id}/downvote", response_model=WriteView, responses=ANSWERS)
async def downvote(request: Request, caller: FeedbackCaller, insight_id: Id, body: ReasonBody, wait: Wait = None) -> JSONResponse:
    """Disagree with an insight: its confidence falls by 0.15."""
    work = partial(service_of(request).downvote, caller, body.request_id, insight_id, body.reason)
    return await written(request, wait, work)


@router.post("/insights/{insight_id}/restore", response_model=WriteView, responses=ANSWERS)
async def restore(request: Request, caller: FeedbackCaller, insight_id: Id, body: ReasonBody, wait: Wait = None) -> JSONResponse:
    """Bring an archived insight or note back into context; what was merged goes on in another one."""
    work = partial(service_of(request).restore, caller, body.request_id, insight_id, body.reason)
    return await written(request, wait, work)


@router.post("/insights/{insight_id}/archive", response_model=WriteView, responses=ANSWERS)
async def archive(request: Request, caller: FeedbackCaller, insight_id: Id, body: ReasonBody, wait: Wait = None) -> JSONResponse:
    """Take an insight, note or directive out of context; it is kept and can be read by its id."""
    work = partial(service_of(request).archive, caller, body.request_id, insight_id, body.reason)
    return await written(request, wait, work)


@router.post("/insights/{insight_id}/confidence", response_model=WriteView, responses=ANSWERS)
async def adjust(request: Request, caller: FeedbackCaller, insight_id: Id, body: AdjustBody, wait: Wait = None) -> JSONResponse:
    """Set an insight's confidence, or move it."""
    work = partial(
        service_of(request).adjust,
        caller,
        body.request_id,
        insight_id,
        body.reason,
        confidence=body.confidence,
        delta=body.delta,
    )
    return await written(request, wait, work)


@router.post("/insights/{insight_id}/forget", response_model=WriteView, responses=ANSWERS)
async def forget(request: Request, caller: AdminCaller, insight_id: Id, body: ReasonBody, wait: Wait = None) -> JSONResponse:
    """Delete an insight for good: from rows, text, vectors and history. Needs an admin key."""
    work = partial(service_of(request).forget, caller, body.request_id, insight_id, body.reason)
    return await written(request, wait, work)


@router.post("/directives", response_model=WriteView, responses=ANSWERS)
async def submit_directive(request: Request, caller: FeedbackCaller, body: DirectiveBody, wait: Wait = None) -> JSONResponse:
    """Submit an operator's directive: confidence 1.0, moved by nothing, in force until it expires or is archived."""
    work = partial(
        service_of(request).direct,
        caller,
        body.request_id,
        body.text,
        feedback_type=body.feedback_type,
        priority=body.priority,
        expires_at=body.expires_at,
        reason=body.reason,
    )
    return await written(request, wait, work)


@router.post("/notes", response_model=WriteView, responses=ANSWERS)
async def remember(request: Request, caller: FeedbackCaller, body: NoteBody, wait: Wait = None) -> JSONResponse:
    """Write a note down. What it does to notes near it is in ``event``."""
    work = partial(
        service_of(request).remember,
        caller,
        body.request_id,
        body.text,
        category=body.category,
        key=body.key,
        importance=body.importance,
        corrects=body.corrects,
        reason=body.reason,
    )
    return await written(request, wait, work)


@router.post("/uses", response_model=WriteView, responses=ANSWERS)
async def mark_used(request: Request, caller: FeedbackCaller, body: UseBody, wait: Wait = None) -> JSONResponse:
    """Report which memories went into a decision, and how it ended."""
    work = partial(
        service_of(request).mark_used,
        caller,
        body.request_id,
        body.used,
        recall_id=body.recall_id,
        recalled=body.recalled,
        event_id=body.event_id,
        ended=body.ended,
    )
    return await written(request, wait, work)


@router.post("/executions", response_model=WriteView, responses=ANSWERS)
async def record_execution(request: Request, caller: FeedbackCaller, body: ExecutionBody, wait: Wait = None) -> JSONResponse:
    """Publish what a tool did; it becomes an episode, whose id is ``insight_id``."""
    work = partial(service_of(request).record_execution, caller, body.request_id, body.execution)
    return await written(request, wait, work)


VALUED: dict[int | str, dict[str, Any]] = {
    **documented(409),
    200: {"model": ValuationView, "description": "Applied."},
    202: {"model": ValuationView, "description": "In the log; it will be applied."},
}


@router.post("/valuations", response_model=ValuationView, responses=VALUED)
async def value_portfolio(request: Request, caller: FeedbackCaller, body: ValuationBody, wait: Wait = None) -> JSONResponse:
    """Say what a portfolio is worth. With ``restart`` its mark begins anew, which needs an admin key and a reason."""
    service = service_of(request)
    told = await patience_of(request).write(lambda s: service.value_portfolio(caller, body.valuation, s), wait=wait is not None)
    if told.state == "refused":
        return problem(409, told.reason or "refused", told.detail or "the valuation was refused")
    return JSONResponse(told.model_dump(mode="json"), 200 if told.state == "applied" else 202)


@router.get("/operations/{request_id}", response_model=WriteView, responses=ANSWERS)
async def operation(
    request: Request, caller: FeedbackCaller, request_id: Annotated[RequestId, Path()], wait: Wait = None
) -> JSONResponse:
    """What became of one of your own writes on insights, by its request id."""
    return await written(request, wait, partial(service_of(request).operation, caller, request_id))
