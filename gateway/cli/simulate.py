"""``simulate``: a market with planted effects, as tool executions; or agents that trade on a simulated street."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import click
from click.core import ParameterSource

from gateway.cli.output import Progress, json_option, plain_errors, print_json
from gateway.settings import load_settings
from schemas.settings import Settings

AGENTS = ("plain", "remembering", "both")
KINDS = ("calm", "drifting", "cycling", "misleading")


@click.command()
@click.option("--seed", type=int, required=True, help="The same seed gives the same market.")
@click.option("--events", type=click.IntRange(1, 10_000_000), default=20_000, show_default=True)
@click.option("--truth", type=click.Path(dir_okay=False, path_type=Path), help="Write what was planted to this file.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the events to this file instead of stdout.")
@click.option("--publish", is_flag=True, help="Publish the events on the log (--broker) instead of writing them out.")
@click.option("--no-effects", is_flag=True, help="Plant nothing: whatever is found in this market is wrong.")
@click.option(
    "--agent", type=click.Choice(AGENTS), help="Let an agent trade, with or without the memory's advice, and say at what cost."
)
@click.option("--market", type=click.Choice(KINDS), default="calm", show_default=True, help="With --agent: the kind of market.")
@click.option("--orders", type=click.IntRange(1, 100_000), default=3_000, show_default=True, help="With --agent: how many orders.")
@json_option
@click.pass_obj
@plain_errors
def simulate(
    arguments: dict[str, str | None],
    seed: int,
    events: int,
    truth: Path | None,
    out: Path | None,
    publish: bool,
    no_effects: bool,
    agent: str | None,
    market: str,
    orders: int,
    as_json: bool,
) -> None:
    """Write a SIMULATED market's tool executions as JSON lines, or publish them; the truth file lists its planted effects.

    With --agent, trade on a SIMULATED street instead and say what it cost.
    """
    if agent is not None:
        if truth is not None or out is not None or publish or no_effects:
            raise click.UsageError("--truth, --out, --publish and --no-effects belong to a market's events, not to --agent")
        _trade(agent, market, seed, orders, load_settings(**arguments), as_json)
        return
    given = click.get_current_context().get_parameter_source
    if any(given(name) is not ParameterSource.DEFAULT for name in ("market", "orders")):
        raise click.UsageError("--market and --orders belong to --agent; --events says how long a market's events are")
    from streams.sources.market import simulate as events_of
    from streams.sources.market import truth_of

    if publish and out is not None:
        raise click.UsageError("give --publish or --out FILE")
    if as_json and out is None and not publish:
        raise click.UsageError("--json prints a summary, so the events need --out FILE or --publish")
    progress = Progress()
    made = events_of(seed, events, effects=not no_effects)
    if publish:
        from gateway.ingest import publish_items
        from gateway.kafka import open_any_log

        with open_any_log(load_settings(**arguments), create=True) as log:
            publish_items(log, made, "market", on_progress=lambda number: progress.show(f"{number}/{events} simulated events"))
    else:
        with click.open_file(str(out) if out else "-", "wb") as sink:
            for number, event in enumerate(made, start=1):
                sink.write(event.to_wire() + b"\n")
                progress.show(f"{number}/{events} simulated events")
    progress.clear()
    if truth is not None:
        truth.write_bytes(truth_of(seed, events, effects=not no_effects).to_wire() + b"\n")
    if as_json:
        written = {"out": str(out) if out else None, "published": publish, "truth": str(truth) if truth else None}
        print_json({"simulated": True, "seed": seed, "events": events, **written})
    elif publish:
        click.echo(f"{events} simulated events published; a running pipeline (defi-brain up) takes them up", err=True)
    elif out:
        click.echo(f"{events} simulated events in {out}", err=True)


def _trade(agent: str, market: str, seed: int, orders: int, settings: Settings, as_json: bool) -> None:
    from gateway.loop import plain_costs, run

    told: dict[str, Any] = {"simulated": True, "market": market, "seed": seed, "orders": orders}
    if agent == "plain":
        told["plain_bps"] = round(fmean(plain_costs(market, seed, orders, settings)), 3)
    else:
        result = run(market, seed, orders, settings)
        told["remembering_bps"] = round(fmean(result.remembering), 3)
        told |= {"followed": dict(result.followed), "stopped": dict(result.trips), "tried": result.tried}
        told |= {"operations": dict(result.operations), "drift_alarms": result.alarms, "turns": result.turns}
        if agent == "both":
            told |= {"plain_bps": round(fmean(result.plain), 3), "difference_bps": round(result.difference, 3)}
    if as_json:
        print_json(told)
        return
    click.echo(f"simulated {market} market, seed {seed}, {orders} orders; basis points an order, all costs included")
    for name, words in (("plain_bps", "plain"), ("remembering_bps", "remembering"), ("difference_bps", "difference")):
        if name in told:
            click.echo(f"{words:<12} {told[name]:>8.2f}")
    if agent != "plain":
        for name in ("followed", "stopped", "operations"):
            click.echo(f"{name:<12} {_counts(told[name])}")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "never"
