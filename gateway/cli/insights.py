"""``insights list|show|history|follow|restore|tidy``: what the brain believes, how much, and why; and what it no longer does."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.output import Finite, fail, json_option, plain_errors, print_json, print_json_line, print_table
from gateway.settings import load_settings
from schemas.claims import Category
from schemas.insights import Insight, InsightStatus
from schemas.types import iso

if TYPE_CHECKING:
    from gateway.standing import Standing
    from stores.sqlite import HistoryEntry
    from workers.channels import Channels


@click.group()
def insights() -> None:
    """Read the insights."""


@insights.command("list")
@click.option("--category", type=click.Choice([str(one) for one in Category]), multiple=True, help="Only this category (repeat).")
@click.option("--key", help="Only this tool:chain:pair.")
@click.option("--min-confidence", type=Finite(0, 1), help="Only at or above this confidence.")
@click.option("--status", type=click.Choice(["active", "archived", "all"]), default="active", show_default=True)
@click.option("--problematic", is_flag=True, help="Only those after which decisions ended badly at least as often as well.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@json_option
@click.pass_obj
@plain_errors
def list_insights(
    arguments: dict[str, str | None],
    category: tuple[str, ...],
    key: str | None,
    min_confidence: float | None,
    status: str,
    problematic: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List insights, the surest first."""
    from gateway.composition import open_insights
    from gateway.standing import standings
    from stores.sqlite.filters import InsightFilter

    wanted = InsightFilter(
        categories=tuple(Category(one) for one in category),
        min_confidence=None if min_confidence is None else Decimal(str(min_confidence)),
        status=None if status == "all" else InsightStatus(status),
        key=key,
        problematic=problematic,
    )
    with open_insights(load_settings(**arguments)) as store:
        page = store.list(wanted, limit=limit)
        stand = standings(store, page.items)
    if as_json:
        items = [one.model_dump(mode="json") | _standing(stand[one.id]) for one in page.items]
        print_json({"insights": items, "more": page.cursor is not None})
    elif problematic:
        told = [(one.id[:8], stand[one.id].tally.helpful, stand[one.id].tally.harmful, one.text) for one in page.items]
        print_table(("id", "helpful", "harmful", "insight"), told) if told else click.echo("no problematic insights")
    elif not page.items:
        narrowed = category or key or min_confidence is not None or status == "archived"
        click.echo("no insights like that" if narrowed else "no insights yet")
    else:
        print_insights(page.items)


def _standing(stands: Standing) -> dict[str, Any]:
    """How an insight stands, as JSON values."""
    since = stands.reexamined_since
    return {
        "helpful": stands.tally.helpful,
        "harmful": stands.tally.harmful,
        "channels": stands.channels.to_plain() if stands.channels else None,
        "reexamined_since": iso(since) if since else None,
    }


def _changes(history: Iterable[HistoryEntry]) -> list[dict[str, Any]]:
    """An insight's history as JSON values. ``text`` is there where a change gave the insight new words."""
    return [
        {
            "revision": one.revision,
            "kind": one.kind,
            "ts": iso(one.ts),
            "author": one.author,
            "reason": one.reason,
            "confidence_before": None if one.confidence_before is None else str(one.confidence_before),
            "confidence_after": str(one.confidence_after),
            "op_id": one.op_id,
            "text": one.text,
            "evidence": None if one.evidence is None else one.evidence.model_dump(mode="json"),
        }
        for one in history
    ]


def print_insights(items: tuple[Insight, ...]) -> None:
    """Insights as a table: id, confidence, votes, evidence, words."""
    print_table(
        ("id", "conf", "+/-/e", "n", "effect [95 %]", "insight"),
        [
            (one.id[:8], f"{one.confidence:.2f}", f"{one.upvotes}/{one.downvotes}/{one.edits}", *evidence_cells(one), one.text)
            for one in items
        ],
    )


def evidence_cells(insight: Insight) -> tuple[str, str]:
    """An insight's n and effect with its interval, for a table."""
    evidence = insight.evidence
    if evidence is None:
        return "-", "-"
    return str(evidence.n), f"{evidence.effect:+.2f} [{evidence.low:+.2f}, {evidence.high:+.2f}]"


@insights.command()
@click.argument("insight_id")
@json_option
@click.pass_obj
@plain_errors
def show(arguments: dict[str, str | None], insight_id: str, as_json: bool) -> None:
    """Show one insight with its claim, evidence and history; INSIGHT_ID may be the first characters of an id."""
    from gateway.composition import open_insights
    from gateway.standing import standings

    with open_insights(load_settings(**arguments)) as store:
        insight = store.find(insight_id)
        history = store.history(insight.id) if insight else ()
        stands = standings(store, [insight])[insight.id] if insight else None
        links = store.links([insight.id]) if insight else ()
    if insight is None or stands is None:
        fail(f"no single insight has an id that starts with {insight_id!r}", hint="defi-brain insights list shows the ids")
    changes = _changes(history)
    if as_json:
        print_json({"insight": insight.model_dump(mode="json") | _standing(stands), "history": changes})
        return
    click.echo(insight.text)
    click.echo()
    latest = insight.latest
    n, effect = evidence_cells(insight)
    for name, value in (
        ("id", insight.id),
        ("category", insight.category),
        ("confidence", f"{insight.confidence:.2f} ({insight.status})"),
        ("group", f"{insight.label} — {insight.key}"),
        ("episodes", n),
        ("effect", f"{effect} {insight.evidence.kind if insight.evidence else ''}"),
        ("latest", f"{latest.effect:+.2f} [{latest.low:+.2f}, {latest.high:+.2f}], n = {latest.n}" if latest else "-"),
        ("channels", _told_channels(stands.channels)),
        ("used", f"{stands.tally.helpful} decisions ended well, {stands.tally.harmful} badly"),
        ("validated", iso(insight.validated_ts)),
        *([("doubted", f"since the drift of {iso(stands.reexamined_since)}")] if stands.reexamined_since else []),
        *([("archived", _told_archived(insight))] if insight.archived else []),
        *(("link", f"{one.source[:8]} {one.relation} {one.target[:8]} ({one.strength:.2f}): {one.reason}") for one in links),
    ):
        click.echo(f"{name + ':':<13}{value}")
    click.echo()
    print_table(
        ("rev", "time", "operation", "confidence", "author", "reason"),
        [(one["revision"], one["ts"], one["kind"], one["confidence_after"], one["author"], one["reason"]) for one in changes],
    )


def _told_channels(found: Channels | None) -> str:
    return f"{found.pessimistic:.2f} / {found.median:.2f} / {found.optimistic:.2f} (low, middle, high)" if found else "-"


def _told_archived(insight: Insight) -> str:
    archived = insight.archived
    if archived is None:
        return "-"
    return f"{archived.cause} at {iso(archived.ts)}" + (f", by {archived.by}" if archived.by else "")


@insights.command("history")
@click.argument("insight_id")
@json_option
@click.pass_obj
@plain_errors
def tell_history(arguments: dict[str, str | None], insight_id: str, as_json: bool) -> None:
    """Every change of one insight: operation, words, evidence and reason. INSIGHT_ID may be the first characters of an id."""
    from gateway.composition import open_insights

    with open_insights(load_settings(**arguments)) as store:
        insight = store.find(insight_id)
        changes = _changes(store.history(insight.id)) if insight else []
    if insight is None:
        fail(f"no single insight has an id that starts with {insight_id!r}", hint="defi-brain insights list shows the ids")
    if as_json:
        print_json({"id": insight.id, "history": changes})
        return
    for one in changes:
        before = one["confidence_before"] or "-"
        click.echo(f"rev {one['revision']}  {one['ts']}  {one['kind']} by {one['author']}: {before} -> {one['confidence_after']}")
        for name in ("text", "reason"):
            if one[name]:
                click.echo(f"    {name}: {one[name]}")
        evidence = one["evidence"]
        if evidence:
            interval = f"{evidence['effect']:+.2f} [{evidence['low']:+.2f}, {evidence['high']:+.2f}]"
            click.echo(f"    evidence: {evidence['kind']} {interval}, n = {evidence['n_inside'] + evidence['n_outside']}")


@insights.command()
@click.argument("insight_id")
@click.option("--reason", default="restored by the operator", show_default=True)
@json_option
@click.pass_obj
@plain_errors
def restore(arguments: dict[str, str | None], insight_id: str, reason: str, as_json: bool) -> None:
    """Bring what is archived back into context; what was merged into another insight stays there."""
    from gateway.cli.writes import WAIT_S, found, write

    write(
        arguments,
        as_json,
        lambda service, who, request: service.restore(who, request, found(service, who, insight_id), reason, wait_s=WAIT_S),
        "restored",
    )


@insights.command()
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@json_option
@click.pass_obj
@plain_errors
def tidy(arguments: dict[str, str | None], dry_run: bool, as_json: bool) -> None:
    """Archive what is past its time, bring back what belongs to a regime that returned, merge what is there twice.

    A running ``up`` does this by itself.
    """
    from gateway.cli.through import pipeline_of
    from gateway.composition import open_embedder
    from gateway.kafka import open_any_log
    from gateway.upkeep import sweep_once

    settings = load_settings(**arguments)
    with open_any_log(settings) as log:
        with open_embedder(settings) as embedder:
            done = sweep_once(settings, None if dry_run else log, embedder)
        if done.operations and not dry_run:
            pipeline_of(settings, log).see_through()
    if as_json:
        print_json({
            "event_time": iso(done.now) if done.now else None,
            "dry_run": dry_run,
            "operations": [one.model_dump(mode="json") for one in done.operations],
        })  # fmt: skip
        return
    for one in done.operations:
        click.echo(f"{one.kind.lower()} {one.insight_id}: {one.reason}")
    told = f"{len(done.expired)} past their time, {len(done.returned)} back, {len(done.merged)} merged"
    click.echo(f"{told}; nothing was written" if dry_run else told)


@insights.command()
@click.option("--from-start/--new", default=False, help="Also what was announced before.")
@click.option("--group", help="Go on where this group of subscribers stopped.")
@click.option("--jsonl", is_flag=True, help="One JSON document a line.")
@click.option("--timeout", type=Finite(min=0), help="End after this many seconds without an update.")
@click.pass_obj
@plain_errors
def follow(arguments: dict[str, str | None], from_start: bool, group: str | None, jsonl: bool, timeout: float | None) -> None:
    """Print insight updates as they happen, in order per insight, until interrupted."""
    from gateway.kafka import open_any_log
    from streams.subscriber import Subscriber

    with open_any_log(load_settings(**arguments)) as log, Subscriber(log, group=group, from_start=from_start) as subscriber:
        try:
            for update in subscriber.updates(timeout):
                if jsonl:
                    print_json_line(update.model_dump(mode="json"))
                else:
                    insight = update.insight
                    click.echo(
                        f"{iso(update.ts)}  {update.kind:<8} rev {update.revision:<3} {insight.confidence:.2f}  "
                        f"{insight.id[:8]}  {insight.text}"
                    )
                if group:
                    subscriber.commit()
        except KeyboardInterrupt:
            subscriber.stop()
