"""``directives list|submit|archive``: what the operator wants."""

from __future__ import annotations

from datetime import datetime

import click

from gateway.cli.output import fail, json_option, plain_errors, print_json, print_table
from gateway.cli.writes import WAIT_S, found_directive, operator, write
from schemas.types import iso

TYPES = ("strategy_preference", "decision_correction", "market_context", "goal_adjustment")


@click.group()
def directives() -> None:
    """Submit, list and archive directives."""


@directives.command("list")
@click.option("--all", "include_ended", is_flag=True, help="Also those that were archived or have expired.")
@json_option
@click.pass_obj
@plain_errors
def list_directives(arguments: dict[str, str | None], include_ended: bool, as_json: bool) -> None:
    """List directives in force, the high priority first."""
    with operator(arguments, writing=False) as (service, who):
        items = service.directives(who, include_ended=include_ended)
    if as_json:
        print_json({"directives": [one.model_dump(mode="json") for one in items]})
    elif not items:
        click.echo("no directives in force")
    else:
        rows = [
            (one.directive.priority, one.directive.feedback_type, _ends(one.directive.expires_at), one.status, one.id[:8], one.text)
            for one in items
            if one.directive
        ]
        print_table(("priority", "type", "expires", "status", "id", "directive"), rows)


@directives.command()
@click.argument("text")
@click.option("--type", "feedback_type", type=click.Choice(TYPES), default="strategy_preference", show_default=True)
@click.option("--priority", type=click.Choice(["low", "medium", "high"]), default="medium", show_default=True)
@click.option("--expires", help="When it ends: RFC 3339 with a zone, 2026-12-31T00:00:00Z. Never, if left out.")
@click.option("--reason", default="", help="Why, for who reads the history.")
@json_option
@click.pass_obj
@plain_errors
def submit(
    arguments: dict[str, str | None], text: str, feedback_type: str, priority: str, expires: str | None, reason: str, as_json: bool
) -> None:
    """Submit TEXT as a directive: confidence 1.0, before every learned insight."""
    ends = _moment(expires)
    write(
        arguments,
        as_json,
        lambda service, who, request: service.direct(
            who, request, text, feedback_type=feedback_type, priority=priority, expires_at=ends, reason=reason, wait_s=WAIT_S
        ),
        "submitted",
        may_begin=True,
    )


@directives.command()
@click.argument("directive_id")
@click.option("--reason", default="withdrawn by the operator", show_default=True)
@json_option
@click.pass_obj
@plain_errors
def archive(arguments: dict[str, str | None], directive_id: str, reason: str, as_json: bool) -> None:
    """Take a directive out of force; it is kept."""
    write(
        arguments,
        as_json,
        lambda service, who, request: service.archive(who, request, found_directive(service, who, directive_id), reason, WAIT_S),
        "archived",
    )


def _ends(moment: datetime | None) -> str:
    return "never" if moment is None else iso(moment)


def _moment(text: str | None) -> datetime | None:
    from pydantic_core import PydanticCustomError

    from schemas.types import moment

    if text is None:
        return None
    try:
        return moment(text)[0]
    except PydanticCustomError as error:
        fail(f"--expires: {error.message()}", hint="for example 2026-12-31T00:00:00Z", code=2)
