"""Forms: each becomes one operation on the log in the visitor's name. The request id stands in the form: sent twice it is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation

from gateway.errors import RequestProblem
from gateway.keys import Caller
from gateway.pages.ask import choice, text, when
from gateway.service import BrainService
from gateway.views import WriteView
from schemas.claims import Category

Form = Mapping[str, str]
Act = Callable[[BrainService, Caller, str, Form, float], WriteView]
UNSAID = "an operator's decision"


def act(service: BrainService, caller: Caller, action: str, insight_id: str, form: Form, wait_s: float) -> str:
    """Do what a form asks for to an insight; what to tell the visitor.

    Raises:
        BrainError: the key is of too low a tier, the form cannot be, or the operation does not apply.
    """
    known = _ACTS.get(action)
    if known is None:
        raise RequestProblem(f"there is no action {action!r}")
    return told(known(service, caller, insight_id, form, wait_s))


def direct(service: BrainService, caller: Caller, form: Form, wait_s: float) -> str:
    """Submit a directive."""
    done = service.direct(
        caller,
        _request_id(form),
        _needed(form, "text", 2_000),
        feedback_type=_needed(form, "feedback_type"),
        priority=_needed(form, "priority"),
        expires_at=when(form, "expires_at"),
        reason=_reason(form),
        wait_s=wait_s,
    )
    return told(done)


def remember(service: BrainService, caller: Caller, form: Form, wait_s: float) -> str:
    """Write a note down."""
    done = service.remember(
        caller,
        _request_id(form),
        _needed(form, "text", 2_000),
        category=choice(form, "category", Category) or Category.GENERAL,
        key=text(form, "key") or "*",
        reason=_reason(form),
        wait_s=wait_s,
    )
    return told(done)


def told(view: WriteView) -> str:
    """What became of a write, for people.

    Raises:
        RequestProblem: it was refused.
    """
    if view.state == "refused":
        raise RequestProblem(view.detail or "the operation does not apply", code=view.reason or "refused")
    if view.state == "pending":
        return "In the log; it will be applied when the pipeline runs."
    return f"Applied{f': {view.event}' if view.event else ''}."


def _downvote(service: BrainService, caller: Caller, insight_id: str, form: Form, wait_s: float) -> WriteView:
    return service.downvote(caller, _request_id(form), insight_id, _reason(form), wait_s)


def _archive(service: BrainService, caller: Caller, insight_id: str, form: Form, wait_s: float) -> WriteView:
    return service.archive(caller, _request_id(form), insight_id, _reason(form), wait_s)


def _restore(service: BrainService, caller: Caller, insight_id: str, form: Form, wait_s: float) -> WriteView:
    return service.restore(caller, _request_id(form), insight_id, _reason(form), wait_s)


def _forget(service: BrainService, caller: Caller, insight_id: str, form: Form, wait_s: float) -> WriteView:
    return service.forget(caller, _request_id(form), insight_id, _reason(form), wait_s)


def _adjust(service: BrainService, caller: Caller, insight_id: str, form: Form, wait_s: float) -> WriteView:
    """Set it, or move it, by what the form has."""
    given = {name: _decimal(form, name) for name in ("confidence", "delta")}
    return service.adjust(caller, _request_id(form), insight_id, _reason(form), wait_s=wait_s, **given)


_ACTS: dict[str, Act] = {"downvote": _downvote, "archive": _archive, "adjust": _adjust, "restore": _restore, "forget": _forget}


def _decimal(form: Form, name: str) -> Decimal | None:
    value = text(form, name, 20)
    if value is None:
        return None
    try:
        found = Decimal(value)
    except InvalidOperation:
        raise RequestProblem(f"{name} is a number") from None
    if not found.is_finite():
        raise RequestProblem(f"{name} is a number")
    return found


def _request_id(form: Form) -> str:
    return _needed(form, "request_id", 64)


def _reason(form: Form) -> str:
    return text(form, "reason", 2_000) or UNSAID


def _needed(form: Form, name: str, most: int = 256) -> str:
    value = text(form, name, most)
    if value is None:
        raise RequestProblem(f"{name.replace('_', ' ')} is missing")
    return value
