"""``recall-tune show|set|reset|test``: how recall scores and cuts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.output import fail, json_option, plain_errors, print_json, print_table
from gateway.cli.writes import WAIT_S, operator, write

if TYPE_CHECKING:
    from gateway.operating import Trial
    from stores.recall.tuned import Value


@click.group("recall-tune")
def recall_tune() -> None:
    """Show, change and try recall's settings."""


@recall_tune.command()
@json_option
@click.pass_obj
@plain_errors
def show(arguments: dict[str, str | None], as_json: bool) -> None:
    """Show every setting with its default; of those that were changed also by whom and why."""
    from stores.recall.tuned import DEFAULTS

    with operator(arguments, writing=False) as (service, who):
        present, changed = asdict(service.tuning(who)), service.tuned(who)
    rows = [
        {
            "name": name,
            "value": value,
            "default": DEFAULTS[name],
            "author": changed[name].author if name in changed else None,
            "reason": changed[name].reason if name in changed else None,
        }
        for name, value in present.items()
    ]
    if as_json:
        print_json({"settings": rows})
    else:
        cells = [(r["name"], _said(r["value"]), _said(r["default"]), r["author"] or "-", r["reason"] or "-") for r in rows]
        print_table(("setting", "value", "default", "changed by", "why"), cells)


@recall_tune.command("set")
@click.argument("name")
@click.argument("value")
@click.option("--reason", default="set by the operator", show_default=True)
@json_option
@click.pass_obj
@plain_errors
def set_setting(arguments: dict[str, str | None], name: str, value: str, reason: str, as_json: bool) -> None:
    """Set NAME to VALUE, for every process on the stores."""
    from stores.recall.tuned import parsed

    wanted = {name: parsed(name, value)}
    write(
        arguments,
        as_json,
        lambda service, who, request: service.tune(who, request, wanted, reason=reason, wait_s=WAIT_S),
        f"{name} is {_said(wanted[name])}",
        names=False,
        may_begin=True,
    )


@recall_tune.command()
@click.option("--reason", default="reset by the operator", show_default=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@json_option
@click.pass_obj
@plain_errors
def reset(arguments: dict[str, str | None], reason: str, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Put every setting back to its default."""
    from stores.recall.tuned import DEFAULTS

    with operator(arguments, writing=False) as (service, who):
        changed = {name: one.value for name, one in service.tuned(who).items()}
    if dry_run or not changed:
        if as_json:
            print_json({"would_reset": changed})
        else:
            rows = [(name, _said(value), _said(DEFAULTS[name])) for name, value in changed.items()]
            print_table(("setting", "value", "would be"), rows) if rows else click.echo("every setting is at its default")
        return
    if not yes and not click.confirm(f"put {', '.join(changed)} back?", err=True):
        raise click.exceptions.Exit(1)
    write(
        arguments,
        as_json,
        lambda service, who, request: service.tune(who, request, {}, reason=reason, wait_s=WAIT_S),
        "every setting is at its default",
        names=False,
    )


@recall_tune.command()
@click.argument("query")
@click.option("--with", "trial", multiple=True, metavar="NAME=VALUE", help="Try it with this setting changed (repeat).")
@click.option("--limit", type=click.IntRange(1, 100), help="At most so many.")
@json_option
@click.pass_obj
@plain_errors
def test(arguments: dict[str, str | None], query: str, trial: tuple[str, ...], limit: int | None, as_json: bool) -> None:
    """Ask QUERY and explain the answer: each score, what was left out by which setting, and the verdict on the whole."""
    changes = dict(_pair(text) for text in trial)
    with operator(arguments, writing=False) as (service, who):
        document = explained(service.try_recall(who, query, changes, limit), limit)
    if as_json:
        print_json({"query": query, "trial": changes, **document})
        return
    click.echo(document["verdict"])
    click.echo()
    for title, rows in (("found", document["found"]), ("left out", document["left_out"])):
        click.echo(f"{title}: {len(rows)}")
        if rows:
            cells = [(f"{r['score']:.3f}", r["why"], r["id"][:8], r["text"][:80]) for r in rows]
            print_table(("score", "why", "id", "memory"), cells)


def explained(trial: Trial, limit: int | None) -> dict[str, Any]:
    """A trial as a document: the verdict in words, what was found, and what was left out by which rule."""
    from dataclasses import asdict as fields_of

    from stores.recall.grading import CORRECT_FROM, INCORRECT_BELOW

    result, tuning = trial.result, trial.tuning
    kept = {hit.id for hit in result.hits}
    verdict = f"{result.grade}"
    if result.probability is not None:
        parts = ", ".join(f"{name} {value:.2f}" for name, value in fields_of(result.signals).items()) if result.signals else "none"
        verdict += (
            f": {result.probability:.0%} likely that one of the first five is relevant (correct from {CORRECT_FROM:.0%}, nothing is"
            f" returned under {INCORRECT_BELOW:.0%}; signals: {parts})"
        )
    left = []
    for hit in trial.uncut.hits:
        cosine = hit.why.sources.get("dense")
        if hit.id in kept:
            continue
        if cosine is not None and cosine < tuning.min_score:
            why = f"cosine {cosine:.3f} < min_score {tuning.min_score:g}"
        elif result.withheld:
            why = "withheld: the whole answer is graded incorrect"
        else:
            why = f"beyond the first {tuning.limit(limit)}"
        left.append({"id": hit.id, "score": round(hit.score, 6), "why": why, "text": hit.text})
    return {
        "verdict": verdict,
        "grade": str(result.grade),
        "probability": result.probability,
        "found": [
            {
                "id": hit.id,
                "score": round(hit.score, 6),
                "why": _why(hit.why.relevance, hit.why.boosts, hit.why.gate),
                "text": hit.text,
            }
            for hit in result.hits
        ],
        "left_out": left,
    }


def _why(relevance: float, boosts: Mapping[str, float], gate: str) -> str:
    return " + ".join([f"{relevance:.3f}", *(f"{name} {value:.3f}" for name, value in boosts.items())]) + f"; {gate}"


def _pair(text: str) -> tuple[str, Value]:
    from stores.recall.tuned import parsed

    name, equals, value = text.partition("=")
    if not equals:
        fail(f"--with {text}: say NAME=VALUE", hint="for example --with min_score=0.35", code=2)
    return name, parsed(name, value)


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
