"""How commands write: as the operator on this machine, by an operation in the log, waited for where somebody applies it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from gateway.cli.output import fail, print_json
from gateway.settings import load_settings

if TYPE_CHECKING:
    from gateway.keys import Caller
    from gateway.protection import ValuationView
    from gateway.service import BrainService
    from gateway.views import WriteView

WAIT_S = 20.0


@contextmanager
def operator(arguments: dict[str, str | None], *, writing: bool, may_begin: bool = False) -> Iterator[tuple[BrainService, Caller]]:
    """The service and the operator. For a write the pipeline runs here, unless it runs elsewhere.

    ``may_begin``: where there is no brain yet one is made, for what makes sense as a first write. What is about something that is
    known does not: a folder's name that is misspelt is said, not filled.

    Raises:
        BrainError: there is no brain.
    """
    from gateway.brain import open_service
    from gateway.composition import ensure_begun
    from gateway.keys import Caller, Tier

    settings = load_settings(**arguments)
    if not may_begin:
        ensure_begun(settings)
    with open_service(settings, pipeline=writing) as service:
        yield service, Caller("operator", Tier.ADMIN)


def write(
    arguments: dict[str, str | None],
    as_json: bool,
    work: Callable[[BrainService, Caller, str], WriteView],
    done: str,
    *,
    names: bool = True,
    may_begin: bool = False,
) -> None:
    """Send a write, wait until it is applied, and say so; exit code 1 when it is refused. ``names``: also the insight concerned.
    ``may_begin``: see :func:`operator`."""
    with operator(arguments, writing=True, may_begin=may_begin) as (service, who):
        told = work(service, who, str(uuid.uuid4()))
    if said_enough(told, as_json):
        return
    if not names:
        click.echo(done)
    else:
        confidence = "" if told.confidence is None else f", confidence {told.confidence:.2f}"
        click.echo(f"{done}: {told.insight_id}{confidence}")


def found(service: BrainService, who: Caller, prefix: str) -> str:
    """The id that a prefix stands for."""
    from gateway.errors import NotFound

    try:
        return service.by_prefix(who, prefix).id
    except NotFound as error:
        fail(str(error), error.hint)


def found_directive(service: BrainService, who: Caller, prefix: str) -> str:
    """The id of the directive that a prefix stands for: what the memory learned itself is no directive."""
    from gateway.errors import NotFound

    hint = "defi-brain directives list --all shows the ids"
    try:
        one = service.by_prefix(who, prefix)
    except NotFound:
        fail(f"no single directive has an id that starts with {prefix!r}", hint)
    if one.directive is None:
        fail(f"{one.id} is no directive", hint)
    return one.id


def said_enough(told: WriteView | ValuationView, as_json: bool) -> bool:
    """Tell what became of a write; False where it was applied and is still to be told in words. Exit code 1 when it is refused."""
    if told.state == "refused":
        fail(f"refused: {told.reason}: {told.detail}")
    if as_json:
        print_json(told.model_dump(mode="json"))
    elif told.state == "pending":
        click.echo("it is in the log, and not applied yet: see defi-brain status", err=True)
    return as_json or told.state == "pending"
