"""``insights list|show|history|follow``: what the brain believes, how much, and why."""

from __future__ import annotations

from decimal import Decimal

import click

from gateway.cli.output import fail, json_option, plain_errors, print_json, print_json_line, print_table
from gateway.settings import load_settings
from schemas.claims import Category
from schemas.insights import Insight, InsightStatus
from schemas.types import iso


@click.group()
def insights() -> None:
    """Read the insights."""


@insights.command("list")
@click.option("--category", type=click.Choice([str(one) for one in Category]), multiple=True, help="Only this category (repeat).")
@click.option("--key", help="Only this tool:chain:pair.")
@click.option("--min-confidence", type=click.FloatRange(0, 1), help="Only at or above this confidence.")
@click.option("--status", type=click.Choice(["active", "archived", "all"]), default="active", show_default=True)
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
    limit: int,
    as_json: bool,
) -> None:
    """List insights, the surest first."""
    from gateway.composition import open_insights
    from stores.sqlite.filters import InsightFilter

    wanted = InsightFilter(
        categories=tuple(Category(one) for one in category),
        min_confidence=None if min_confidence is None else Decimal(str(min_confidence)),
        status=None if status == "all" else InsightStatus(status),
        key=key,
    )
    with open_insights(load_settings(**arguments)) as store:
        page = store.list(wanted, limit=limit)
    if as_json:
        print_json({"insights": [one.model_dump(mode="json") for one in page.items], "more": page.cursor is not None})
    elif not page.items:
        click.echo("no insights yet")
    else:
        print_insights(page.items)


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

    with open_insights(load_settings(**arguments)) as store:
        insight = store.find(insight_id)
        history = store.history(insight.id) if insight else ()
    if insight is None:
        fail(f"no single insight has an id that starts with {insight_id!r}", hint="defi-brain insights list shows the ids")
    changes = [
        {
            "revision": one.revision,
            "kind": one.kind,
            "ts": iso(one.ts),
            "author": one.author,
            "reason": one.reason,
            "confidence_before": None if one.confidence_before is None else str(one.confidence_before),
            "confidence_after": str(one.confidence_after),
            "op_id": one.op_id,
        }
        for one in history
    ]
    if as_json:
        print_json({"insight": insight.model_dump(mode="json"), "history": changes})
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
        ("validated", iso(insight.validated_ts)),
    ):
        click.echo(f"{name + ':':<13}{value}")
    click.echo()
    print_table(
        ("rev", "time", "operation", "confidence", "author", "reason"),
        [(one["revision"], one["ts"], one["kind"], one["confidence_after"], one["author"], one["reason"]) for one in changes],
    )


@insights.command()
@click.option("--from-start/--new", default=False, help="Also what was announced before.")
@click.option("--group", help="Go on where this group of subscribers stopped.")
@click.option("--jsonl", is_flag=True, help="One JSON document a line.")
@click.option("--timeout", type=click.FloatRange(min=0), help="End after this many seconds without an update.")
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
