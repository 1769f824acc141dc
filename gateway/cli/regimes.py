"""``regimes list|now|history``: in which state each market is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gateway.cli.output import json_option, plain_errors, print_json, print_table
from gateway.settings import load_settings

if TYPE_CHECKING:
    from gateway.regimes import RegimeHistoryView, RegimeView

HEADERS = ("regime", "since", "sure", "p", "told from", "key")


@click.group()
def regimes() -> None:
    """In which regime each market is, and how it came there."""


@regimes.command("list")
@click.option("--regime", help="Only markets in this regime.")
@click.option("--real", is_flag=True, help="Leave simulated markets out.")
@json_option
@click.pass_obj
@plain_errors
def list_(arguments: dict[str, str | None], regime: str | None, real: bool, as_json: bool) -> None:
    """List every market whose regime is known."""
    found = [one for one in _present(arguments) if regime in (None, one.regime) and not (real and one.simulated)]
    if as_json:
        print_json({"regimes": [one.model_dump(mode="json") for one in found]})
    elif not found:
        click.echo("no market is in that regime" if regime or real else "no regimes yet")
    else:
        print_table(HEADERS, [_cells(one) for one in found])


@regimes.command()
@json_option
@click.pass_obj
@plain_errors
def now(arguments: dict[str, str | None], as_json: bool) -> None:
    """Count the markets in each regime."""
    found = _present(arguments)
    counts = Counter((one.regime, one.simulated) for one in found)
    changed = max((one.known for one in found), default=None)
    if as_json:
        told = [{"regime": name, "simulated": paper, "markets": count} for (name, paper), count in sorted(counts.items())]
        print_json({"now": told, "last_change": changed})
    elif not counts:
        click.echo("no regimes yet")
    else:
        rows = [(name, "simulated" if paper else "real", count) for (name, paper), count in sorted(counts.items())]
        print_table(("regime", "markets", "count"), rows)
        click.echo(f"last change: {changed}")


@regimes.command()
@click.argument("key")
@json_option
@click.pass_obj
@plain_errors
def history(arguments: dict[str, str | None], key: str, as_json: bool) -> None:
    """Show the regimes that a market has been in; KEY is its tool:chain:pair."""
    from gateway.composition import open_insights
    from gateway.regimes import history as told

    with open_insights(load_settings(**arguments)) as store:
        found = told(store, key)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    print_table(
        ("from", "until", "regime", "sure", "p"),
        [(_marked(one.since, one), one.until or "now", one.regime, one.known, f"{one.probability:.3f}") for one in found.items],
    )
    click.echo()
    print_table(("state", f"typical {found.metric}", "of the time", "lasts"), _states(found))


def _present(arguments: dict[str, str | None]) -> tuple[RegimeView, ...]:
    from gateway.composition import open_insights
    from gateway.regimes import present

    with open_insights(load_settings(**arguments)) as store:
        return present(store.stretches())


def _cells(one: RegimeView) -> Sequence[object]:
    return one.regime, one.since, one.known, f"{one.probability:.3f}", one.metric, _marked(one.key, one)


def _marked(text: str, one: RegimeView) -> str:
    return f"[simulated] {text}" if one.simulated else text


def _states(found: RegimeHistoryView) -> list[tuple[object, ...]]:
    return [
        (
            state.name,
            f"{state.typical:.6g}",
            f"{100 * state.share:.0f} %",
            f"{state.lasts:g} observations" if state.lasts is not None else "for good",
        )
        for state in found.states
    ]
