"""Prompts are files that fill completely, and whose foreign text stays out of the rules."""

from __future__ import annotations

from importlib.resources import files
from string import Template

import pytest

from gateway.llm.prompts import load_prompt

NAMES = sorted(
    one.name.removesuffix(".txt") for one in files("gateway.llm").joinpath("prompts").iterdir() if one.name.endswith(".txt")
)
OURS = {"direction", "advice", "fewest", "most", "longest"}


def places(template: Template) -> set[str]:
    return set(template.get_identifiers())


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_fills_and_its_rules_hold_nothing_that_others_wrote(name: str) -> None:
    prompt = load_prompt(name)
    assert places(prompt.system) <= OURS
    values = dict.fromkeys(places(prompt.system) | places(prompt.user), "VALUE $finding")
    system, user = prompt.filled(**values)
    assert "$direction" not in system
    assert user
    assert len(prompt.sha256) == 64


def test_a_place_that_is_not_filled_and_a_prompt_that_is_none() -> None:
    with pytest.raises(KeyError):
        load_prompt("words.v1").filled(finding="x")
    with pytest.raises(FileNotFoundError):
        load_prompt("nothing.v9")
