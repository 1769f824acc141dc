"""``demo``, ``up`` and ``ingest``: the commands that run the pipeline."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.live import Live
from gateway.cli.output import Progress, json_option, plain_errors, print_json, print_table
from gateway.process import settle_for_stores
from gateway.settings import load_settings

if TYPE_CHECKING:
    from schemas.insights import Insight
    from streams.sources.market import Report


@click.command()
@json_option
@click.pass_obj
@plain_errors
def up(arguments: dict[str, str | None], as_json: bool) -> None:
    """Run the pipeline until interrupted: records are taken as producers publish them. On Kafka: all workers in one process."""
    from gateway.logs import configure

    settings = load_settings(**arguments)
    configure(settings)
    if settings.on_kafka:
        from gateway.cli.kafka import ROLES, run_and_tell

        run_and_tell(settings, ROLES, as_json)
        return
    from gateway.llm.wiring import model_breaker, rounds
    from gateway.metrics.wiring import open_observed
    from gateway.organiser import organiser_beside
    from gateway.upkeep import upkeep_beside

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    live = Live()
    settle_for_stores()
    breaker = model_breaker(settings)
    with (
        open_observed(settings, live.take, [breaker]) as pipeline,
        upkeep_beside(settings, pipeline.log, pipeline.embedder),
        organiser_beside(settings, pipeline.log),
        rounds(settings, pipeline.log, breaker),
    ):
        click.echo(f"running on {settings.log_path}; Ctrl-C stops", err=True)
        pipeline.driver.run(stop)
    live.clear()
    if as_json:
        print_json(live.summary())


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--format", "format_name", required=True, help="tool-executions, uniswap-v3-events or agent-trace.")
@click.option("--pool", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The pool's description (JSON).")
@json_option
@click.pass_obj
@plain_errors
def ingest(arguments: dict[str, str | None], file: Path, format_name: str, pool: Path | None, as_json: bool) -> None:
    """Publish FILE's records and see them through: by workers that run already, or else by this command.

    Fails where every record was rejected, as those of another format are.
    """
    from gateway.cli.through import pipeline_of
    from gateway.ingest import publish_file
    from gateway.kafka import open_any_log
    from streams.sources import SourceError

    settings = load_settings(**arguments)
    progress = Progress()
    with open_any_log(settings, create=True) as log:
        pipeline = pipeline_of(settings, log)
        pipeline.catch_up()
        try:
            published = publish_file(log, file, format_name, pool, lambda count: progress.show(f"{count} records published"))
        except SourceError as error:
            raise click.UsageError(str(error)) from None
        progress.clear()
        pipeline.see_through()
        account = pipeline.account(published)
    if as_json:
        print_json({"file": str(file), "format": format_name, **account})
    else:
        _tell(account)
    if account["rejected"] and account["rejected"] == account["records"]:
        raise SystemExit(1)


def _tell(account: Mapping[str, object]) -> None:
    reasons = account["reasons"]
    assert isinstance(reasons, dict)
    why = f" ({', '.join(f'{count} {reason}' for reason, count in reasons.items())})" if reasons else ""
    counts = ", ".join(f"{account[name]} {name}" for name in ("processed", "duplicates", "rejected") if account[name] is not None)
    click.echo(f"{account['records']} records: {counts}{why}")
    if account["rejected"]:
        click.echo("hint: defi-brain dlq list shows what was wrong with each", err=True)


@click.command()
@click.option("--events", type=click.IntRange(100, 1_000_000), default=12_000, show_default=True, help="Length of the market.")
@click.option("--seed", type=int, default=7, show_default=True, help="The same seed gives the same market.")
@json_option
@click.pass_obj
@plain_errors
def demo(arguments: dict[str, str | None], events: int, seed: int, as_json: bool) -> None:
    """Run the pipeline on a SIMULATED market and show what it learned beside what was planted."""
    from gateway.cli.insights import evidence_cells
    from gateway.cli.through import pipeline_of
    from gateway.composition import open_insights
    from gateway.ingest import publish_items
    from gateway.kafka import open_any_log
    from stores.sqlite.filters import InsightFilter
    from streams.sources.market import by_part, judge, simulate, truth_of

    settings = load_settings(**arguments)
    progress = Progress()
    click.echo(f"a simulated market: {events} tool executions, seed {seed}, in {settings.data_dir}", err=True)
    with open_any_log(settings, create=True) as log:
        pipeline = pipeline_of(settings, log)
        publish_items(log, simulate(seed, events), "market", on_progress=lambda n: progress.show(f"{n}/{events} published"))
        progress.clear()
        live = pipeline.see_through()
    with open_insights(settings) as store:
        learned = store.list(InsightFilter(status=None), limit=1000).items
    truth = truth_of(seed, events)
    report = judge(truth, learned)
    if as_json:
        print_json({"simulated": True, "seed": seed, **live.summary(), "verdict": report.to_plain()})
        return
    click.echo(live.line() if live.counts else "a pipeline that runs already did the work: see defi-brain status")
    click.echo(f"\nwhat it learned, all of it simulated ({len(learned)} insights):")
    planted = {verdict.stated.claim.canonical: ", ".join(verdict.effects) for verdict in report.planted_claims}
    print_table(
        ("conf", "n", "effect [95 %]", "planted as", "insight"),
        [(f"{one.confidence:.2f}", *evidence_cells(one), planted.get(_canonical(one), "not planted"), one.text) for one in learned],
    )
    _print_verdict(report, by_part(truth, report))
    click.echo(f"\nlook further: defi-brain --data-dir {settings.data_dir} insights list", err=True)


def _canonical(insight: Insight) -> str:
    return insight.claim.canonical if insight.claim else ""


def _print_verdict(report: Report, parts: Mapping[str, Report]) -> None:
    """What was planted, beside what was found of it, for each kind of claim that anything was planted for."""
    told = {name: (len(one.found), len(one.found) + len(one.missed)) for name, one in parts.items()}
    shown = ", ".join(f"{name} {found} of {there}" for name, (found, there) in told.items() if there)
    click.echo(f"\nplanted effects found: {len(report.found)} of {len(report.found) + len(report.missed)} ({shown})")
    for effect in report.missed:
        click.echo(f"  missed: {effect}")
    changed = len(report.noticed) + len(report.unnoticed)
    click.echo(f"effects that changed halfway and were noticed: {len(report.noticed)} of {changed}")
    click.echo(f"claims that were not planted: {len(report.unplanted_claims)}")
    for verdict in report.unplanted_claims:
        click.echo(f"  {verdict.stated.text} ({verdict.why})")
