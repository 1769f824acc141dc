"""``config show``: the effective settings and where each comes from."""

from __future__ import annotations

import click

from gateway.cli.output import json_option, plain_errors, print_json, print_table
from gateway.settings import load_settings, sources


@click.group()
def config() -> None:
    """Show the settings."""


@config.command()
@click.option("--sources", "with_sources", is_flag=True, help="Say where each value comes from.")
@json_option
@click.pass_obj
@plain_errors
def show(arguments: dict[str, str | None], with_sources: bool, as_json: bool) -> None:
    """Show every setting's value."""
    values = load_settings(**arguments).plain()
    origin = sources(**arguments)
    if as_json:
        print_json({name: {"value": value, "source": origin[name]} for name, value in values.items()})
        return
    rows = [(name, "" if value is None else value, origin[name]) for name, value in values.items()]
    if with_sources:
        print_table(("setting", "value", "source"), rows)
    else:
        print_table(("setting", "value"), [row[:2] for row in rows])
