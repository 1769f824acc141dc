"""``model test|propose|said|run``: the language model, if there is one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import click

from gateway.cli.output import json_option, plain_errors, print_json, print_table
from gateway.settings import load_settings
from schemas.types import iso

if TYPE_CHECKING:
    from gateway.llm.propose import Round
    from schemas.model_said import ModelSaid


@click.group()
def model() -> None:
    """The language model: it may propose, and the evidence decides."""


@model.command()
@json_option
@click.pass_obj
@plain_errors
def test(arguments: dict[str, str | None], as_json: bool) -> None:
    """Ask the model one question, and explain what came of it. Exit code 1 where it cannot be used."""
    import time

    from gateway.llm.answers import READY_SCHEMA
    from gateway.llm.asker import Asker, Budget
    from gateway.llm.prompts import load_prompt
    from gateway.llm.wiring import model_breaker, open_model, utc_now

    settings = load_settings(**arguments)
    with open_model(settings) as endpoint:
        asker = Asker(
            endpoint, model_breaker(settings), Budget(settings.llm_tokens_per_hour), clock=utc_now, retries=0, max_tokens=64
        )
        began = time.monotonic()
        asked = asker.ask("test", "-", load_prompt("test.v1"), READY_SCHEMA, "test")
        took = time.monotonic() - began
    good = asked.answered and asked.plain.get("ready") is True
    said = asked.said
    report = {
        "endpoint": settings.llm_url,
        "model": said.model,
        "format": settings.llm_format,
        "timeout_s": settings.llm_timeout_s,
        "outcome": said.outcome,
        "keeps_to_the_schema": good,
        "answer": said.raw[:500],
        "problem": said.problem,
        "tokens": said.tokens,
        "seconds": round(took, 3),
    }
    if as_json:
        print_json(report)
    else:
        for name, value in report.items():
            click.echo(f"{name.replace('_', ' '):>20}: {value if value is not None else '-'}")
        if said.outcome == "answered" and not good:
            click.echo("it answers JSON of another shape: proposals will mostly be refused; another llm_format may help", err=True)
    if not good:
        raise click.exceptions.Exit(1)


@model.command()
@click.option("--key", help="Only this tool:chain:pair, whether it is due or not.")
@click.option("--dry-run", is_flag=True, help="Send no operation; what is said is recorded and counted all the same.")
@json_option
@click.pass_obj
@plain_errors
def propose(arguments: dict[str, str | None], key: str | None, dry_run: bool, as_json: bool) -> None:
    """One round of proposals: ask, test against the evidence, send what it agrees with."""
    from gateway.kafka import open_any_log
    from gateway.llm.wiring import open_proposer

    settings = load_settings(**arguments)
    with open_any_log(settings) as log, open_proposer(settings, log) as proposer:
        done = proposer.round(key=key, dry_run=dry_run)
    if as_json:
        print_json(_plain(done, dry_run))
        return
    if not done.said:
        click.echo("nothing to ask: no key has grown by half since it was last asked about")
    for said in done.said:
        click.echo(_line(said))
        for one in said.judgements:
            verdict = "taken" if one.accepted else f"refused, {one.reason}{f' ({one.detail})' if one.detail else ''}"
            click.echo(f"    {verdict}: {one.proposal}")
    click.echo(f"{len(done.operations)} operations{' would be' if dry_run else ''} sent")


def _plain(done: Round, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "said": [said.model_dump(mode="json", exclude={"asked"}) for said in done.said],
        "operations": [one.model_dump(mode="json", exclude_none=True) for one in done.operations],
    }


def _line(said: ModelSaid) -> str:
    taken = sum(one.accepted for one in said.judgements)
    tail = said.problem or f"{taken} of {len(said.judgements)} proposals taken, {said.tokens} tokens"
    return f"{iso(said.ts)}  {said.purpose}  {said.model}  {said.subject}: {said.outcome}; {tail}"


@model.command()
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most this many, newest first.")
@json_option
@click.pass_obj
@plain_errors
def said(arguments: dict[str, str | None], limit: int, as_json: bool) -> None:
    """What models have said so far, newest first, with what became of it."""
    from gateway.kafka import open_any_log
    from gateway.llm.history import records
    from schemas.topics import MODEL_SAID

    with open_any_log(load_settings(**arguments)) as log:
        end = log.end_offsets(MODEL_SAID.name)[0]
        found = [one for _, one in records(log, max(log.start_offsets(MODEL_SAID.name)[0], end - limit)) if one is not None]
    found.reverse()
    if as_json:
        print_json({"said": [one.model_dump(mode="json") for one in found]})
    elif not found:
        click.echo("no model has said anything")
    else:
        print_table(
            ("time", "about", "model", "outcome", "taken", "tokens", "subject"),
            [
                (
                    iso(one.ts), one.purpose, one.model, one.outcome,
                    f"{sum(each.accepted for each in one.judgements)}/{len(one.judgements)}", one.tokens, one.subject,
                )
                for one in found
            ],
        )  # fmt: skip


@model.command()
@click.pass_obj
@plain_errors
def run(arguments: dict[str, str | None]) -> None:
    """Make rounds of proposals until interrupted, beside a pipeline that runs elsewhere."""
    import signal

    from gateway.kafka import open_any_log
    from gateway.llm.wiring import NO_MODEL, rounds
    from schemas.errors import BrainError

    settings = load_settings(**arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with open_any_log(settings) as log, rounds(settings, log) as running:
        if running is None:
            raise BrainError("there is no language model", hint=NO_MODEL)
        click.echo(f"a round every {settings.llm_every_s:g} s with {settings.llm_model}; Ctrl-C stops", err=True)
        stop.wait()
