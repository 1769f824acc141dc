"""``keys create|list|revoke``: who may use the API and the MCP server over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from gateway.cli.output import fail, json_option, plain_errors, print_json, print_table
from gateway.settings import load_settings
from schemas.types import iso

if TYPE_CHECKING:
    from gateway.keys import ApiKey, KeyStore


@click.group()
def keys() -> None:
    """Make, list and revoke API keys."""


@contextmanager
def _opened(arguments: dict[str, str | None], *, make: bool) -> Iterator[KeyStore]:
    """The keys of the folder, which has to be there unless ``make``: one whose name is misspelt is said, not made."""
    from gateway.composition import layout
    from gateway.keys import KeyStore

    path = layout(load_settings(**arguments)).keys
    if not make and not path.parent.is_dir():
        fail(
            f"there is no folder {path.parent}", hint="name another one with --data-dir, or make a key: defi-brain keys create NAME"
        )
    with KeyStore(path) as store:
        yield store


def _plain(key: ApiKey) -> dict[str, str | None]:
    return {
        "id": key.id,
        "name": key.name,
        "tier": str(key.tier),
        "created": iso(key.created),
        "revoked": iso(key.revoked) if key.revoked else None,
    }


@keys.command()
@click.argument("name")
@click.option("--tier", type=click.Choice(["read", "feedback", "admin"]), default="read", show_default=True, help="What it may do.")
@json_option
@click.pass_obj
@plain_errors
def create(arguments: dict[str, str | None], name: str, tier: str, as_json: bool) -> None:
    """Make a key for NAME, which becomes the author of what it writes. The key is shown this once."""
    from gateway.keys import Tier

    with _opened(arguments, make=True) as store:
        key, text = store.create(name, Tier(tier), datetime.now(UTC))
    if as_json:
        print_json({**_plain(key), "key": text})
        return
    click.echo(text)
    click.echo(f"{key.tier} key {key.id} for {key.name}; keep it now, it cannot be shown again", err=True)


@keys.command("list")
@json_option
@click.pass_obj
@plain_errors
def list_keys(arguments: dict[str, str | None], as_json: bool) -> None:
    """List the keys, revoked ones included; never their secrets."""
    with _opened(arguments, make=False) as store:
        found = store.list()
    if as_json:
        print_json({"keys": [_plain(key) for key in found]})
    elif not found:
        click.echo("no keys yet")
    else:
        rows = [(key.id, key.name, key.tier, iso(key.created), iso(key.revoked) if key.revoked else "-") for key in found]
        print_table(("id", "name", "tier", "created", "revoked"), rows)


@keys.command()
@click.argument("key")
@json_option
@click.pass_obj
@plain_errors
def revoke(arguments: dict[str, str | None], key: str, as_json: bool) -> None:
    """Refuse KEY, by its id or name, from now on, in every running server too."""
    with _opened(arguments, make=False) as store:
        done = store.revoke(key, datetime.now(UTC))
    if as_json:
        print_json(_plain(done))
    else:
        click.echo(f"key {done.id} of {done.name} is revoked")
