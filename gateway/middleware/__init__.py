"""Memory around an agent's tools, in Python."""

from gateway.middleware.advice import Advice, Soft, advise
from gateway.middleware.choice import Choice, Option, choose
from gateway.middleware.context import MemoryContext, context_block
from gateway.middleware.guard import Guard, Limits
from gateway.middleware.loop import MemoryLoop, Situation, with_memory

__all__ = [
    "Advice",
    "Choice",
    "Guard",
    "Limits",
    "MemoryContext",
    "MemoryLoop",
    "Option",
    "Situation",
    "Soft",
    "advise",
    "choose",
    "context_block",
    "with_memory",
]
