"""The breakers stage: valuations in; the portfolio's standing after each one, and a signal when it changed.

State is the book of each portfolio of the partition. Portfolios are few and named by their owner, yet a producer that makes up a
name for each valuation must not fill the memory: beyond ``MAX_BOOKS`` the valuation of a new one is refused, never an old book
dropped, for that would forget a mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

import orjson

from schemas.identity import content_id
from schemas.portfolio import PortfolioStanding, PortfolioValuation
from schemas.signals import BreakerSignal
from schemas.topics import PORTFOLIO_STANDING, PORTFOLIO_VALUED, SIGNALS_RAISED, Topic
from workers.breakers.portfolio import Book, Limits, Verdict, step
from workers.stage import Delivery, Emission, Outcome, Refusal, caused

MAX_BOOKS = 1024
FORMAT = 1
_UP = Context(prec=28, rounding=ROUND_CEILING)


class BreakersStage:
    """Watches the portfolios of one partition. ``max_future_ms`` is how far after its arrival a valuation may be dated."""

    name = "breakers"
    inputs: tuple[Topic, ...] = (PORTFOLIO_VALUED,)
    outputs: tuple[Topic, ...] = (PORTFOLIO_STANDING, SIGNALS_RAISED)

    def __init__(self, limits: Limits, max_future_ms: int) -> None:
        self._limits = limits
        self._max_future_ms = max_future_ms
        self._books: dict[str, Book] = {}

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        """Fold a batch in."""
        emissions: list[Emission] = []
        refusals: list[Refusal] = []
        tally = dict.fromkeys(Verdict, 0)
        for delivery in batch:
            refused = self._refused(delivery)
            if refused is not None:
                refusals.append(Refusal(delivery.position, *refused))
                continue
            raised: list[Emission] = []
            verdict = self._fold(delivery.message, raised)
            emissions += caused(delivery, raised)
            tally[verdict] += 1
            if verdict is Verdict.OTHER_UNIT:
                detail = f"the book of {delivery.message.portfolio} is kept in another unit; restart it to change that"
                refusals.append(Refusal(delivery.position, verdict.value, detail))
        changes = sum(emission.topic is SIGNALS_RAISED for emission in emissions)
        return Outcome(
            emissions,
            refusals,
            processed=tally[Verdict.COUNTED],
            duplicates=tally[Verdict.DUPLICATE],
            late=tally[Verdict.LATE],
            counts={"breaker_changes": changes} if changes else {},
        )

    def _refused(self, delivery: Delivery) -> tuple[str, str] | None:
        valuation: PortfolioValuation = delivery.message
        ahead = int(valuation.ts.timestamp() * 1000) - delivery.timestamp_ms
        if ahead > self._max_future_ms:
            return "future_dated", f"it is dated {ahead / 1000:.0f} s after the record's arrival"
        if valuation.key not in self._books and len(self._books) >= MAX_BOOKS:
            return "too_many_portfolios", f"{MAX_BOOKS} portfolios are watched already, and none is given up"
        return None

    def _fold(self, valuation: PortfolioValuation, emissions: list[Emission]) -> Verdict:
        before = self._books.get(valuation.key)
        after, verdict = step(before, valuation, self._limits)
        if verdict is not Verdict.COUNTED or after is None:
            return verdict
        self._books[valuation.key] = after
        standing = _standing(valuation, after, self._limits)
        ts_ms = after.ts_us // 1000
        emissions.append(Emission(PORTFOLIO_STANDING, standing.key, standing, standing.id, ts_ms))
        if before is None or (before.state, before.blind_us is None) != (after.state, after.blind_us is None) or valuation.restart:
            signal = _signal(standing, before)
            emissions.append(Emission(SIGNALS_RAISED, signal.stream, signal, signal.id, ts_ms))
        return verdict

    def snapshot(self) -> bytes:
        """The whole state, as JSON."""
        books = [[key, book.to_plain()] for key, book in self._books.items()]
        return orjson.dumps({"format": FORMAT, "limits": _plain(self._limits), "books": books})

    def restore(self, state: bytes) -> None:
        """Take up a snapshot's state. Raises ValueError when it is not one of ours, or of other limits: fold the log again."""
        try:
            plain: dict[str, Any] = orjson.loads(state)
            if (plain["format"], plain["limits"]) != (FORMAT, _plain(self._limits)):
                raise ValueError("it is of another format or of other limits")
            books = {str(key): Book.from_plain(book) for key, book in plain["books"]}
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise ValueError(f"not a snapshot of the breakers stage: {error}") from None
        self._books = books


def _plain(limits: Limits) -> list[int]:
    return [limits.warn, limits.halt, limits.stop, limits.hysteresis]


def _standing(valuation: PortfolioValuation, book: Book, limits: Limits) -> PortfolioStanding:
    blind = book.blind_us is not None
    return PortfolioStanding(
        id=content_id("standing", valuation.key, valuation.valuation_id),
        portfolio=valuation.portfolio,
        key=valuation.key,
        ts=_moment(book.ts_us),
        state=book.state,
        since=_moment(book.since_us),
        drawdown_bps=book.drawdown_bps,
        mark=_shown(book.mark),
        value=book.value,
        net_deposits=book.net_deposits,
        unit=book.unit,
        valued_ts=_moment(book.valued_us),
        heartbeat_s=valuation.heartbeat_s,
        blind=blind,
        blind_since=None if book.blind_us is None else _moment(book.blind_us),
        because=book.because or None,
        warn_bps=limits.warn,
        halt_bps=limits.halt,
        stop_bps=limits.stop,
        simulated=valuation.simulated,
    )


def _signal(standing: PortfolioStanding, before: Book | None) -> BreakerSignal:
    stream = f"portfolio:{standing.key}"
    return BreakerSignal(
        id=content_id("signal", stream, standing.id),
        stream=stream,
        key=standing.key,
        ts=standing.ts,
        standing_id=standing.id,
        previous=before.state if before else None,
        state=standing.state,
        drawdown_bps=standing.drawdown_bps,
        mark=standing.mark,
        value=standing.value,
        unit=standing.unit,
        blind=standing.blind,
        because=standing.because,
        simulated=standing.simulated,
    )


def _shown(mark: Fraction) -> Decimal:
    """The mark to 28 digits, which is what travels, rounded up."""
    return _UP.divide(Decimal(mark.numerator), Decimal(mark.denominator))


def _moment(us: int) -> datetime:
    return datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000)
