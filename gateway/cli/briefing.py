"""``briefing``: what matters most now."""

from __future__ import annotations

import click

from gateway.cli.output import json_option, plain_errors, print_json
from gateway.cli.writes import operator


@click.command()
@json_option
@click.pass_obj
@plain_errors
def briefing(arguments: dict[str, str | None], as_json: bool) -> None:
    """Print three to six bullets from the memories that matter most, the operator's directives first."""
    with operator(arguments, writing=False) as (service, who):
        told = service.briefing(who)
    print_json(told.model_dump(mode="json")) if as_json else click.echo(told.text)
