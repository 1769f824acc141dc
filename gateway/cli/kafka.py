"""``topics``, ``worker``, ``replay`` and ``mirror``: the brain on Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from gateway.cli.live import Live
from gateway.cli.output import Progress, fail, json_option, plain_errors, print_json, print_table
from gateway.process import settle_for_stores
from gateway.settings import load_settings
from schemas.settings import Settings

ROLES = ("embed", "episodes", "signals", "distil", "levels", "breakers", "writer")


@click.group()
def topics() -> None:
    """Make and check the topics on a Kafka cluster."""


@topics.command("apply")
@json_option
@click.pass_obj
@plain_errors
def apply_topics(arguments: dict[str, str | None], as_json: bool) -> None:
    """Make what is missing and correct settings. A wrong partition count is refused."""
    from streams.kafka.topics import apply_topics as apply

    done = asyncio.run(apply(load_settings(**arguments)))
    if as_json:
        print_json({"done": done})
        return
    click.echo("\n".join(done) if done else "the topics are as they should be")


@topics.command("check")
@json_option
@click.pass_obj
@plain_errors
def check_topics(arguments: dict[str, str | None], as_json: bool) -> None:
    """Say what differs from the table of topics; exit code 3 when anything does."""
    from streams.kafka.topics import check_topics as check

    findings = asyncio.run(check(load_settings(**arguments)))
    if as_json:
        print_json({"findings": [{"topic": one.topic, "problem": one.problem, "can_apply": one.can_apply} for one in findings]})
    elif findings:
        rows = [(one.topic, one.problem, "topics apply" if one.can_apply else "replace it by hand") for one in findings]
        print_table(("topic", "problem", "what helps"), rows)
    else:
        click.echo("the topics are as they should be")
    if findings:
        raise SystemExit(3)


@click.command()
@click.argument("roles", nargs=-1, required=True, type=click.Choice([*ROLES, "all"]))
@json_option
@click.pass_obj
@plain_errors
def worker(arguments: dict[str, str | None], roles: tuple[str, ...], as_json: bool) -> None:
    """Run workers on Kafka until interrupted: one, several, or all of them in one process."""
    from gateway.kafka import require_kafka
    from gateway.logs import configure

    settings = load_settings(**arguments)
    configure(settings)
    require_kafka(settings, hint="on the embedded log `up` runs all stages in one process")
    run_and_tell(settings, ROLES if "all" in roles else roles, as_json)


def run_and_tell(settings: Settings, roles: Sequence[str], as_json: bool) -> None:
    """Run workers until interrupted, and say what they did. Beside the writer its store is kept tidy and linked."""
    from gateway.kafka import run_workers

    live = Live()
    settle_for_stores()
    click.echo(f"{', '.join(roles)} on {settings.broker}; Ctrl-C stops", err=True)
    with _beside_the_writer(settings) if "writer" in roles else nullcontext():
        run_workers(settings, roles, live.take)
    live.clear()
    if as_json:
        print_json(live.summary())


@contextmanager
def _beside_the_writer(settings: Settings) -> Iterator[None]:
    """What looks at the writer's store now and then and publishes operations: retention and dedup, keywords and links."""
    from gateway.composition import open_embedder
    from gateway.organiser import organiser_beside
    from gateway.upkeep import upkeep_beside
    from streams.kafka.log import KafkaLog

    with (
        KafkaLog(settings) as log,
        open_embedder(settings) as embedder,
        upkeep_beside(settings, log, embedder),
        organiser_beside(settings, log),
    ):
        yield


@click.command()
@click.argument("role", type=click.Choice(ROLES))
@click.option("--from-offset", type=click.IntRange(0), help="Read again from this offset of each partition.")
@click.option("--from-ts", type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]), help="Read again what arrived since then (UTC).")
@json_option
@click.pass_obj
@plain_errors
def replay(arguments: dict[str, str | None], role: str, from_offset: int | None, from_ts: object, as_json: bool) -> None:
    """Let a worker read its topics again. It must not be running; what it did before it does not do twice."""
    from datetime import UTC, datetime

    from gateway.kafka import INPUTS, require_kafka, running_elsewhere
    from streams.kafka.client import group_of
    from streams.kafka.log import KafkaLog
    from streams.replay import earlier

    if (from_offset is None) == (from_ts is None):
        raise click.UsageError("give --from-offset or --from-ts")
    settings = load_settings(**arguments)
    require_kafka(settings, hint="on the embedded log `rebuild` folds everything again, and `dlq replay` sends letters again")
    moved: dict[tuple[str, int], int] = {}
    with KafkaLog(settings) as log:
        if role in running_elsewhere(settings):
            fail(f"a worker {role} is running", hint="stop it first: it would go on where it is")
        group = group_of(settings, role)
        committed = log.committed(group)
        for topic in INPUTS[role]:
            mine = {partition: offset for (name, partition), offset in committed.items() if name == topic.name}
            if isinstance(from_ts, datetime):
                wanted = log.offsets_at(topic.name, round(from_ts.replace(tzinfo=UTC).timestamp() * 1000))
            else:
                wanted = dict.fromkeys(mine, from_offset or 0)
            moved |= {(topic.name, partition): offset for partition, offset in earlier(mine, wanted).items()}
        if not moved:
            fail(f"{role} has read nothing yet", hint="there is nothing to read again")
        log.commit(group, moved)
    if as_json:
        print_json({"role": role, "offsets": [{"topic": t, "partition": p, "offset": o} for (t, p), o in sorted(moved.items())]})
        return
    print_table(
        ("topic", "partition", "goes on at"), [(topic, str(p), str(offset)) for (topic, p), offset in sorted(moved.items())]
    )


@click.command()
@click.option("--from", "source", required=True, help="embedded://PATH, a log that nobody writes to meanwhile.")
@click.option("--to", "target", required=True, help="kafka://HOST:PORT, with topics that are new or a mirror's.")
@json_option
@click.pass_obj
@plain_errors
def mirror(arguments: dict[str, str | None], source: str, target: str, as_json: bool) -> None:
    """Move an embedded log to a Kafka cluster; every record keeps its place."""
    from streams.embedded.log import EmbeddedLog
    from streams.kafka.log import KafkaLog
    from streams.kafka.mirror import hand_over
    from streams.kafka.mirror import mirror as copy

    if not target.startswith("kafka://"):
        fail(f"{target} is no cluster", hint="name it as kafka://HOST:PORT")
    settings = load_settings(**{**arguments, "broker": target})
    path = Path(source.removeprefix("embedded://"))
    if not source.startswith("embedded://") or not path.is_file():
        fail(f"there is no embedded log at {source}", hint="name it as embedded://PATH")
    progress = Progress()
    with EmbeddedLog(path) as log, KafkaLog(settings) as cluster:
        copied = copy(log, cluster, lambda count: progress.show(f"{count} records copied"))
        hand_over(settings, cluster, {role: log.stage_offsets(role) for role in ROLES})
    progress.clear()
    if as_json:
        print_json({"copied": copied, "from": source, "to": target})
        return
    click.echo(f"{copied} records copied; now: defi-brain --broker {target} worker all, in a new data folder")
