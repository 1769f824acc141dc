"""``dlq list|show|replay``: what could not be processed, why, and once more."""

from __future__ import annotations

import sys
from collections import Counter, deque

import click

from gateway.cli.output import fail, json_option, plain_errors, print_json, print_table
from gateway.settings import load_settings
from schemas.dead_letters import DeadLetter


@click.group()
def dlq() -> None:
    """Dead letters: rejected records with their original bytes."""


@dlq.command("list")
@click.option("--reason", help="Only this reason.")
@click.option("--stage", help="Only what this stage refused.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most this many, newest last.")
@json_option
@click.pass_obj
@plain_errors
def list_letters(arguments: dict[str, str | None], reason: str | None, stage: str | None, limit: int, as_json: bool) -> None:
    """List dead letters, with a count for each reason."""
    from gateway.kafka import open_any_log
    from streams.dead_letters import dead_letters

    reasons: Counter[str] = Counter()
    shown: deque[DeadLetter] = deque(maxlen=limit)
    with open_any_log(load_settings(**arguments)) as log:
        for letter in dead_letters(log, stage=stage, reason=reason):
            reasons[letter.reason] += 1
            shown.append(letter)
    if as_json:
        document = {"total": reasons.total(), "reasons": dict(sorted(reasons.items())), "letters": [_plain(one) for one in shown]}
        print_json(document)
        return
    if not shown:
        click.echo("no dead letters")
        return
    rows = [(one.id[:8], one.stage, one.reason, f"{one.topic}/{one.partition}@{one.offset}", one.detail) for one in shown]
    print_table(("id", "stage", "reason", "from", "detail"), rows)
    click.echo(f"{reasons.total()} in all: " + ", ".join(f"{count} {name}" for name, count in reasons.most_common()))


@dlq.command()
@click.argument("letter_id")
@click.option("--raw", is_flag=True, help="Write the original value's bytes, and nothing else, to stdout.")
@json_option
@click.pass_obj
@plain_errors
def show(arguments: dict[str, str | None], letter_id: str, raw: bool, as_json: bool) -> None:
    """Show one dead letter; LETTER_ID may be the first characters of an id."""
    from gateway.kafka import open_any_log
    from streams.dead_letters import find_dead_letter

    with open_any_log(load_settings(**arguments)) as log:
        letter = find_dead_letter(log, letter_id)
    if letter is None:
        fail(f"no single dead letter has an id that starts with {letter_id!r}", hint="defi-brain dlq list shows the ids")
    if raw:
        sys.stdout.buffer.write(letter.value or b"")
    elif as_json:
        print_json(_plain(letter))
    else:
        for name, value in _plain(letter).items():
            click.echo(f"{name + ':':<17}{value}")


@dlq.command("replay")
@click.argument("letter_ids", nargs=-1)
@click.option("--reason", help="All letters of this reason.")
@click.option("--stage", help="All letters of this stage.")
@json_option
@click.pass_obj
@plain_errors
def replay_letters(
    arguments: dict[str, str | None], letter_ids: tuple[str, ...], reason: str | None, stage: str | None, as_json: bool
) -> None:
    """Send dead letters' records again, as they came. What is still wrong with them is found again; nothing is done twice.

    By --reason or --stage a record is sent once, whatever number of letters it has; lines of files are ingested anew instead.
    """
    from gateway.kafka import open_any_log
    from streams.dead_letters import find_dead_letter
    from streams.replay import resend, to_send_again

    if not (letter_ids or reason or stage):
        raise click.UsageError("name letters, or give --reason or --stage")
    with open_any_log(load_settings(**arguments)) as log:
        if letter_ids:
            named = {letter_id: find_dead_letter(log, letter_id) for letter_id in letter_ids}
            missing = [letter_id for letter_id, letter in named.items() if letter is None]
            if missing:
                fail(f"no single dead letter has an id that starts with {missing[0]!r}", hint="defi-brain dlq list shows the ids")
            letters = [letter for letter in named.values() if letter]
        else:
            letters = to_send_again(log, stage=stage, reason=reason)
        positions = resend(log, letters)
    if as_json:
        print_json({"sent": [{"topic": at.topic, "partition": at.partition, "offset": at.offset} for at in positions]})
        return
    click.echo(f"{len(positions)} records sent again")


def _plain(letter: DeadLetter) -> dict[str, object]:
    """A letter for people: bytes as text where they are text, escaped where not."""
    plain = letter.model_dump(mode="json", exclude={"key", "value", "headers"})
    for name, data in (("key", letter.key), ("value", letter.value)):
        plain[name] = None if data is None else data.decode("utf-8", "backslashreplace")
    plain["headers"] = {name: data.decode("utf-8", "backslashreplace") for name, data in letter.headers}
    return plain
