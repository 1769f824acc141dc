"""``simulate``: a market with planted effects, as a file of tool executions."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.cli.output import Progress, json_option, plain_errors, print_json
from gateway.settings import load_settings


@click.command()
@click.option("--seed", type=int, required=True, help="The same seed gives the same market.")
@click.option("--events", type=click.IntRange(1, 10_000_000), default=20_000, show_default=True)
@click.option("--truth", type=click.Path(dir_okay=False, path_type=Path), help="Write what was planted to this file.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the events to this file instead of stdout.")
@click.option("--publish", is_flag=True, help="Publish the events on the log (--broker) instead of writing them out.")
@click.option("--no-effects", is_flag=True, help="Plant nothing: whatever is found in this market is wrong.")
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
    as_json: bool,
) -> None:
    """Write a SIMULATED market's tool executions as JSON lines, or publish them; the truth file lists its planted effects."""
    from streams.sources.market import simulate as market
    from streams.sources.market import truth_of

    if publish and out is not None:
        raise click.UsageError("give --publish or --out FILE")
    if as_json and out is None and not publish:
        raise click.UsageError("--json prints a summary, so the events need --out FILE or --publish")
    progress = Progress()
    made = market(seed, events, effects=not no_effects)
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
