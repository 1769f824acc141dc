"""The service as tools and resources call it: in a thread, in the caller's name, with errors that say what to try."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError

from gateway.errors import Gone, NotFound
from gateway.keys import Caller
from gateway.patience import Patience
from gateway.service import BrainService
from gateway.views import WriteView
from schemas.errors import BrainError

T = TypeVar("T")


class Face:
    """A service, who calls it, and how long a write waits."""

    def __init__(self, service: BrainService, caller: Callable[[], Caller], wait_s: float) -> None:
        self.service = service
        self._caller = caller
        self._patience = Patience(wait_s)

    async def ask(self, work: Callable[[Caller], T]) -> T:
        """Run a piece of work.

        Raises:
            ToolError: what the caller can do something about.
        """
        with _told():
            return await anyio.to_thread.run_sync(partial(work, self._caller()))

    async def write(self, context: Context, work: Callable[[Caller, float], WriteView], wait: bool) -> WriteView:
        """Run a write, with progress while it is waited for.

        Raises:
            ToolError: it was refused, or see :meth:`ask`.
        """
        await context.report_progress(0, 1, "sending")
        with _told():
            caller = self._caller()
            done = await self._patience.write(partial(work, caller), wait=wait)
        await context.report_progress(1, 1, done.state)
        if done.state == "refused":
            raise ToolError(f"refused: {done.reason}: {done.detail}; read the insight again before you decide what to do")
        return done

    async def resource(self, work: Callable[[Caller], Any]) -> str:
        """A resource's JSON.

        Raises:
            ResourceError: there is no such thing, or the caller may not read it.
        """
        try:
            found = await anyio.to_thread.run_sync(partial(work, self._caller()))
        except (NotFound, Gone) as error:
            raise ResourceNotFoundError(_line(error)) from error
        except BrainError as error:
            raise ResourceError(_line(error)) from error
        return str(found.model_dump_json())


@contextmanager
def _told() -> Iterator[None]:
    """Errors that the caller can do something about, as tools tell them."""
    try:
        yield
    except BrainError as error:
        raise ToolError(_line(error)) from error
    except ValueError as error:
        raise ToolError(f"{error}; correct the arguments and call again") from error


def _line(error: BrainError) -> str:
    return f"{error}; {error.hint}" if error.hint else str(error)
