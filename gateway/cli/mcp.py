"""``mcp``: the memory as an MCP server, over stdio for one local client or over HTTP behind keys."""

from __future__ import annotations

import click

from gateway.cli.output import plain_errors
from gateway.cli.serve import require_gateway
from gateway.settings import load_settings


@click.command()
@click.option("--http", is_flag=True, help="Streamable HTTP under /mcp, behind keys, instead of stdio.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8766, show_default=True, help="With --http: port; 0 takes a free one."
)
@click.option("--allow-remote", is_flag=True, help="With --http: allow an address that others can reach.")
@click.option("--author", default="mcp-client", show_default=True, help="Over stdio: who stands beside what the client writes.")
@click.option(
    "--tier",
    type=click.Choice(["read", "feedback", "admin"]),
    default="feedback",
    show_default=True,
    help="Over stdio: what it may do.",
)
@click.option("--pipeline/--no-pipeline", default=True, help="Run the stages too, unless another process does.")
@click.pass_obj
@plain_errors
def mcp(
    arguments: dict[str, str | None],
    http: bool,
    host: str,
    port: int,
    allow_remote: bool,
    author: str,
    tier: str,
    pipeline: bool,
) -> None:
    """Serve the memory to MCP clients until stdin ends or, over HTTP, until interrupted."""
    require_gateway()
    from gateway.brain import open_service
    from gateway.composition import layout
    from gateway.keys import Caller, KeyStore, Tier
    from gateway.logs import configure

    settings = load_settings(**arguments)
    configure(settings)
    if not http:
        from gateway.mcp.server import create_server

        caller = Caller(author, Tier(tier))
        with open_service(settings, pipeline=pipeline) as service:
            create_server(service, lambda: caller).run("stdio")
        return
    from gateway.mcp.transport import http_server
    from gateway.rest.app import Limits, gatekeeper
    from gateway.serving import bound, run, url_of

    listener = bound(host, port, allow_remote=allow_remote)
    with listener, open_service(settings, pipeline=pipeline) as service, KeyStore(layout(settings).keys) as keys:
        url = url_of(listener)
        limits = Limits()
        _, app = http_server(service, keys, gatekeeper(keys, limits), limits.body_bytes, url)
        click.echo(f"MCP on {url}/mcp; Ctrl-C stops", err=True)
        run(app, listener)
