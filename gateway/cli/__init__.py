"""The command line. Each command imports what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

import click

from gateway.cli import (
    backup,
    breakers,
    briefing,
    confidence,
    dedup,
    directives,
    dlq,
    episodes,
    forget,
    health,
    insights,
    kafka,
    keys,
    links,
    mcp,
    model,
    recall_tune,
    regimes,
    rl,
    run,
    serve,
    settings,
    signals,
    simulate,
)
from gateway.cli.output import pass_warnings_on
from gateway.process import settle

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(context_settings=CONTEXT)
@click.version_option(package_name="defi-brain", prog_name="defi-brain")
@click.option("--data-dir", type=click.Path(file_okay=False), help="Folder where everything is kept (DEFI_BRAIN_DATA_DIR).")
@click.option("--broker", help="embedded://PATH or kafka://HOST:PORT (DEFI_BRAIN_BROKER).")
@click.pass_context
def main(context: click.Context, data_dir: str | None, broker: str | None) -> None:
    """DeFi Brain: an event-driven memory for DeFi trading agents.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 unhealthy.
    """
    settle()
    pass_warnings_on()
    context.obj = {"data_dir": data_dir, "broker": broker}


for command in (
    run.demo,
    run.up,
    run.ingest,
    simulate.simulate,
    insights.insights,
    episodes.episodes,
    signals.signals,
    regimes.regimes,
    breakers.breakers,
    health.status,
    health.fingerprint,
    health.rebuild,
    health.doctor,
    backup.backup,
    backup.restore,
    dlq.dlq,
    kafka.topics,
    kafka.worker,
    kafka.replay,
    kafka.mirror,
    confidence.confidence,
    directives.directives,
    briefing.briefing,
    dedup.dedup,
    recall_tune.recall_tune,
    rl.rl,
    links.links,
    forget.forget,
    keys.keys,
    serve.serve,
    mcp.mcp,
    model.model,
    settings.config,
):
    main.add_command(command)
