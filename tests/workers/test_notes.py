"""Notes: which confidence event applies, what each does, and the values that two sentences must agree in."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.insights import Insight, InsightStatus
from tests.support.sqlite import add, at, directive, note
from workers.ledger import apply
from workers.notes import Candidate, Event, Remembered, decide, remember
from workers.values import differences, values


def kept(text: str, name: str = "old", **fields: Any) -> Insight:
    """A note that is there."""
    return remember(note(name, text, **fields), ()).changes[0][1]


def near(insight: Insight, similarity: float = 0.95) -> list[Candidate]:
    return [Candidate(insight, similarity)]


def effect(remembered: Remembered) -> list[tuple[str, str | None, str, str]]:
    """Each change as id, confidence before, confidence after, status."""
    return [
        (after.id, str(before.confidence) if before else None, str(after.confidence), str(after.status))
        for before, after in remembered.changes
    ]


OLD = kept("Gas limit is 30 gwei.")


def test_a_first_note_is_new_at_full_confidence() -> None:
    done = remember(note("n", "Gas is high on Mondays.", importance=0.4, key="swap:1:x"), ())
    made = done.changes[0][1]
    assert (done.verdict.event, effect(done)) == (Event.NEW, [("n", None, "1", "active")])
    assert (made.importance, made.key, made.author, made.note is not None, made.claim) == (0.4, "swap:1:x", "agent", True, None)


@pytest.mark.parametrize(
    ("text", "author", "event", "effects"),
    [
        ("gas limit is  30 GWEI", "other", Event.REINFORCED, [("old", "0.9", "0.95", "active")]),
        ("The gas limit: 30 gwei", "other", Event.REINFORCED, [("old", "0.9", "0.95", "active")]),
        ("Gas limit is 40 gwei.", "agent", Event.UPDATED, [("old", "0.9", "0.925", "active")]),
        ("Gas limit is 40 gwei.", "other", Event.SUPERSEDED, [("old", "0.9", "0.80", "archived"), ("n", None, "1", "active")]),
        ("Gas limit is not 30 gwei.", "other", Event.SUPERSEDED, [("old", "0.9", "0.80", "archived"), ("n", None, "1", "active")]),
        ("Gas limit is not 30 gwei.", "agent", Event.REPLACED, [("old", "0.9", "0.70", "archived"), ("n", None, "1", "active")]),
        ("Slippage limit is 30 bps.", "agent", Event.NEW, [("n", None, "1", "active")]),
    ],
)
def test_the_events_and_their_steps(text: str, author: str, event: Event, effects: list[Any]) -> None:
    old = OLD.model_copy(update={"confidence": Decimal("0.9")})
    done = remember(note("n", text, author=author), near(old))
    assert done.verdict.event is event, done.verdict.why
    found = effect(done)
    assert [(one[0], one[1] and Decimal(one[1]), Decimal(one[2]), one[3]) for one in found] == [
        (one[0], one[1] and Decimal(one[1]), Decimal(one[2]), one[3]) for one in effects
    ]
    assert all(after.revision == (before.revision + 1 if before else 1) for before, after in done.changes)


def test_an_update_in_place_takes_the_new_words_and_a_retired_note_says_what_took_its_place() -> None:
    updated = remember(note("n", "Gas limit is 40 gwei.", hours=9), near(OLD)).changes[0][1]
    assert (updated.id, updated.text, updated.edits, updated.validated_ts) == ("old", "Gas limit is 40 gwei.", 1, at(9))
    retired = remember(note("n", "Gas limit is not 30 gwei."), near(OLD)).changes[0][1]
    assert retired.note is not None
    assert (retired.note.superseded_by, retired.text, retired.status) == ("n", OLD.text, InsightStatus.ARCHIVED)


def test_what_the_memory_handed_out_does_not_count_when_it_comes_back() -> None:
    done = remember(note("n", OLD.text, recalled=("old",)), near(OLD, 1.0))
    after = done.changes[0][1]
    assert (done.verdict.event, after.confidence, after.validated_ts) == (Event.ECHO, OLD.confidence, OLD.validated_ts)
    assert after.note is not None
    assert (after.note.echoes, after.note.reinforced) == (1, 0)


def test_a_learned_insight_or_a_directive_is_never_moved_by_a_note() -> None:
    for other in (apply(None, add("i", text=OLD.text, key="*")), apply(None, directive("d", OLD.text))):
        assert isinstance(other, Insight)
        assert remember(note("n", OLD.text), near(other)) == Remembered(decide(note("n", OLD.text), near(other)), ())
        opposite = remember(note("n", "Gas limit is not 30 gwei."), near(other))
        assert (opposite.verdict.event, len(opposite.changes)) == (Event.NEW, 1)


def test_there_is_no_gap_at_the_threshold() -> None:
    same = note("n", OLD.text)
    assert decide(same, near(OLD, 0.85)).event is Event.REINFORCED
    assert decide(same, near(OLD, 0.8499999)).event is Event.NEW


def test_another_subject_an_archived_note_and_a_name_do_not_count() -> None:
    elsewhere = kept(OLD.text, key="swap:1:x")
    archived = OLD.model_copy(update={"status": InsightStatus.ARCHIVED})
    assert decide(note("n", OLD.text), [*near(elsewhere), *near(archived)]).event is Event.NEW


@pytest.mark.parametrize("simulated", [True, False])
@pytest.mark.parametrize("text", [OLD.text, "Gas limit is 40 gwei.", "Gas limit is not 30 gwei."])
def test_what_was_simulated_neither_confirms_nor_retires_what_is_real(text: str, simulated: bool) -> None:
    there = kept(OLD.text, simulated=not simulated)
    done = remember(note("n", text, author="other", simulated=simulated), near(there, 1.0))
    assert (done.verdict.event, [after.simulated for _, after in done.changes]) == (Event.NEW, [simulated])
    assert (
        decide(note("n", text, author="other", simulated=simulated), near(kept(OLD.text, simulated=simulated))).event
        is not Event.NEW
    )


def test_about_a_simulated_key_everything_is_simulated() -> None:
    """A note about it need not say so to be told that this is known."""
    mined = apply(None, add("i", text=OLD.text, key="swap:1-simulated:A/B", simulated=True))
    assert isinstance(mined, Insight)
    assert decide(note("n", OLD.text, key="swap:1-simulated:A/B"), near(mined)).event is Event.KNOWN


def test_a_correction_that_is_named_retires_whatever_its_words() -> None:
    done = remember(note("n", "It rained.", author="other", corrects="old"), (), OLD)
    assert (done.verdict.event, effect(done)[0][3]) == (Event.SUPERSEDED, "archived")


def test_the_nearest_that_fits_decides_and_the_reason_names_the_others() -> None:
    far, close = kept("Gas limit is 30 gwei", "far"), kept("Gas limit is 31 bananas", "close")
    verdict = decide(note("n", "gas limit is 30 gwei!"), [*near(far, 0.9), *near(close, 0.99)])
    assert (verdict.event, verdict.other and verdict.other.id) == (Event.REINFORCED, "far")
    assert "close" in decide(note("n", "gas limit is 7 gwei, maybe"), near(close, 0.99)).why


@pytest.mark.parametrize(
    ("one", "other", "unequal"),
    [
        ("Paid 0.50 % on Curve", "paid 0.5% on curve", set()),
        ("Paid 0.50 %", "Paid 5.00 %", {"measures"}),
        ("Pool 0xA1b2c3 is deep", "Pool 0xA1b2c4 is deep", {"identifiers"}),
        ("The node is 192.168.7.1", "The node is 192.168.9.1", {"identifiers"}),
        ("Do not swap on Curve when gas > 80", "Swap on Curve when gas > 80", {"polarity"}),
        ("Swap when gas > 80", "Swap when gas < 80", {"side"}),
        ("Sold WBTC", "Owns WBTC", {"side"}),
        ("Swap on Curve", "Swap on Uniswap", {"names", "a word"}),
        ("Uniswap is deep", "Curve is deep", {"names", "a word"}),
        ("Pools are deep", "Pools are shallow", {"side"}),
        ("The fee is fair", "The fee is absurd", {"a word"}),
        ("On Arbitrum gas is low", "On Optimism gas is low", {"chains", "names", "a word"}),
        ("Trade 17 cost 30 bps", "Trade 18 cost 30 bps", {"bare"}),
        ("Swap $10k", "Swap 10,000 USD", set()),
        ("PnL was -5 bps", "PnL was 5 bps", {"measures"}),
        ("gas won't fall", "gas will fall", {"polarity"}),
    ],
)
def test_what_a_cosine_does_not_see(one: str, other: str, unequal: set[str]) -> None:
    assert differences(values(one), values(other)) == unequal
    assert differences(values(other), values(one)) == unequal


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Trade 17 cost 30 bps.", "Trade 18 cost 30 bps."),
        ("The pool on Curve is deep.", "The pool on Curve charges 4 bps."),
        ("The node is 192.168.7.1", "The node is 192.168.9.1"),
        ("Paid 30 bps on WETH.", "Paid 40 bps on WBTC."),
    ],
)
def test_mentioning_a_thing_retires_nothing_that_is_known_of_it(first: str, second: str) -> None:
    done = remember(note("n", second), near(kept(first)))
    assert (done.verdict.event, effect(done)) == (Event.NEW, [("n", None, "1", "active")])


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_has_values_and_equals_itself(one: str, other: str) -> None:
    assert differences(values(one), values(one)) == set()
    assert differences(values(one), values(other)) == differences(values(other), values(one))


_PIECES = (
    "buy", "sell", "WETH", "USDC", "for", "to", "and", "then", "not", "above", "below", "cheaper", "than", "all", "0xa1b2c3",
    "0xd4e5f6", "192.168.7.1", "5 bps", "-3 %", "1e999999k", "-1e5m", "two", "3", ",", "calm", "volatile", "$7bn",
)  # fmt: skip
_TALK = st.lists(st.sampled_from(_PIECES), max_size=14).map(" ".join)


@settings(max_examples=300)
@given(_TALK, _TALK)
def test_any_talk_of_trades_has_values_and_equals_itself(one: str, other: str) -> None:
    """Of which random letters hardly ever have two sides of one word, an exchange both ways, or a number beyond all numbers."""
    assert differences(values(one), values(one)) == set()
    assert differences(values(one), values(other)) == differences(values(other), values(one))


@pytest.mark.parametrize(
    "text",
    [
        "Buy WETH in the morning and sell WETH in the evening",
        "Swap USDC for WETH, then WETH for USDC",
        "Longs pay longs when funding is high, shorts pay longs when it is low",
    ],
)
def test_a_sentence_with_both_sides_that_is_said_again_is_the_same(text: str) -> None:
    assert decide(note("n", text, author="other"), near(kept(text), 1.0)).event is Event.REINFORCED


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Bridge from 0xa1b2c3 to 0xd4e5f6", "Bridge from 0xd4e5f6 to 0xa1b2c3"),
        ("Buy 0xa1b2c3 and sell 0xd4e5f6", "Buy 0xd4e5f6 and sell 0xa1b2c3"),
        ("Node 192.168.7.1 answers before vault.eth", "Node vault.eth answers before 192.168.7.1"),
    ],
)
def test_identifiers_that_have_changed_places_are_another_statement(one: str, other: str) -> None:
    assert "order" in differences(values(one), values(other))
    assert decide(note("n", one), near(kept(other), 1.0)).event is Event.NEW


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"It left -{2**256 - 1} wei", f"It left -{2**256 - 2} wei"),
        (f"It moved {2**128}.1k usd", f"It moved {2**128}.2k usd"),
    ],
)
def test_numbers_that_differ_in_any_digit_are_two(one: str, other: str) -> None:
    assert differences(values(one), values(other)) in ({"measures"}, {"bare"})


def test_a_number_beyond_all_numbers_is_a_word() -> None:
    for text in ("It paid 1e999999999999999999k", "It paid 9e999999m", "It lost -1e9999999 usd"):
        assert decide(note("n", text), near(kept("Gas limit is 30 gwei."))).event is Event.NEW


_SENTENCES = ("Gas is 30 gwei.", "Gas is 40 gwei.", "Gas is not 30 gwei.", "Pools are deep.", "Pools are shallow.", "Buy WETH.")
_STEPS = st.lists(st.tuples(st.sampled_from(_SENTENCES), st.sampled_from("ab"), st.floats(0.8, 1)), max_size=15)


@settings(max_examples=50)
@given(_STEPS)
def test_any_notes_leave_states_that_fit(steps: list[tuple[str, str, float]]) -> None:
    """Whatever is written: one more in use, the same, or one retired for one made; and the words are there. (Nobody is told here
    what a note contests, so a contest does not end.)"""
    states: dict[str, Insight] = {}
    for number, (text, author, similarity) in enumerate(steps):
        before = {one.id for one in states.values() if one.status is InsightStatus.ACTIVE}
        done = remember(note(f"n{number}", text, author=author), [Candidate(one, similarity) for one in states.values()])
        for was, after in done.changes:
            assert states.get(after.id) == was
            assert 0 <= after.confidence <= 1
            assert Insight.model_validate_json(after.to_wire()) == after
            states[after.id] = after
        active = {one.id for one in states.values() if one.status is InsightStatus.ACTIVE}
        adds = done.verdict.event in (Event.NEW, Event.SUPPORTED, Event.CONTESTED)
        replaces = done.verdict.event in (Event.SUPERSEDED, Event.REPLACED)
        gone = before - active
        assert len(active) - len(before) == adds + replaces - len(gone)
        assert len(gone) == replaces
        if similarity >= 0.85:
            assert text in {states[one].text for one in active}
