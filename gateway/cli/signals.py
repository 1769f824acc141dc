"""``signals``: what changed."""

from __future__ import annotations

import click

from gateway.cli.output import json_option, plain_errors, print_json, print_table
from gateway.settings import load_settings
from schemas.signals import BreakerSignal, DriftSignal, RegimeSignal, Signal
from schemas.types import iso


@click.command()
@click.option("--key", help="Only this tool:chain:pair.")
@click.option("--kind", type=click.Choice(("breaker", "drift", "regime")), help="Only signals of this kind.")
@click.option("--metric", help="Only this metric.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most this many, newest first.")
@json_option
@click.pass_obj
@plain_errors
def signals(
    arguments: dict[str, str | None], key: str | None, kind: str | None, metric: str | None, limit: int, as_json: bool
) -> None:
    """List drift alarms, changes of regime and of portfolio breakers, newest first."""
    from gateway.composition import open_insights
    from stores.sqlite.filters import SignalFilter

    with open_insights(load_settings(**arguments)) as store:
        page = store.signals(SignalFilter(kind=kind, key=key, metric=metric), limit=limit)
    if as_json:
        print_json({"signals": [signal.model_dump(mode="json") for signal in page.items]})
        return
    if not page.items:
        click.echo("no signals")
        return
    print_table(("time", "kind", "metric", "before", "after", "n", "stream"), [_cells(one) for one in page.items])


def _cells(one: Signal) -> tuple[object, ...]:
    stream = f"[simulated] {one.stream}" if one.simulated else one.stream
    return iso(one.ts), one.kind, one.metric, *_change(one), stream


def _change(one: Signal) -> tuple[object, object, object]:
    """From what, to what, and out of how many observations."""
    match one:
        case DriftSignal():
            return f"{one.mean_before:.6g}", f"{one.mean_after:.6g}", one.width
        case RegimeSignal():
            return one.previous or "-", one.regime, one.model.n
        case BreakerSignal():
            return one.previous or "-", f"{one.state}{', blind' if one.blind else ''}", "-"
