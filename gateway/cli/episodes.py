"""``episodes search|show``: what happened."""

from __future__ import annotations

import click

from gateway.cli.output import fail, json_option, plain_errors, print_json, print_table
from gateway.settings import load_settings
from schemas.types import iso


@click.group()
def episodes() -> None:
    """Read the episodes."""


@episodes.command()
@click.argument("query")
@click.option("--key", help="Only this tool:chain:pair.")
@click.option("--tool", help="Only this tool.")
@click.option("--regime", help="Only while its market was in this regime.")
@click.option("--limit", type=click.IntRange(1, 100), default=5, show_default=True)
@json_option
@click.pass_obj
@plain_errors
def search(
    arguments: dict[str, str | None], query: str, key: str | None, tool: str | None, regime: str | None, limit: int, as_json: bool
) -> None:
    """Find episodes by words and by meaning; QUERY is any text."""
    from gateway.composition import open_embedder, open_episodes, open_insights
    from gateway.regimes import narrowed, with_regime
    from stores.episodes import EpisodeFilter
    from stores.sqlite.regimes import Timelines

    settings = load_settings(**arguments)
    with open_episodes(settings) as store, open_embedder(settings) as embedder, open_insights(settings) as insights:
        timelines = Timelines(insights.stretches())
        wanted = narrowed(EpisodeFilter(key=key, tool=tool, regime=regime), timelines)
        hits = [with_regime(hit, timelines) for hit in store.search(query, embedder, wanted, limit=limit)]
    if as_json:
        print_json(
            {
                "query": query,
                "hits": [
                    {
                        "id": one.id,
                        "score": one.score,
                        "ts": iso(one.ts),
                        "key": one.key,
                        "regime": one.regime,
                        "reflection": one.reflection,
                    }
                    for one in hits
                ],
            }
        )
    elif not hits:
        click.echo("no episodes")
    else:
        print_table(("id", "score", "time", "reflection"), [(o.id[:8], f"{o.score:.3f}", iso(o.ts), o.reflection) for o in hits])


@episodes.command()
@click.argument("episode_id")
@json_option
@click.pass_obj
@plain_errors
def show(arguments: dict[str, str | None], episode_id: str, as_json: bool) -> None:
    """Show one episode with its metrics, features and original event."""
    from gateway.composition import open_episodes

    with open_episodes(load_settings(**arguments)) as store:
        episode = store.find(episode_id)
    if episode is None:
        fail(f"no single episode has an id that starts with {episode_id!r}", hint="defi-brain episodes search QUERY shows ids")
    plain = episode.model_dump(mode="json", exclude={"vector"}, exclude_none=True)
    if as_json:
        print_json(plain)
        return
    click.echo(episode.reflection)
    click.echo()
    click.echo(f"id:         {episode.id}\ngroup:      {episode.label} — {episode.key}\nembedded:   {episode.sentence}")
    click.echo(f"importance: {episode.importance:.3g}")
    for name in ("metrics", "features"):
        click.echo(f"\n{name}:")
        for field, value in sorted(plain[name].items()):
            click.echo(f"  {field:<18}{value}")
