"""``dedup stats|test|config``: what is kept once, and why."""

from __future__ import annotations

import click

from gateway.cli.output import json_option, plain_errors, print_json, print_table
from gateway.cli.writes import operator


@click.group()
def dedup() -> None:
    """Show and try what keeps the same from being kept twice."""


@dedup.command()
@json_option
@click.pass_obj
@plain_errors
def stats(arguments: dict[str, str | None], as_json: bool) -> None:
    """Count what became of the notes that were written, and of operations in all."""
    with operator(arguments, writing=False) as (service, who):
        notes = service.note_events(who)
        operations = service.stats(who).operations
    if as_json:
        print_json({"notes": notes, "operations": operations})
    elif not notes and not operations:
        click.echo("nothing was written yet")
    else:
        print_table(("what", "times"), [*((f"note {name}", n) for name, n in notes.items()), *operations.items()])


@dedup.command()
@click.argument("text")
@click.argument("other", required=False)
@click.option("--key", default="*", show_default=True, help="What TEXT is about: tool:chain:pair, or * for anything.")
@json_option
@click.pass_obj
@plain_errors
def test(arguments: dict[str, str | None], text: str, other: str | None, key: str, as_json: bool) -> None:
    """Would TEXT be kept? Compares it with the OTHER text, or with what is kept already, and says what decided. Writes nothing."""
    from workers.dedup import THRESHOLD

    with operator(arguments, writing=False) as (service, who):
        verdict = service.try_dedup(who, text, other, key)
    rows = [{"id": r.insight_id, "cosine": round(r.similarity, 6), "same": r.same, "why": r.why} for r in verdict.comparisons]
    duplicate = verdict.duplicate
    if as_json:
        print_json(
            {"duplicate_of": duplicate.id if duplicate else None, "why": verdict.why, "threshold": THRESHOLD, "comparisons": rows}
        )
        return
    click.echo(f"a duplicate of {duplicate.id}: {duplicate.text}" if duplicate else "kept: it is no duplicate")
    click.echo(f"because: {verdict.why}")
    if rows:
        click.echo()
        print_table(
            ("cosine", "same", "id", "what decided"),
            [(f"{row['cosine']:.3f}", "yes" if row["same"] else "no", str(row["id"])[:14], row["why"]) for row in rows],
        )


@dedup.command()
@json_option
@plain_errors
def config(as_json: bool) -> None:
    """Show the numbers that dedup goes by."""
    from workers import dedup as rules

    found = {"threshold": rules.THRESHOLD, "nearest": rules.NEAREST, "reinforced_from": rules.REINFORCED_FROM}
    if as_json:
        print_json(found)
    else:
        words = {
            "threshold": "cosine from which on two sentences may be one, if every value is equal",
            "nearest": "how many that stand nearest are compared",
            "reinforced_from": "the same, where both have the same words in another order; a note reinforces from here on",
        }
        print_table(("name", "value", "meaning"), [(name, value, words[name]) for name, value in found.items()])
