"""Memory around an agent's tools, in Python."""

from gateway.middleware.advice import Advice, Soft, advise
from gateway.middleware.context import MemoryContext, context_block
from gateway.middleware.loop import MemoryLoop, Situation, with_memory

__all__ = ["Advice", "MemoryContext", "MemoryLoop", "Situation", "Soft", "advise", "context_block", "with_memory"]
