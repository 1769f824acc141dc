"""A client's own model, by MCP sampling: the one optional adapter, all of it in this file.

Sampling is deprecated since the 2026-07-28 specification and few clients offer it; nothing else here depends on it. The question is
put as a resolver's ``Sample``, which the SDK carries either way: as a request of its own on older connections, as required input on
newer ones. What comes back is treated like any model's answer: recorded, tested, and mostly refused.
"""

# No deferred annotations here: the SDK evaluates a tool's, and `Resolve(ask)` names a function that only exists where it is made.
from collections.abc import Callable
from typing import Annotated, Any

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CreateMessageResult, SamplingMessage, TextContent, ToolAnnotations

from gateway.keys import Caller
from gateway.llm.service import Proposing, ReflectionView
from gateway.mcp.arguments import RequestIdArgument
from gateway.rest.bodies import Key
from schemas.errors import BrainError

NO_SAMPLING = "your client does not offer sampling, so its model cannot be asked; insights are distilled without one all the same"


def add_reflect(server: MCPServer[Any], service: Proposing, caller: Callable[[], Caller]) -> None:
    """Register the tool ``reflect``."""

    async def ask(context: Context, request_id: RequestIdArgument, key: Key) -> Sample | None:
        capabilities = context.client_capabilities
        if capabilities is None or capabilities.sampling is None:
            return None
        try:
            who = caller()
            if await anyio.to_thread.run_sync(lambda: service.reflected(who, request_id)) is not None:
                return None
            question = await anyio.to_thread.run_sync(lambda: service.question_about(who, key))
        except BrainError as error:
            raise ToolError(str(error)) from error
        if question is None:
            raise ToolError(f"there is not enough about {key!r} to ask about; memory_stats and search_memory show what there is")
        asked = [SamplingMessage(role="user", content=TextContent(type="text", text=question.user))]
        return Sample(asked, system_prompt=question.system, max_tokens=question.max_tokens, temperature=0.0)

    @server.tool(
        title="Reflect on a market with your own model",
        annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False),
    )
    async def reflect(
        request_id: RequestIdArgument, key: Key, answer: Annotated[CreateMessageResult | None, Resolve(ask)]
    ) -> ReflectionView:
        """Ask your client's model what holds for a `tool:chain:pair`, and test what it says against executions that it did not see.

        Only what the evidence confirms becomes an insight; everything is recorded with its verdict.
        """
        try:
            who = caller()
            before = await anyio.to_thread.run_sync(lambda: service.reflected(who, request_id))
            if before is not None:
                return before
            if answer is None:
                raise ToolError(NO_SAMPLING)
            text = answer.content.text if isinstance(answer.content, TextContent) else ""
            return await anyio.to_thread.run_sync(lambda: service.take_answer(who, request_id, key, f"client {answer.model}", text))
        except BrainError as error:
            raise ToolError(f"{error}; {error.hint}" if error.hint else str(error)) from error
