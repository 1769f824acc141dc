"""``forget ID``: delete an insight, note, directive or episode for good, and show that nothing of it is left."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from gateway.cli.output import fail, json_option, plain_errors, print_json, print_table
from gateway.cli.writes import WAIT_S, found, operator

if TYPE_CHECKING:
    from gateway.keys import Caller
    from gateway.service import BrainService
    from gateway.views import WriteView

TRANSIT = "announcements"
"""Earlier announcements on their way to the log, which keeps them: the one place that empties by itself."""


@click.command()
@click.argument("insight_id")
@click.option("--reason", default="forgotten by the operator", show_default=True, help="Why; it stays in the history.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show where it is.")
@json_option
@click.pass_obj
@plain_errors
def forget(arguments: dict[str, str | None], insight_id: str, reason: str, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Delete an insight or an episode from the stores, for good. The log keeps what was said.

    Exit code 1 when anything is left.
    """
    with operator(arguments, writing=not dry_run) as (service, who):
        name, words, erase, traces = _chosen(service, who, insight_id)
        if not dry_run:
            if not yes and not click.confirm(f"forget {name}: {words[:80]!r}?", err=True):
                raise click.exceptions.Exit(1)
            done = erase(who, str(uuid.uuid4()), name, reason, WAIT_S)
            if done.state != "applied":
                fail(f"{done.state}: {done.detail or 'not applied yet; see defi-brain status'}")
        left = traces(who, name, words)
    if as_json:
        print_json({"id": name, "left": left})
    else:
        print_table(("place", "left"), sorted(left.items()))
    if not dry_run and any(count for place, count in left.items() if place != TRANSIT):
        fail(f"something of {name} is left", hint="report this: it is a fault")


def _chosen(
    service: BrainService, who: Caller, wanted: str
) -> tuple[str, str, Callable[..., WriteView], Callable[..., dict[str, int]]]:
    """What is meant, an episode by its whole id or else an insight: id and words, how it is forgotten and how that is shown."""
    from gateway.errors import NotFound

    try:
        episode = service.episode(who, wanted)
    except NotFound:
        name = found(service, who, wanted)
        return name, service.insight(who, name).text, service.forget, service.traces
    return episode.id, episode.reflection, service.forget_episode, service.episode_traces
