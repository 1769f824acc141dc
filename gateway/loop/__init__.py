"""The closed loop: the same simulated market traded twice, once ignoring the memory and once letting it move soft parameters.

Nothing here is real. ``market`` is what happens and what a choice costs, ``effects`` the kinds of market, ``memory`` the learning
core in one process, ``desk`` the agent, ``runs`` many seeds and what they add up to.
"""

from gateway.loop.desk import Bounds, Desk, Exploring, Result, habits_of, plain_costs, run
from gateway.loop.effects import MARKETS
from gateway.loop.market import Choice, Street
from gateway.loop.runs import BOUND_BPS, Table, paired, table

__all__ = [
    "BOUND_BPS",
    "MARKETS",
    "Bounds",
    "Choice",
    "Desk",
    "Exploring",
    "Result",
    "Street",
    "Table",
    "habits_of",
    "paired",
    "plain_costs",
    "run",
    "table",
]
