"""A choice is one of the caller's options, and moves only for what insights claim about them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.middleware import MemoryContext, Option, choose
from schemas.claims import Claim, Condition
from schemas.insights import Insight
from tests.support.sqlite import KEY, evidence, insight

ROUTERS = [Option("alpha", {"router": "alpha"}), Option("beta", {"router": "beta"}), Option("gamma", {"router": "gamma"})]
COST = {"cost_bps": 1.0}


def believed(number: int, *conditions: Condition, difference: float, confidence: str = "1", metric: str = "cost_bps") -> Insight:
    direction: Literal["higher", "lower"] = "higher" if difference > 0 else "lower"
    about = Claim(key=KEY, metric=metric, conditions=conditions, direction=direction)
    found = evidence().model_copy(update={"inside": 30.0 + difference, "outside": 30.0})
    return insight(number, claim=about, evidence=found, confidence=Decimal(confidence))


def is_(feature: str, value: Any) -> Condition:
    return Condition(feature=feature, op="==", value=value)


def test_without_insights_it_is_the_default() -> None:
    choice = choose(ROUTERS, COST, [], {})
    assert (choice.option.name, choice.gain, choice.because) == ("alpha", 0.0, ())


def test_a_dear_default_is_left_and_the_insight_named() -> None:
    dear = believed(1, is_("router", "alpha"), difference=9.0, confidence="0.6")
    choice = choose(ROUTERS, COST, [dear], {})
    assert (choice.option.name, choice.because) == ("beta", (dear.id,))
    assert choice.gain == pytest.approx(5.4)


def test_a_change_has_to_bring_enough() -> None:
    dear = believed(1, is_("router", "alpha"), difference=9.0, confidence="0.6")
    assert choose(ROUTERS, COST, [dear], {}, least_gain=5.4).option.name == "alpha"


def test_what_is_known_to_cost_weighs_against_what_is_remembered() -> None:
    large = believed(1, Condition(feature="size", op=">=", value=10.0), difference=20.0)
    whole, halves = Option("whole", {"size": 12.0}, cost=5.0), Option("halves", {"size": 6.0}, cost=10.0)
    assert choose([whole, halves], COST, [large], {}).option is halves
    assert choose([whole, Option("halves", {"size": 6.0}, cost=26.0)], COST, [large], {}).option is whole


def test_the_same_thing_said_twice_counts_once() -> None:
    twice = [believed(n, is_("router", "alpha"), difference=9.0 - n) for n in range(3)]
    assert choose(ROUTERS, COST, twice, {}).gain == pytest.approx(9.0)


def test_what_no_option_sets_moves_nothing() -> None:
    weather = believed(1, is_("weather", "bad"), difference=50.0)
    assert choose(ROUTERS, COST, [weather], {"weather": "bad"}).option.name == "alpha"


def test_a_condition_on_the_situation_decides_whether_it_applies() -> None:
    nervous = believed(1, is_("router", "alpha"), Condition(feature="volatility", op=">=", value=1.0), difference=9.0)
    assert choose(ROUTERS, COST, [nervous], {"volatility": 0.5}).option.name == "alpha"
    assert choose(ROUTERS, COST, [nervous], {"volatility": 1.5}).option.name == "beta"
    assert choose(ROUTERS, COST, [nervous], {}).option.name == "alpha"


def test_metrics_without_a_price_have_no_say() -> None:
    assert choose(ROUTERS, {"gas_gwei": 1.0}, [believed(1, is_("router", "alpha"), difference=9.0)], {}).option.name == "alpha"


def test_there_must_be_a_default() -> None:
    with pytest.raises(ValueError, match="at least the default"):
        choose([], COST, [], {})


claims = st.builds(
    believed,
    st.integers(0, 50),
    st.sampled_from([is_("router", "alpha"), is_("router", "evil"), Condition(feature="size", op="<", value=3.0)]),
    difference=st.floats(-1e300, 1e300, allow_nan=False),
    confidence=st.sampled_from(["0", "0.5", "1"]),
)


@given(st.lists(claims, max_size=8), st.floats(-1e300, 1e300), st.floats(0, 100))
def test_nothing_remembered_leaves_the_callers_options(insights: list[Insight], worth: float, least: float) -> None:
    options = [Option("default", {"router": "alpha", "size": 1.0}), Option("other", {"router": "beta", "size": 5.0}, cost=1.0)]
    choice = choose(options, {"cost_bps": worth}, insights, {}, least_gain=least)
    assert choice.option in options
    assert choice.option is options[0] or choice.gain > least


def test_a_context_chooses_and_remembers_what_it_went_by() -> None:
    dear = believed(1, is_("router", "alpha"), difference=9.0)
    context = MemoryContext(insights=(dear,))
    assert context.choose(ROUTERS, COST).option.name == "beta"
    assert list(context.used) == [dear.id]
