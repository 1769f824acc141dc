"""Recall's settings, through the writer: checked against each other, in order, folded to the same again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schemas.operations import TuneRecall
from streams.stages.writer import InsightWriter
from tests.support.sqlite import HashEmbedder, add, at, cut, operations, writing


def tune(op_id: str, *, reset: bool = False, **changes: Any) -> TuneRecall:
    return TuneRecall(op_id=op_id, ts=at(4), author="operator", reason="tried", changes=changes, reset=reset)


STEPS = (
    tune("1", min_score=0.35, boost_recent=False),
    add("i"),
    tune("2", max_results=10),
    tune("3", default_limit=11),
    tune("4", min_score="high"),
    tune("5", surprise=1),
    tune("6", min_score=1),
)


def test_settings_change_in_order_and_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with writing(tmp_path / "one.db") as store:
        outcome = InsightWriter(store, HashEmbedder()).handle(operations(*STEPS))
        assert [(one.reason, one.position.offset) for one in outcome.refusals] == [("bad_tuning", offset) for offset in (3, 4, 5)]
        assert {name: one.value for name, one in store.tuned().items()} == {
            "boost_recent": False,
            "max_results": 10,
            "min_score": 1,
        }
        assert (store.tuned()["min_score"].author, store.tuned()["min_score"].reason) == ("operator", "tried")
        whole = list(store.fingerprint_parts())
    with writing(tmp_path / "two.db") as store:
        writer = InsightWriter(store, HashEmbedder())
        for batch in cut(operations(*STEPS), 1):
            writer.handle(batch)
        assert list(store.fingerprint_parts()) == whole
        writer.handle(operations(tune("7", reset=True), tune("8", depth=60), first=len(STEPS)))
        assert {name: one.value for name, one in store.tuned().items()} == {"depth": 60}


@pytest.mark.parametrize("fields", [{}, {"reset": True, "depth": 60}, {"depth": float("nan")}, {"depth": [1]}])
def test_operations_that_are_none(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tuning|finite|changes"):
        tune("1", **fields)
