"""Why it failed, as a class: error texts differ by address, number and client; what to do about them does not.

The first class whose mark stands in the text wins, in this order: what is specific comes before what is general.
"""

from __future__ import annotations

from schemas.events import Status

_MARKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("slippage", ("slippage", "too little received", "insufficient_output", "insufficient output", "min return", "minreturn",
                  "too much requested", "excessive_input", "price impact", "return amount is not enough")),
    ("deadline", ("deadline", "expired", "transaction too old")),
    ("allowance", ("allowance", "transfer_from_failed", "transferfrom failed", "not approved", "permit", "stf")),
    ("gas", ("out of gas", "underpriced", "gas required exceeds", "intrinsic gas", "max fee per gas", "base fee")),
    ("nonce", ("nonce",)),
    ("funds", ("insufficient funds", "insufficient balance", "exceeds balance", "insufficient_balance", "balance is not enough",
               "not enough balance")),
    ("liquidity", ("liquidity", "no route", "not enough depth")),
    ("policy", ("limit exceeded", "spending cap", "allowlist", "allow-list", "not allowed", "policy", "breaker", "blocked",
                "cannot be used")),
    ("paused", ("paused", "frozen", "emergency")),
    ("oracle", ("oracle", "stale price", "price feed")),
    ("transport", ("timeout", "timed out", "connection", "rate limit", "unavailable", "rpc")),
    ("transfer", ("transfer failed", "transfer_failed", "transferhelper")),
    ("absent", ("not found", "not available", "not enough seats", "does not exist")),
    ("arguments", ("does not add up", "invalid argument", "missing argument")),
    ("unsolved", ("was not solved",)),
)  # fmt: skip

UNKNOWN = "unknown"
_BY_STATUS = {Status.DROPPED: "dropped", Status.REJECTED: "rejected"}
KINDS = (*(name for name, _ in _MARKS), *_BY_STATUS.values(), UNKNOWN)
"""Every class there is."""


def error_class(error: str | None) -> str:
    """The class of an error text; ``unknown`` where none fits or there is no text.

    >>> error_class("execution reverted: Too little received"), error_class("0xdeadbeef"), error_class(None)
    ('slippage', 'unknown', 'unknown')
    """
    text = (error or "").lower()
    return next((name for name, marks in _MARKS if any(mark in text for mark in marks)), UNKNOWN)


def error_kind(status: Status | str, error: str | None) -> str:
    """The class of a failure: by its text, else by how it ended where that says something.

    >>> error_kind("reverted", "Too little received"), error_kind("dropped", None), error_kind("failed", "")
    ('slippage', 'dropped', 'unknown')
    """
    kind = error_class(error)
    return _BY_STATUS.get(Status(status), UNKNOWN) if kind == UNKNOWN else kind
