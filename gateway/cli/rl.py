"""``rl stats|log|train|reset``: ranking that learns from what is used."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

import click

from gateway.cli.output import fail, json_option, plain_errors, print_json, print_table
from gateway.cli.writes import WAIT_S, operator, write


@click.group()
def rl() -> None:
    """Show and correct the ranking that is learned from uses."""


@rl.command()
@click.option("--top", type=click.IntRange(0, 100), default=10, show_default=True, help="So many of the most used memories.")
@json_option
@click.pass_obj
@plain_errors
def stats(arguments: dict[str, str | None], top: int, as_json: bool) -> None:
    """Show what the ranker learned, whether it takes part in recall and why, and what is used most."""
    with operator(arguments, writing=False) as (service, who):
        state = service.ranker(who)
        since = service.now() - timedelta(days=state.settings.window_days)
        used = service.most_used(who, since, top) if top else []
    learned = state.learned
    if as_json:
        print_json({**asdict(state), "most_used": [{"id": one, "times": times} for one, times in used]})
        return
    click.echo(f"{'active' if learned.active else 'off'}: {learned.why}")
    click.echo(f"{state.uses} uses reported, {state.counted} since the last reset, {state.waiting} not learned from yet")
    settings = state.settings
    click.echo(f"a training every {settings.train_every} uses, rate {settings.rate:g}, blend {settings.blend:g}")
    if learned.weights:
        click.echo()
        print_table(("feature", "weight"), [(name, f"{weight:+.4f}") for name, weight in learned.weights.items()])
    if used:
        click.echo()
        print_table(("used", "memory"), [(times, one) for one, times in used])


@rl.command()
@click.argument("memory_ids", nargs=-1, required=True)
@json_option
@click.pass_obj
@plain_errors
def log(arguments: dict[str, str | None], memory_ids: tuple[str, ...], as_json: bool) -> None:
    """Report MEMORY_IDS as used, by hand."""
    write(
        arguments,
        as_json,
        lambda service, who, request: service.mark_used(
            who, request, [service.memory(who, one).id for one in memory_ids], wait_s=WAIT_S
        ),
        "used",
        names=False,
    )


@rl.command()
@click.option("--reason", default="asked for by the operator", show_default=True)
@json_option
@click.pass_obj
@plain_errors
def train(arguments: dict[str, str | None], reason: str, as_json: bool) -> None:
    """Learn from all uses so far, without waiting for the next fifty."""
    write(
        arguments,
        as_json,
        lambda service, who, request: service.teach(who, request, "train", reason=reason, wait_s=WAIT_S),
        "trained; see defi-brain rl stats",
        names=False,
    )


@rl.command()
@click.option("--reason", default="reset by the operator", show_default=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show how much would be unlearned.")
@json_option
@click.pass_obj
@plain_errors
def reset(arguments: dict[str, str | None], reason: str, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Unlearn everything: no use from before now counts any more. Memories and the log stay."""
    with operator(arguments, writing=False) as (service, who):
        counted = service.ranker(who).counted
    if dry_run:
        print_json({"would_unlearn": counted}) if as_json else click.echo(f"{counted} uses would count no more")
        return
    if not yes and not click.confirm(f"unlearn {counted} uses?", err=True):
        fail("nothing was changed")
    write(
        arguments,
        as_json,
        lambda service, who, request: service.teach(who, request, "reset", reason=reason, wait_s=WAIT_S),
        "unlearned",
        names=False,
    )
