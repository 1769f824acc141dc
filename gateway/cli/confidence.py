"""``confidence list|get|set|decay|boost``: how sure the memory is, and an operator's say in it."""

from __future__ import annotations

from decimal import Decimal

import click

from gateway.cli.output import Finite, json_option, plain_errors, print_json, print_table
from gateway.cli.writes import WAIT_S, found, operator, write


@click.group()
def confidence() -> None:
    """Show and correct confidence."""


@confidence.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@json_option
@click.pass_obj
@plain_errors
def list_confidence(arguments: dict[str, str | None], limit: int, as_json: bool) -> None:
    """List insights, the least sure first."""
    with operator(arguments, writing=False) as (service, who):
        items = service.least_sure(who, limit)
    if as_json:
        print_json({"insights": [{"id": one.id, "confidence": float(one.confidence), "text": one.text} for one in items]})
    elif not items:
        click.echo("no insights yet")
    else:
        print_table(("conf", "id", "insight"), [(f"{one.confidence:.3f}", one.id[:8], one.text) for one in items])


@confidence.command()
@click.argument("insight_id")
@json_option
@click.pass_obj
@plain_errors
def get(arguments: dict[str, str | None], insight_id: str, as_json: bool) -> None:
    """Show one insight's confidence and every step to it."""
    with operator(arguments, writing=False) as (service, who):
        name = found(service, who, insight_id)
        steps = service.history(who, name)
    rows = [
        {
            "revision": one.revision,
            "kind": one.kind,
            "before": None if one.confidence_before is None else float(one.confidence_before),
            "after": float(one.confidence_after),
            "author": one.author,
            "reason": one.reason,
        }
        for one in steps
    ]
    if as_json:
        print_json({"id": name, "confidence": rows[-1]["after"], "steps": rows})
        return
    click.echo(f"{rows[-1]['after']:.3f}  {name}")
    print_table(
        ("rev", "operation", "before", "after", "author", "reason"),
        [
            (r["revision"], r["kind"], "-" if r["before"] is None else r["before"], r["after"], r["author"], r["reason"])
            for r in rows
        ],
    )


@confidence.command("set")
@click.argument("insight_id")
@click.argument("value", type=Finite(0, 1))
@click.option("--reason", default="set by the operator", show_default=True)
@json_option
@click.pass_obj
@plain_errors
def set_confidence(arguments: dict[str, str | None], insight_id: str, value: float, reason: str, as_json: bool) -> None:
    """Set an insight's confidence to VALUE."""
    wanted = Decimal(str(value))
    write(
        arguments,
        as_json,
        lambda service, who, request: service.adjust(
            who, request, found(service, who, insight_id), reason, confidence=wanted, wait_s=WAIT_S
        ),
        "set",
    )


@confidence.command()
@click.argument("insight_id")
@click.option("--by", type=Finite(0, 1, min_open=True), default=0.20, show_default=True, help="How much.")
@click.option("--reason", default="decayed by the operator", show_default=True)
@json_option
@click.pass_obj
@plain_errors
def decay(arguments: dict[str, str | None], insight_id: str, by: float, reason: str, as_json: bool) -> None:
    """Take something off an insight's confidence."""
    _move(arguments, insight_id, -Decimal(str(by)), reason, as_json)


@confidence.command()
@click.argument("insight_id")
@click.option("--by", type=Finite(0, 1, min_open=True), default=0.05, show_default=True, help="How much.")
@click.option("--reason", default="boosted by the operator", show_default=True)
@json_option
@click.pass_obj
@plain_errors
def boost(arguments: dict[str, str | None], insight_id: str, by: float, reason: str, as_json: bool) -> None:
    """Add something to an insight's confidence."""
    _move(arguments, insight_id, Decimal(str(by)), reason, as_json)


def _move(arguments: dict[str, str | None], insight_id: str, delta: Decimal, reason: str, as_json: bool) -> None:
    write(
        arguments,
        as_json,
        lambda service, who, request: service.adjust(
            who, request, found(service, who, insight_id), reason, delta=delta, wait_s=WAIT_S
        ),
        "moved",
    )
