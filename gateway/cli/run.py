"""``demo``, ``up`` and ``ingest``: the commands that run the pipeline."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.live import Live
from gateway.cli.output import Progress, json_option, plain_errors, print_json, print_table
from gateway.process import settle_for_stores
from gateway.settings import load_settings
from schemas.errors import BrainError
from schemas.settings import Settings

PATIENCE_S = 60.0
"""How long a running pipeline may stand still before ``ingest`` stops waiting for it."""

if TYPE_CHECKING:
    from schemas.insights import Insight
    from streams.embedded.log import EmbeddedLog
    from streams.sources.market import Report


@click.command()
@json_option
@click.pass_obj
@plain_errors
def up(arguments: dict[str, str | None], as_json: bool) -> None:
    """Run the pipeline until interrupted: records are taken as producers publish them."""
    from gateway.metrics.wiring import open_observed

    settings = load_settings(**arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    live = Live()
    settle_for_stores()
    with open_observed(settings, live.take) as pipeline:
        click.echo(f"running on {settings.log_path}; Ctrl-C stops", err=True)
        pipeline.driver.run(stop)
    live.clear()
    if as_json:
        print_json(live.summary())


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--format", "format_name", required=True, help="uniswap-v3-events or tool-executions.")
@click.option("--pool", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The pool's description (JSON).")
@json_option
@click.pass_obj
@plain_errors
def ingest(arguments: dict[str, str | None], file: Path, format_name: str, pool: Path | None, as_json: bool) -> None:
    """Publish FILE's records and see them through: by a running ``up``, or else by this command."""
    from gateway.composition import open_log
    from gateway.ingest import outcome, publish_file
    from streams.sources import SourceError

    settings = load_settings(**arguments)
    progress = Progress()
    with open_log(settings, create=True) as log:
        before = log.tallies()
        try:
            published = publish_file(log, file, format_name, pool, lambda count: progress.show(f"{count} records published"))
        except SourceError as error:
            raise click.UsageError(str(error)) from None
        progress.clear()
        see_through(settings, log)
        account = outcome(published, before, log.tallies())
    if as_json:
        print_json({"file": str(file), "format": format_name, **account})
        return
    reasons = account["reasons"]
    assert isinstance(reasons, dict)
    why = f" ({', '.join(f'{count} {reason}' for reason, count in reasons.items())})" if reasons else ""
    click.echo(
        f"{account['records']} records: {account['processed']} processed, {account['duplicates']} duplicates, "
        f"{account['rejected']} rejected{why}"
    )


def see_through(settings: Settings, log: EmbeddedLog) -> Live:
    """Work, or let the running ``up`` work, until every stage has read what is in the log now."""
    from gateway.composition import open_pipeline
    from streams.log import DriverBusy

    live = Live()
    settle_for_stores()
    try:
        with open_pipeline(settings, live.take) as pipeline:
            pipeline.driver.run_until_idle()
    except DriverBusy:
        _wait_for_up(log)
    live.clear()
    return live


def _wait_for_up(log: EmbeddedLog) -> None:
    """Until the process that runs the stages has read everything; it may stop in between, which is an error.

    A stage that reads without writing moves its lag and nothing else, so the lags are what is watched.
    """
    progress = Progress()
    before, moved_at = -1, time.monotonic()
    while waiting := sum(lag.records for lag in log.lags() if lag.kind == "stage"):
        progress.show(f"waiting for the running pipeline: {waiting} records to go")
        if waiting != before:
            before, moved_at = waiting, time.monotonic()
        elif time.monotonic() - moved_at > PATIENCE_S:
            raise BrainError(
                f"the running pipeline (process {log.driver_pid()}) has not moved for {PATIENCE_S:.0f} s; {waiting} records wait",
                hint="see defi-brain status; the records are safe and are taken up when it goes on",
            )
        log.wait(log.changes(), 0.1)
    progress.clear()


@click.command()
@click.option("--events", type=click.IntRange(100, 1_000_000), default=12_000, show_default=True, help="Length of the market.")
@click.option("--seed", type=int, default=7, show_default=True, help="The same seed gives the same market.")
@json_option
@click.pass_obj
@plain_errors
def demo(arguments: dict[str, str | None], events: int, seed: int, as_json: bool) -> None:
    """Run the pipeline on a SIMULATED market and show what it learned beside what was planted."""
    from gateway.cli.insights import evidence_cells
    from gateway.composition import open_insights, open_log
    from gateway.ingest import publish_items
    from stores.sqlite.filters import InsightFilter
    from streams.sources.market import judge, simulate, truth_of

    settings = load_settings(**arguments)
    progress = Progress()
    click.echo(f"a simulated market: {events} tool executions, seed {seed}, in {settings.data_dir}", err=True)
    with open_log(settings, create=True) as log:
        publish_items(log, simulate(seed, events), "market", on_progress=lambda n: progress.show(f"{n}/{events} published"))
        progress.clear()
        live = see_through(settings, log)
    with open_insights(settings) as store:
        learned = store.list(InsightFilter(status=None), limit=1000).items
    report = judge(truth_of(seed, events), learned)
    if as_json:
        print_json({"simulated": True, "seed": seed, **live.summary(), "verdict": report.to_plain()})
        return
    click.echo(live.line())
    click.echo(f"\nwhat it learned, all of it simulated ({len(learned)} insights):")
    planted = {verdict.stated.claim.canonical: ", ".join(verdict.effects) for verdict in report.planted_claims}
    print_table(
        ("conf", "n", "effect [95 %]", "planted as", "insight"),
        [(f"{one.confidence:.2f}", *evidence_cells(one), planted.get(_canonical(one), "not planted"), one.text) for one in learned],
    )
    _print_verdict(report)
    click.echo(f"\nlook further: defi-brain --data-dir {settings.data_dir} insights list", err=True)


def _canonical(insight: Insight) -> str:
    return insight.claim.canonical if insight.claim else ""


def _print_verdict(report: Report) -> None:
    """What was planted, beside what was found of it."""
    click.echo(f"\nplanted effects found: {len(report.found)} of {len(report.found) + len(report.missed)}")
    for effect in report.missed:
        click.echo(f"  missed: {effect}")
    changed = len(report.noticed) + len(report.unnoticed)
    click.echo(f"effects that changed halfway and were noticed: {len(report.noticed)} of {changed}")
    click.echo(f"claims that were not planted: {len(report.unplanted_claims)}")
    for verdict in report.unplanted_claims:
        click.echo(f"  {verdict.stated.text} ({verdict.why})")
