"""``links list|show|test``: how insights are connected, and what was made of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gateway.cli.output import json_option, plain_errors, print_json, print_table
from gateway.cli.writes import found, operator

if TYPE_CHECKING:
    from stores.sqlite.links import Link

RELATIONS = ("SUPPORTS", "EXTENDS", "CONTRASTS", "RELATED", "PREREQUISITE")


@click.group()
def links() -> None:
    """Show how insights are connected."""


@links.command("list")
@click.option("--relation", type=click.Choice(RELATIONS, case_sensitive=False), help="Only this relation.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@json_option
@click.pass_obj
@plain_errors
def list_links(arguments: dict[str, str | None], relation: str | None, limit: int, as_json: bool) -> None:
    """List links, the strongest first, and how many there are of each relation."""
    with operator(arguments, writing=False) as (service, who):
        counts, items = service.link_counts(who), service.strongest_links(who, limit, relation)
    if as_json:
        print_json({"relations": counts, "links": [plain_link(one) for one in items]})
        return
    click.echo(", ".join(f"{count} {name}" for name, count in counts.items()) or "no links yet")
    if items:
        rows = [(one.relation, f"{one.strength:.2f}", one.source[:8], one.target[:8], one.reason) for one in items]
        print_table(("relation", "strength", "from", "to", "why"), rows)


@links.command()
@click.argument("insight_id")
@json_option
@click.pass_obj
@plain_errors
def show(arguments: dict[str, str | None], insight_id: str, as_json: bool) -> None:
    """Show an insight's keywords, its links to both sides, and its context note."""
    with operator(arguments, writing=False) as (service, who):
        insight = service.insight(who, found(service, who, insight_id))
        mine, said = service.links_of(who, insight.id), service.organised(who, insight.id)
        texts = {one.other(insight.id): service.insight(who, one.other(insight.id)).text for one in mine}
    keywords, note = (said.keywords, said.context_note) if said else ((), None)
    if as_json:
        print_json(
            {
                "id": insight.id,
                "text": insight.text,
                "keywords": keywords,
                "context_note": note,
                "links": [{**plain_link(one), "text": texts[one.other(insight.id)]} for one in mine],
            }
        )
        return
    click.echo(insight.text)
    click.echo(f"keywords: {', '.join(keywords) or '-'}")
    click.echo(f"context:  {note or '-'}")
    if mine:
        click.echo()
        rows = [
            ("→" if one.source == insight.id else "←", one.relation, f"{one.strength:.2f}", one.other(insight.id)[:8], texts[other])
            for one in mine
            for other in (one.other(insight.id),)
        ]
        print_table(("", "relation", "strength", "id", "insight"), rows)


@links.command()
@click.argument("insight_id")
@click.argument("other_id", required=False)
@json_option
@click.pass_obj
@plain_errors
def test(arguments: dict[str, str | None], insight_id: str, other_id: str | None, as_json: bool) -> None:
    """How does INSIGHT_ID bear on OTHER_ID, or on what stands nearest to it, and why? Writes nothing."""
    from workers.links import SIMILAR_FROM

    with operator(arguments, writing=False) as (service, who):
        one = found(service, who, insight_id)
        ties = service.try_links(who, one, None if other_id is None else found(service, who, other_id))
    rows = [
        {
            "id": other.id,
            "cosine": round(cosine, 6),
            "relation": tie.relation if tie else None,
            "source": tie.source if tie else None,
            "strength": tie.strength if tie else None,
            "why": tie.why if tie else f"nothing ties them, and the cosine is under {SIMILAR_FROM}",
            "text": other.text,
        }
        for other, cosine, tie in ties
    ]
    if as_json:
        print_json({"id": one, "ties": rows})
    elif not rows:
        click.echo("nothing else is known yet")
    else:
        cells = [
            (tie.relation if tie else "-", f"{tie.strength:.2f}" if tie else "-", f"{cosine:.3f}", row["why"], other.id[:8])
            for (other, cosine, tie), row in zip(ties, rows, strict=True)
        ]
        print_table(("relation", "strength", "cosine", "why", "to"), cells)


def plain_link(link: Link) -> dict[str, Any]:
    """A link as a document."""
    return {
        "source": link.source,
        "target": link.target,
        "relation": link.relation,
        "strength": link.strength,
        "author": link.author,
        "reason": link.reason,
    }
