"""A portfolio's drawdown from its high-water mark, in exact numbers, and the state that follows from it.

**The mark.** Deposits and withdrawals are not gains and losses, so the mark is kept as a fund keeps it: by the price of a unit. Of
a valuation worth V after a net flow F since the last one, the part before the flow is V − F; the drawdown is 1 − (V − F)/mark. A
flow then buys or redeems units at that price, which moves the mark in proportion: mark' = mark · V/(V − F), so that the drawdown
after the flow is exactly the one before it. At a new high the mark is V. Flows come as a running total, so a valuation that was
lost costs precision (its flow is taken to have happened at the end of the gap) and never a deposit.

**Exactly.** Value, mark and thresholds are compared as fractions: 1 − 93/100 is 7 %, which in floats it is not. A mark's fraction
grows with each flow below the high; over 512 bits it is rounded up to a multiple of 2^-256, so a drawdown is never understated.

**Nothing and less than nothing.** A portfolio that was emptied keeps its drawdown: money that is paid in again starts as far below
its mark as the last left it. One that was worth nothing *before* a flow has lost everything, and no unit price leads back: it
stays stopped until a person begins the mark anew (``restart``).

**Blind.** A valuation with a missing or stale price decides nothing: it neither trips nor clears, moves no mark, and its flow is
told again by the next. But it is not hidden: the book is ``blind`` from then on, with the reason, until one that can be judged.

**The state.** A threshold is reached at its value (a fall of exactly 7 % halts) and left only when the drawdown is back under it by
the hysteresis, so a portfolio at 6.99 and 7.01 % by turns halts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any

from schemas.portfolio import BreakerState, PortfolioValuation

BPS = 10_000
SEEN = 32
"""Ids of valuations that are remembered to tell a repeated one from a late one."""
_WIDEST = 512
_FINEST = 1 << 256


class Verdict(StrEnum):
    """What a valuation was to its book."""

    COUNTED = "counted"
    DUPLICATE = "duplicate"
    LATE = "late"
    OTHER_UNIT = "unit_changed"


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds in basis points of drawdown, and how far back under one its state is left.

    Raises:
        ValueError: they do not rise, or the hysteresis is not smaller than the first.
    """

    warn: int = 300
    halt: int = 700
    stop: int = 1300
    hysteresis: int = 100

    def __post_init__(self) -> None:
        """See the class."""
        if not 0 <= self.hysteresis < self.warn < self.halt < self.stop <= BPS:
            raise ValueError("thresholds rise: hysteresis < warn < halt < stop <= 10000 basis points")

    def thresholds(self) -> tuple[tuple[BreakerState, int], ...]:
        """State and threshold, the mildest first."""
        return (BreakerState.WARN, self.warn), (BreakerState.HALT, self.halt), (BreakerState.STOP, self.stop)

    def state(self, drawdown: Fraction, before: BreakerState) -> BreakerState:
        """The state at a drawdown (0 … 1), coming from another one."""
        found = BreakerState.OK
        for state, threshold in self.thresholds():
            held = before.rank >= state.rank and drawdown * BPS > threshold - self.hysteresis
            if held or drawdown * BPS >= threshold:
                found = state
        return found


@dataclass(frozen=True, slots=True)
class Book:
    """What is known of one portfolio. Times are Unix microseconds. ``share`` is what a unit is worth of its highest price, 0 … 1;
    ``mark`` is that highest price for all units, and 0 while there are none."""

    unit: str
    ts_us: int
    valued_us: int
    value: Decimal
    net_deposits: Decimal
    mark: Fraction
    share: Fraction
    state: BreakerState
    since_us: int
    ruined: bool = False
    blind_us: int | None = None
    because: str = ""
    seen: tuple[str, ...] = ()

    @property
    def drawdown(self) -> Fraction:
        """The fall from the mark, 0 … 1."""
        return 1 - self.share

    @property
    def drawdown_bps(self) -> int:
        """The fall in whole basis points, rounded down."""
        return int(self.drawdown * BPS)

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "unit": self.unit,
            "times": [self.ts_us, self.valued_us, self.since_us, self.blind_us],
            "amounts": [str(self.value), str(self.net_deposits), str(self.mark), str(self.share)],
            "state": self.state.value,
            "ruined": self.ruined,
            "because": self.because,
            "seen": list(self.seen),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Book:
        """The book that gave ``plain``. Raises KeyError, TypeError or ValueError when it is not one of ours."""
        ts_us, valued_us, since_us, blind_us = plain["times"]
        value, net_deposits, mark, share = plain["amounts"]
        return cls(
            unit=plain["unit"],
            ts_us=int(ts_us),
            valued_us=int(valued_us),
            value=Decimal(value),
            net_deposits=Decimal(net_deposits),
            mark=Fraction(mark),
            share=Fraction(share),
            state=BreakerState(plain["state"]),
            since_us=int(since_us),
            ruined=bool(plain["ruined"]),
            blind_us=None if blind_us is None else int(blind_us),
            because=str(plain["because"]),
            seen=tuple(plain["seen"]),
        )


def step(book: Book | None, valuation: PortfolioValuation, limits: Limits) -> tuple[Book | None, Verdict]:
    """The book after a valuation, and what that was to it.

    None stays None while nothing could be judged yet: a portfolio begins with its first good valuation.
    """
    ts_us = _microseconds(valuation)
    if book is not None:
        if valuation.valuation_id in book.seen:
            return book, Verdict.DUPLICATE
        if valuation.unit != book.unit and not valuation.restart:
            return book, Verdict.OTHER_UNIT
        if ts_us < book.ts_us:
            return book, Verdict.LATE
    because = unjudgeable(valuation)
    if because:
        return (None if book is None else _blinded(book, valuation, ts_us, because)), Verdict.COUNTED
    if book is None or valuation.restart:
        return _begun(valuation, ts_us, book), Verdict.COUNTED
    return _valued(book, valuation, ts_us, limits), Verdict.COUNTED


def unjudgeable(valuation: PortfolioValuation) -> str:
    """Why a valuation decides nothing; empty where it does."""
    if valuation.missing:
        named = ", ".join(valuation.missing[:5])
        return f"no price for {named}{' and others' if len(valuation.missing) > 5 else ''}"
    if valuation.prices_ts is not None:
        age = (valuation.ts - valuation.prices_ts).total_seconds()
        if age > valuation.heartbeat_s:
            return f"the oldest price is {age:.0f} s old, over its heartbeat of {valuation.heartbeat_s} s"
    return ""


def _begun(valuation: PortfolioValuation, ts_us: int, before: Book | None) -> Book:
    worth = Fraction(valuation.value)
    return Book(
        unit=valuation.unit,
        ts_us=ts_us,
        valued_us=ts_us,
        value=valuation.value,
        net_deposits=valuation.net_deposits,
        mark=max(worth, Fraction(0)),
        share=Fraction(1),
        state=BreakerState.OK,
        since_us=ts_us,
        seen=_seen(before, valuation),
    )


def _blinded(book: Book, valuation: PortfolioValuation, ts_us: int, because: str) -> Book:
    since = ts_us if book.blind_us is None else book.blind_us
    return replace(book, ts_us=ts_us, blind_us=since, because=because, seen=_seen(book, valuation))


def _valued(book: Book, valuation: PortfolioValuation, ts_us: int, limits: Limits) -> Book:
    mark, share, ruined = _priced(book, Fraction(valuation.value), Fraction(valuation.net_deposits) - Fraction(book.net_deposits))
    state = BreakerState.STOP if ruined else limits.state(1 - share, book.state)
    return replace(
        book,
        ts_us=ts_us,
        valued_us=ts_us,
        value=valuation.value,
        net_deposits=valuation.net_deposits,
        mark=mark,
        share=share,
        state=state,
        since_us=ts_us if state is not book.state else book.since_us,
        ruined=ruined,
        blind_us=None,
        because="",
        seen=_seen(book, valuation),
    )


def _priced(book: Book, worth: Fraction, flow: Fraction) -> tuple[Fraction, Fraction, bool]:
    """Mark, share of the highest unit price, and whether all is lost for good, after a valuation of ``worth`` and a flow."""
    if book.ruined:
        return book.mark, Fraction(0), True
    if book.mark == 0:  # it was emptied, or never had anything: what is there now was paid in at the last price
        if worth <= 0:
            return Fraction(0), book.share, False
        return (_bounded(worth / book.share), book.share, False) if book.share else (Fraction(0), Fraction(0), True)
    before = worth - flow
    if flow == 0:
        share = min(Fraction(1), max(Fraction(0), worth / book.mark))
        return (max(worth, book.mark), share, False)
    if before <= 0:
        return book.mark, Fraction(0), True
    share = min(Fraction(1), before / book.mark)
    if worth <= 0:
        return Fraction(0), share, False
    mark = worth if share == 1 else _bounded(book.mark * worth / before)
    return mark, share, False


def _bounded(mark: Fraction) -> Fraction:
    """A mark whose fraction does not grow without end: rounded up, so that no drawdown is understated."""
    if mark.denominator.bit_length() <= _WIDEST:
        return mark
    return Fraction(-(-mark.numerator * _FINEST // mark.denominator), _FINEST)


def _seen(book: Book | None, valuation: PortfolioValuation) -> tuple[str, ...]:
    return (*(book.seen if book else ()), valuation.valuation_id)[-SEEN:]


def _microseconds(valuation: PortfolioValuation) -> int:
    """Event time, exactly: no float stands between."""
    return int(valuation.ts.replace(microsecond=0).timestamp()) * 1_000_000 + valuation.ts.microsecond
