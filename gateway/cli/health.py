"""``status``, ``fingerprint``, ``rebuild`` and ``doctor``: is it well, and is it what the log says."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.output import UNHEALTHY, Progress, fail, json_option, plain_errors, print_json, print_table
from gateway.settings import load_settings

if TYPE_CHECKING:
    from gateway.fingerprint import Fingerprint
    from schemas.settings import Settings


@click.command()
@json_option
@click.pass_obj
@plain_errors
def status(arguments: dict[str, str | None], as_json: bool) -> None:
    """Show what each stage has done, how far it is behind, and what is kept."""
    from gateway.kafka import open_any_log
    from gateway.status import survey

    settings = load_settings(**arguments)
    with open_any_log(settings) as log:
        found = survey(log, settings)
    if as_json:
        print_json(asdict(found))
        return
    if settings.on_kafka:
        print_table(
            ("stage", "read", "behind", "workers"),
            [(one.name, one.received, one.lag, "-" if one.members is None else one.members) for one in found.stages.values()],
        )
    else:
        print_table(
            ("stage", "received", "processed", "duplicates", "late", "rejected", "behind"),
            [(o.name, o.received, o.processed, o.duplicates, o.late, o.rejected, o.lag) for o in found.stages.values()],
        )
    click.echo()
    click.echo(
        f"episodes: {found.episodes}   insights: {found.insights}   signals: {found.signals}   dead letters: {found.dead_letters}"
    )
    if found.log_bytes is None:
        click.echo(f"log:          {settings.broker}, groups {settings.kafka_app}.STAGE.v1")
    else:
        click.echo(f"log:          {found.log_bytes / 1e6:.1f} MB, stages run by process {found.driver_pid or '-'}")


@click.command()
@json_option
@click.pass_obj
@plain_errors
def fingerprint(arguments: dict[str, str | None], as_json: bool) -> None:
    """Print the hash over everything that is remembered."""
    from gateway.composition import open_episodes, open_insights
    from gateway.fingerprint import fingerprint as compute

    settings = load_settings(**arguments)
    with open_episodes(settings) as episodes, open_insights(settings) as insights:
        found = compute(episodes, insights)
    if as_json:
        print_json(asdict(found))
    else:
        click.echo(f"{found.sha256}  ({found.episode_lines} episodes, {found.insight_lines} insights and signals)")


@click.command()
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), required=True, help="An empty or new folder.")
@json_option
@click.pass_obj
@plain_errors
def rebuild(arguments: dict[str, str | None], into: Path, as_json: bool) -> None:
    """Fold the log into empty stores and compare them with the running ones, if there are any. Exit code 3 when they differ."""
    from gateway.composition import Layout, layout, open_embedder, open_sinks
    from gateway.fingerprint import fingerprint as compute
    from gateway.kafka import open_any_log
    from streams.rebuild import fold

    settings = load_settings(**arguments)
    if into.exists() and any(into.iterdir()):
        fail(f"{into} is not empty", hint="name a new folder: rebuild never touches what is there", code=2)
    into.mkdir(parents=True, exist_ok=True)
    progress = Progress()
    with open_any_log(settings) as log, open_embedder(settings) as embedder, open_sinks(Layout(into), embedder) as sinks:
        sinks_in_order = (sinks.episode_sink, sinks.writer)
        records = fold(log, sinks_in_order, lambda count: progress.show(f"{count} records folded"))
        rebuilt = compute(sinks.episodes, sinks.insights)
    progress.clear()
    running = _running(settings)
    equal = None if running is None else rebuilt == running
    if as_json:
        told = running and asdict(running)
        print_json({"into": str(into), "records": records, "rebuilt": asdict(rebuilt), "running": told, "equal": equal})
    else:
        source = settings.broker if settings.on_kafka else layout(settings).root
        click.echo(f"folded {records} records of {source} into {into}")
        click.echo(f"rebuilt {rebuilt.sha256}")
        if running is None:
            click.echo(f"nothing to compare with: {settings.data_dir} has not both stores")
        else:
            click.echo(f"running {running.sha256}\n{'equal' if equal else 'DIFFERENT'}")
    if equal is False:
        raise click.exceptions.Exit(UNHEALTHY)


def _running(settings: Settings) -> Fingerprint | None:
    """The fingerprint of the stores in the data folder; None where one of them is not there."""
    from gateway.composition import layout, open_episodes, open_insights
    from gateway.fingerprint import fingerprint as compute

    where = layout(settings)
    if not where.insights.is_file() or not where.episodes.is_dir():
        return None
    with open_episodes(settings) as episodes, open_insights(settings) as insights:
        return compute(episodes, insights)


@click.command()
@json_option
@click.pass_obj
@plain_errors
def doctor(arguments: dict[str, str | None], as_json: bool) -> None:
    """Check versions, model files, folders, log and stores. Exit code 3 when something is wrong."""
    from gateway.doctor import examine

    findings = list(examine(load_settings(**arguments)))
    if as_json:
        print_json({"healthy": all(one.ok for one in findings), "checks": [asdict(one) for one in findings]})
    else:
        for one in findings:
            click.echo(f"{'ok   ' if one.ok else 'WRONG'} {one.name + ':':<12} {one.detail}")
            if not one.ok and one.hint:
                click.echo(f"      hint: {one.hint}")
    if not all(one.ok for one in findings):
        raise click.exceptions.Exit(UNHEALTHY)
