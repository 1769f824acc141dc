"""How the server is reached: stdio for one local client, streamable HTTP for those with a key.

Over stdio the client started this process and is trusted as far as the tier it was started with. Over HTTP each call is made in the
name of its key, from the same store as the REST API's; a revoked key is refused at the next request. One gatekeeper may stand
before both: then a key's requests count together, and so do an address's attempts without a good one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

from gateway.keys import Caller, KeyStore, Tier
from gateway.mcp.server import create_server
from gateway.rest.guards import Door, Gatekeeper, Unknown
from gateway.service import BrainService

PATH = "/mcp"


class KeyVerifier:
    """The SDK's question whether a bearer token is good, answered by the key store."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys

    async def verify_token(self, token: str) -> AccessToken | None:
        """The key behind a token; None where there is none."""
        key = self._keys.verify(token)
        if key is None:
            return None
        return AccessToken(token=token, client_id=key.id, scopes=[str(key.tier)], claims={"name": key.name})


def caller_of_request(keeper: Gatekeeper) -> Callable[[], Caller]:
    """Who makes the present HTTP call, within their rate. A tool's error, not the transport's, says when to come again.

    Raises, when it is called:
        Unknown: there is no key with it.
        TooMany: too often.
    """

    def caller() -> Caller:
        token = get_access_token()
        if token is None:
            raise Unknown("a valid API key is needed", hint="defi-brain keys create makes one")
        found = Caller(str((token.claims or {})["name"]), Tier(token.scopes[0]), token.client_id)
        keeper.count(found)
        return found

    return caller


def http_server(
    service: BrainService, keys: KeyStore, keeper: Gatekeeper, body_bytes: int, url: str, *, wait_s: float = 5.0
) -> tuple[MCPServer[Any], Starlette]:
    """The server behind keys, and its application with the endpoint ``/mcp``. ``url`` is where it will be reached.

    ``keeper`` admits callers and counts tool calls and attempts without a good key; requests have at most ``body_bytes`` bytes.
    """
    server = create_server(
        service,
        caller_of_request(keeper),
        wait_s=wait_s,
        token_verifier=KeyVerifier(keys),
        auth=AuthSettings(issuer_url=AnyHttpUrl(url), resource_server_url=None, validate_token_resource=False),
    )
    host = AnyHttpUrl(url).host or "127.0.0.1"
    app = server.streamable_http_app(streamable_http_path=PATH, max_request_body_size=body_bytes, host=host)
    app.add_middleware(Door, keeper=keeper)
    return server, app
