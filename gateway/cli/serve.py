"""``serve``: the REST API, and the MCP server beside it, behind keys."""

from __future__ import annotations

from importlib.util import find_spec

import click

from gateway.cli.output import Finite, plain_errors
from gateway.settings import load_settings
from schemas.errors import BrainError


def require_gateway() -> None:
    """Are the packages of the extra there?

    Raises:
        BrainError: one is not.
    """
    missing = [name for name in ("fastapi", "jinja2", "mcp", "uvicorn") if find_spec(name) is None]
    if missing:
        raise BrainError(f"this needs {', '.join(missing)}", hint='pip install "defi-brain[gateway]"')


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 takes a free one.")
@click.option("--allow-remote", is_flag=True, help="Allow an address that others can reach.")
@click.option("--pipeline/--no-pipeline", default=True, help="Run the stages too, unless another process does.")
@click.option("--rate", type=Finite(min=0.001), default=50.0, show_default=True, help="Requests a second for each key.")
@click.option("--burst", type=click.IntRange(min=1), default=100, show_default=True, help="Requests at once for each key.")
@click.option("--max-body", type=click.IntRange(min=1000), default=1_000_000, show_default=True, help="Bytes of a request.")
@click.pass_obj
@plain_errors
def serve(
    arguments: dict[str, str | None],
    host: str,
    port: int,
    allow_remote: bool,
    pipeline: bool,
    rate: float,
    burst: int,
    max_body: int,
) -> None:
    """Serve the operator's pages, the REST API under /v1 and MCP under /mcp until interrupted.

    Every request needs a key: see `keys create`.
    """
    require_gateway()
    from gateway.brain import open_service
    from gateway.composition import layout
    from gateway.keys import KeyStore
    from gateway.logs import configure
    from gateway.mcp.transport import http_server
    from gateway.pages.app import create_pages
    from gateway.pages.wiring import facts_of
    from gateway.rest.app import Limits, create_app, gatekeeper
    from gateway.serving import bound, joined, run, url_of, with_lifespan_of

    settings = load_settings(**arguments)
    configure(settings)
    limits = Limits(rate=rate, burst=burst, body_bytes=max_body)
    listener = bound(host, port, allow_remote=allow_remote)
    with listener, open_service(settings, pipeline=pipeline) as service, KeyStore(layout(settings).keys) as keys:
        url = url_of(listener)
        keeper = gatekeeper(keys, limits)
        _, mcp = http_server(service, keys, keeper, limits.body_bytes, url)
        app = create_app(service, keys, limits, lifespan=with_lifespan_of(mcp), keeper=keeper)
        pages = create_pages(service, keys, facts_of(settings, service.log, arguments), rate=rate, burst=burst)
        click.echo(f"pages on {url}/, REST on {url}/v1, MCP on {url}/mcp; Ctrl-C stops", err=True)
        if not any(key.revoked is None for key in keys.list()):
            click.echo("hint: there is no key yet; defi-brain keys create NAME makes one", err=True)
        run(joined(app, mcp, pages), listener)
