"""What a record key is about, and whether that takes in a place that somebody asks for.

A key is ``tool:chain:pair``. What is known above the pair leaves parts open: ``swap:*:*`` is about every pair of a tool and ``*``
about everything; of simulated executions they are ``swap:*-simulated:*`` and ``*-simulated`` (``docs/levels.md``). Whoever asks for
a tool, a chain and a pair is told what holds there, so also what is open there; never what is about another tool, chain or pair. A
part that is left out behind an open one is open, too. What simulated executions taught in general holds on simulated chains only.
"""

from __future__ import annotations

OPEN = "*"
_SIMULATED = "-simulated"
OPEN_SIMULATED = OPEN + _SIMULATED


def takes_in(
    about: tuple[str, str, str], tool: str | None, chain: str | None, pair: str | None, *, simulated: bool = False
) -> bool:
    """Whether what is known ``about`` a tool, a chain and a pair holds where it is asked for; None asks for any.

    ``simulated``: whether it was learned from simulated executions.

    >>> swaps, everything = ("swap", "*", "*"), ("*", "", "")
    >>> [takes_in(swaps, tool, "1", "a/b") for tool in ("swap", "lend")], takes_in(everything, "lend", "1", "a/b")
    ([True, False], True)
    >>> [takes_in(("*-simulated", "", ""), "swap", chain, None, simulated=True) for chain in ("1", "1-simulated", None)]
    [False, True, True]
    """
    own_tool, own_chain, own_pair = opened(about)
    general = own_chain in (OPEN, OPEN_SIMULATED) and (_on_paper(chain) or not (simulated or own_chain == OPEN_SIMULATED))
    return (
        (tool is None or own_tool in (tool, OPEN))
        and (chain is None or own_chain == chain or general)
        and (pair is None or own_pair in (pair, OPEN))
    )


def opened(about: tuple[str, str, str]) -> tuple[str, str, str]:
    """The three parts of a key, with those that it leaves out behind an open one.

    >>> opened(("*", "", "")), opened(("*-simulated", "", "")), opened(("swap", "*", ""))
    (('*', '*', '*'), ('*', '*-simulated', '*'), ('swap', '*', '*'))
    """
    tool, chain, pair = about
    if tool == OPEN_SIMULATED:
        tool, chain = OPEN, chain or OPEN_SIMULATED
    chain = OPEN if tool == OPEN and not chain else chain
    return tool, chain, OPEN if chain in (OPEN, OPEN_SIMULATED) and not pair else pair


def is_simulated(key: str) -> bool:
    """Whether a record key, or one above it, is of simulated executions.

    >>> [is_simulated(key) for key in ("swap:1-simulated:a/b", "swap:*-simulated:*", "*-simulated", "swap:1:a/b", "*")]
    [True, True, True, False, False]
    """
    tool, colon, rest = key.partition(":")
    return (rest.partition(":")[0] if colon else tool).endswith(_SIMULATED)


def _on_paper(chain: str | None) -> bool:
    return chain is not None and chain.endswith(_SIMULATED)


TAKES_IN = """
    (:tool IS NULL OR tool IN (:tool, '*', '*-simulated'))
    AND (:chain IS NULL OR chain = :chain OR (
        (chain IN ('*', '*-simulated') OR (chain = '' AND tool IN ('*', '*-simulated')))
        AND (:chain LIKE '%-simulated' OR (simulated = 0 AND chain <> '*-simulated' AND tool <> '*-simulated'))
    ))
    AND (:pair IS NULL OR pair IN (:pair, '*') OR (
        pair = '' AND (chain IN ('*', '*-simulated') OR (chain = '' AND tool IN ('*', '*-simulated')))
    ))
"""
"""The same condition for SQLite, over the columns tool, chain, pair and simulated."""
