"""What was handed to whom: by author, bounded, and nobody's asking makes another's answers forgotten."""

from __future__ import annotations

from gateway.handed import _ANSWERS, _HANDED, Handed


def test_who_asks_much_forgets_its_own_answers_and_not_anothers() -> None:
    handed = Handed()
    handed.answer("calm-1", "calm", ["a", "b"], [0.5, 0.25])
    for number in range(2 * _HANDED):
        handed.answer(f"busy-{number}", "busy", [f"m-{number}"])
    assert handed.of_answer("calm-1", "calm") == ("a", "b")
    assert handed.scores_of("calm-1", "calm") == (0.5, 0.25)
    assert handed.to("calm", ["a", "b", "c"]) == {"a", "b"}
    assert handed.of_answer("busy-0", "busy") is None
    kept = [number for number in range(2 * _HANDED) if handed.of_answer(f"busy-{number}", "busy")]
    assert kept == list(range(2 * _HANDED - _ANSWERS + 1, 2 * _HANDED))
    assert len(handed.to("busy", [f"m-{number}" for number in range(2 * _HANDED)])) == _HANDED - 2


def test_an_answer_is_its_authors_alone() -> None:
    handed = Handed()
    handed.answer("r", "one", ["a"], [1.0])
    assert (handed.of_answer("r", "other"), handed.scores_of("r", "other"), handed.to("other", ["a"])) == (None, (), set())


def test_what_is_shown_again_stays_longer() -> None:
    handed = Handed()
    handed.note("one", ["first"])
    handed.note("one", (f"m-{number}" for number in range(_HANDED - 1)))
    handed.note("one", ["first", "last"])
    assert handed.to("one", ["first", "m-0", "last"]) == {"first", "last"}


def test_a_thousand_authors_hold_no_more_than_one() -> None:
    handed = Handed()
    for number in range(_HANDED + 50):
        handed.note(f"author-{number}", ["a"])
    assert sum(bool(handed.to(f"author-{number}", ["a"])) for number in range(_HANDED + 50)) == _HANDED
