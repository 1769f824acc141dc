"""Drawdown, marks, flows and hysteresis in exact numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from schemas.portfolio import BreakerState, PortfolioValuation
from workers.breakers.portfolio import SEEN, Book, Limits, Verdict, step

T0 = datetime(2026, 3, 1, tzinfo=UTC)
LIMITS = Limits()
OK, WARN, HALT, STOP = BreakerState


def valued(minute: int, value: object, deposits: object = 0, **more: object) -> PortfolioValuation:
    fields = {"portfolio": "main", "ts": T0 + timedelta(minutes=minute), "value": str(value), "net_deposits": str(deposits)}
    return PortfolioValuation.model_validate(fields | more)


def fold(*valuations: PortfolioValuation, book: Book | None = None) -> Book:
    for one in valuations:
        book, _ = step(book, one, LIMITS)
    assert book is not None
    return book


def at(value: object) -> Book:
    return fold(valued(0, 100), valued(1, value))


@pytest.mark.parametrize(
    ("value", "state", "bps"),
    [("97.0001", OK, 299), ("97", WARN, 300), ("93.0001", WARN, 699), ("93", HALT, 700), ("87.01", HALT, 1299), ("87", STOP, 1300),
     ("90.86", HALT, 914), ("100", OK, 0), ("250", OK, 0), ("0", STOP, 10_000), ("-5", STOP, 10_000)],
)  # fmt: skip
def test_the_thresholds_are_exact(value: str, state: BreakerState, bps: int) -> None:
    """93 of 100 is a fall of 7 %, which in floats it is not; and 9.14 % is no 13."""
    book = at(value)
    assert (book.state, book.drawdown_bps) == (state, bps)


def test_a_state_is_left_only_one_per_cent_below_its_threshold() -> None:
    book = at("93")
    for minute, value, state in [
        (2, "93.5", HALT),
        (3, "93.99", HALT),
        (4, "94", WARN),
        (5, "93.01", WARN),
        (6, "97.99", WARN),
        (7, "98", OK),
    ]:
        book = fold(valued(minute, value), book=book)
        assert book.state is state, value
    assert fold(valued(2, "87"), valued(3, "88"), book=at("93")).state is HALT


def test_deposits_and_withdrawals_are_no_gain_and_no_loss() -> None:
    book = at("95")
    paid_in = fold(valued(2, "195", 100), book=book)
    assert (paid_in.drawdown, paid_in.mark) == (Fraction(5, 100), Fraction(100) * 195 / 95)
    taken_out = fold(valued(3, "39", -56), book=paid_in)
    assert taken_out.drawdown == Fraction(5, 100)
    assert fold(valued(4, "36.2", -56), book=taken_out).state is HALT


def test_a_deposit_does_not_reset_the_mark_and_a_new_high_does() -> None:
    book = fold(valued(2, "1094", 1000), book=at("94"))
    assert book.drawdown == Fraction(6, 100)
    assert fold(valued(3, "1200", 1000), book=book).mark == 1200


def test_a_loss_and_a_flow_in_one_valuation_are_told_apart() -> None:
    assert fold(valued(0, 100), valued(1, 140, 50)).drawdown == Fraction(1, 10)


def test_a_lost_valuation_loses_no_deposit() -> None:
    assert fold(valued(0, 100), valued(3, 150, 50)).drawdown == 0


def test_an_emptied_portfolio_keeps_its_drawdown() -> None:
    book = fold(valued(2, 0, -90), book=at("90"))
    assert (book.state, book.drawdown, book.mark) == (HALT, Fraction(1, 10), 0)
    again = fold(valued(3, 500, 410), book=book)
    assert again.drawdown == Fraction(1, 10)
    assert again.mark == Fraction(5000, 9)


def test_what_lost_everything_before_a_flow_stays_stopped_until_it_is_restarted() -> None:
    lost = fold(valued(2, 100, 100), book=at("0"))
    assert (lost.state, lost.ruined) == (STOP, True)
    assert fold(valued(3, 900, 100), book=lost).state is STOP
    begun = fold(valued(4, 900, 100, restart=True, reason="a new start"), book=lost)
    assert (begun.state, begun.mark, begun.ruined) == (OK, 900, False)


def test_a_value_that_was_wrong_for_a_moment_trips_and_clears() -> None:
    book = at("0")
    assert book.state is STOP
    assert fold(valued(2, 100), book=book).state is OK


@pytest.mark.parametrize(
    "more", [{"missing": ["PEPE"]}, {"prices_ts": T0 - timedelta(hours=2)}, {"prices_ts": T0 - timedelta(minutes=59)}]
)
def test_a_missing_or_old_price_neither_trips_nor_clears_nor_hides(more: dict[str, object]) -> None:
    for before in (at("99"), at("92")):
        blind = fold(valued(2, 1, 70, **more), book=before)
        assert (blind.state, blind.mark, blind.value, blind.net_deposits) == (before.state, before.mark, before.value, 0)
        assert blind.blind_us is not None
        assert blind.because
        still = fold(valued(3, 1, 70, **more), book=blind)
        assert still.blind_us == blind.blind_us
        sees = fold(valued(4, before.value + 70, 70), book=still)
        assert (sees.drawdown, sees.blind_us, sees.because) == (before.drawdown, None, "")


def test_a_fresh_price_is_no_old_one() -> None:
    assert fold(valued(61, 100, prices_ts=T0 + timedelta(minutes=1))).blind_us is None


def test_a_portfolio_begins_with_its_first_good_valuation() -> None:
    book, verdict = step(None, valued(0, 5, missing=["X"]), LIMITS)
    assert (book, verdict) == (None, Verdict.COUNTED)


def test_repeated_late_and_foreign_valuations() -> None:
    book = fold(valued(0, 100), valued(2, 99))
    assert step(book, valued(2, 99), LIMITS) == (book, Verdict.DUPLICATE)
    assert step(book, valued(1, 1), LIMITS) == (book, Verdict.LATE)
    assert step(book, valued(3, 99, unit="ETH"), LIMITS) == (book, Verdict.OTHER_UNIT)
    assert fold(valued(3, 9, unit="ETH", restart=True, reason="in ether now"), book=book).unit == "ETH"
    other = fold(valued(2, 98), book=book)
    assert other.value == 98


@pytest.mark.parametrize(
    "bad", [(0, 7, 13, 1), (300, 200, 1300, 100), (300, 700, 700, 100), (300, 700, 1300, 300), (1, 2, 10_001, 0)]
)
def test_limits_that_do_not_rise_are_refused(bad: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="rise"):
        Limits(*bad)


MONEY = st.decimals("1", "1e9", places=2)


class Fund(RuleBasedStateMachine):
    """Gains and losses by a factor, flows of any size, blind spells; against unit accounting with exact fractions."""

    @initialize(value=MONEY)
    def begin(self, value: Decimal) -> None:
        self.minute = 0
        self.value = Fraction(value)
        self.deposits = Fraction(0)
        self.price = self.best = Fraction(1)
        self.book: Book | None = None
        self.tell()

    def tell(self, **more: object) -> None:
        """Exact values travel as decimals, so the model follows what was told."""
        self.minute += 1
        self.book, verdict = step(self.book, valued(self.minute, _told(self.value), _told(self.deposits), **more), LIMITS)
        assert verdict is Verdict.COUNTED

    @precondition(lambda self: self.value > 1)
    @rule(bps=st.integers(-900, 900))
    def market(self, bps: int) -> None:
        moved = Fraction(_told(self.value * (10_000 + bps) / 10_000))
        self.price *= moved / self.value
        self.best = max(self.best, self.price)
        self.value = moved
        self.tell()

    @rule(amount=MONEY)
    def deposit(self, amount: Decimal) -> None:
        self.value += Fraction(amount)
        self.deposits += Fraction(amount)
        self.tell()

    @precondition(lambda self: self.value > 1)
    @rule(percent=st.integers(1, 95))
    def withdraw(self, percent: int) -> None:
        taken = Fraction(_told(self.value * percent / 100))
        self.value -= taken
        self.deposits -= taken
        self.tell()

    @rule()
    def no_price(self) -> None:
        self.tell(missing=["X"])
        assert self.book is not None
        assert self.book.blind_us is not None
        self.tell()

    @invariant()
    def the_drawdown_is_that_of_a_unit(self) -> None:
        assert self.book is not None
        expected = 1 - self.price / self.best
        assert abs(self.book.drawdown - expected) < Fraction(1, 2**180)
        assert self.book.mark >= Fraction(self.book.value)

    @invariant()
    def the_state_fits_the_drawdown(self) -> None:
        assert self.book is not None
        for state, threshold in LIMITS.thresholds():
            if self.book.drawdown * 10_000 >= threshold:
                assert self.book.state.rank >= state.rank
            if self.book.drawdown * 10_000 <= threshold - LIMITS.hysteresis:
                assert self.book.state.rank < state.rank

    @invariant()
    def it_is_bounded_and_survives_a_snapshot(self) -> None:
        assert self.book is not None
        assert len(self.book.seen) <= SEEN
        assert self.book.mark.denominator.bit_length() <= 513
        assert Book.from_plain(self.book.to_plain()) == self.book


def _told(value: Fraction) -> Decimal:
    """A value as a producer tells it: in millionths."""
    return (Decimal(value.numerator) / Decimal(value.denominator)).quantize(Decimal("0.000001"))


TestFund = Fund.TestCase
TestFund.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@given(st.integers(1, 10**12), st.integers(0, 10_000))
@settings(max_examples=100, deadline=None)
def test_whole_basis_points_of_any_mark_are_met_exactly(mark: int, bps: int) -> None:
    value = Decimal(mark) * (10_000 - bps) / 10_000
    book = fold(valued(0, mark), valued(1, value))
    assert book.drawdown_bps == bps
    assert (book.state.rank >= 1) == (bps >= 300)
