"""Labelled pairs of sentences about trades: paraphrases that say the same, and near-duplicates that do not.

Three sets. **Written** pairs (``bench/data/near_duplicates.jsonl``) were made by hand, and the rules of ``workers/values.py`` were
made with them in view. **Unseen** ones (``near_duplicates_unseen.jsonl``) were written after the rules stood, and no rule was
changed for them: one that finds a fault moves to the written ones, and new ones take its place. **Made** pairs come from templates:
each has two phrasings of one statement with slots, and what fills the slots can be changed in one respect at a time. A pair is two
phrasings of the same filling (the same), or of two fillings that differ in exactly one slot (different), in the same phrasing or in
another. Another seed gives other sentences.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

DATA = Path(__file__).parent / "data"
NEVER = ("number", "unit", "address", "chain", "side", "negation")
"""Kinds across which nothing may ever be merged."""

Filling = dict[str, str]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences, whether they say the same, and in what they differ (``paraphrase``: in nothing)."""

    one: str
    other: str
    same: bool
    kind: str


@dataclass(frozen=True, slots=True)
class Template:
    """Phrasings of one statement. ``{not}`` is filled with nothing, or with a negation: each phrasing says how it is negated."""

    phrasings: tuple[str, ...]
    negated: tuple[str, ...] = ()


TEMPLATES = (
    Template(
        (
            "Do a swap of {token} on {venue} when gas is {bound} {n} gwei.",
            "When gas is {bound} {n} gwei, do a swap of {token} on {venue}.",
        ),
        (
            "Do not do a swap of {token} on {venue} when gas is {bound} {n} gwei.",
            "When gas is {bound} {n} gwei, never do a swap of {token} on {venue}.",
        ),
    ),
    Template(
        (
            "{side} {token} on {venue} in the {time} if the spread is {n} bps.",
            "If the spread is {n} bps, {side} {token} on {venue} in the {time}.",
        ),
        (
            "Do not {side} {token} on {venue} in the {time} if the spread is {n} bps.",
            "If the spread is {n} bps, don't {side} {token} on {venue} in the {time}.",
        ),
    ),
    Template(
        (
            "Pool {address} on {chain} lost {n} % of its depth.",
            "On {chain} the pool {address} lost {n}% of its depth.",
        ),
        (
            "Pool {address} on {chain} has not lost {n} % of its depth.",
            "On {chain} the pool {address} has not lost {n}% of its depth.",
        ),
    ),
    Template(
        (
            "Slippage on {token} is {degree} than {n} bps on {chain} in the {time}.",
            "In the {time} slippage on {token} is {degree} than {n} bps on {chain}.",
        ),
        (
            "Slippage on {token} is not {degree} than {n} bps on {chain} in the {time}.",
            "In the {time} slippage on {token} isn't {degree} than {n} bps on {chain}.",
        ),
    ),
    Template(
        (
            "Bridging {token} to {chain} takes {n} {unit} on a {day}.",
            "On a {day}, bridging {token} to {chain} takes {n} {unit}.",
        ),
    ),
    Template(
        (
            "{venue} is {worth} than {venue2} for {token} trades of ${n}k.",
            "For {token} trades of ${n}k, {venue} is {worth} than {venue2}.",
        ),
        (
            "{venue} is not {worth} than {venue2} for {token} trades of ${n}k.",
            "For {token} trades of ${n}k, {venue} is not {worth} than {venue2}.",
        ),
    ),
    Template(
        (
            "Router {address} fails for {token} swaps above {n} {unit2} on {chain}.",
            "On {chain} the router {address} fails for {token} swaps above {n} {unit2}.",
        ),
        (
            "Router {address} never fails for {token} swaps above {n} {unit2} on {chain}.",
            "On {chain} the router {address} never fails for {token} swaps above {n} {unit2}.",
        ),
    ),
    Template(
        (
            "Swap {token} for {token2} on {chain} between {n}:00 and {m}:00 UTC.",
            "Between {n}:00 and {m}:00 UTC swap {token} for {token2} on {chain}.",
        ),
    ),
)
_TOKENS = ("USDC", "WETH", "WBTC", "DAI", "ARB", "LINK", "LDO", "UNI", "CRV", "rETH", "MKR", "PEPE")
_CHOICES: dict[str, tuple[str, ...]] = {
    "token": _TOKENS,
    "token2": _TOKENS,
    "venue": ("Curve", "Balancer", "Uniswap", "Sushiswap", "CoW", "Paraswap", "Kyber", "1inch"),
    "venue2": ("Curve", "Balancer", "Uniswap", "Sushiswap", "CoW", "Paraswap", "Kyber", "1inch"),
    "chain": ("Arbitrum", "Optimism", "Polygon", "Ethereum", "Base", "Gnosis", "Linea", "Scroll"),
    "n": ("3", "8", "12", "15", "25", "40", "80", "120"),
    "m": ("5", "9", "13", "16", "22"),
    "bound": ("above", "below"),
    "side": ("Buy", "Sell"),
    "degree": ("more", "less"),
    "worth": ("cheaper", "slower"),
    "time": ("morning", "evening", "afternoon", "night"),
    "day": ("Monday", "Tuesday", "Friday", "Sunday", "Saturday"),
    "unit": ("minutes", "hours", "seconds", "blocks"),
    "unit2": ("ETH", "USDC", "gwei"),
}
_OPPOSITE = {
    "above": "below", "below": "above", "Buy": "Sell", "Sell": "Buy", "more": "less", "less": "more", "cheaper": "more expensive",
    "slower": "faster",
}  # fmt: skip
_KINDS = {
    "n": "number", "m": "number", "unit": "unit", "unit2": "unit", "address": "address", "chain": "chain", "side": "side",
    "bound": "comparison", "degree": "comparison", "worth": "comparison", "token": "token", "token2": "token", "venue": "venue",
    "venue2": "venue", "time": "time", "day": "time",
}  # fmt: skip


def written(name: str = "near_duplicates") -> list[Pair]:
    """The pairs of a file that were made by hand."""
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    return [Pair(row["a"], row["b"], row["same"], row["kind"]) for row in rows]


def made(seed: int = 1, rounds: int = 12) -> list[Pair]:
    """The pairs from templates, each once, in a fixed order for a seed."""
    rng = Random(seed)
    pairs: dict[tuple[str, str], Pair] = {}
    for _ in range(rounds):
        for template in TEMPLATES:
            for pair in _of(template, rng):
                pairs.setdefault((pair.one, pair.other), pair)
    return list(pairs.values())


def _of(template: Template, rng: Random) -> Iterator[Pair]:
    filling = _filled(rng)
    first, *others = (_said(phrasing, filling) for phrasing in template.phrasings)
    for other in others:
        yield Pair(first, other, True, "paraphrase")
    for slot in sorted(_KINDS):
        if f"{{{slot}}}" not in template.phrasings[0]:
            continue
        changed = filling | {slot: _other(slot, filling, rng)}
        phrasing = template.phrasings[rng.randrange(len(template.phrasings))]
        yield Pair(first, _said(phrasing, changed), False, _KINDS[slot])
    if "{token2}" in template.phrasings[0] or "{venue2}" in template.phrasings[0]:
        kind = "token" if "{token2}" in template.phrasings[0] else "venue"
        turned = filling | {kind: filling[f"{kind}2"], f"{kind}2": filling[kind]}
        yield from (Pair(first, _said(phrasing, turned), False, "side") for phrasing in template.phrasings)
    yield from (Pair(first, _said(phrasing, filling), False, "negation") for phrasing in template.negated)


def _filled(rng: Random) -> Filling:
    filling = {slot: rng.choice(choices) for slot, choices in _CHOICES.items()}
    filling["token2"] = rng.choice([one for one in _TOKENS if one != filling["token"]])
    filling["venue2"] = rng.choice([one for one in _CHOICES["venue"] if one != filling["venue"]])
    filling["address"] = "0x" + "".join(rng.choice("0123456789abcdef") for _ in range(40))
    return filling


def _other(slot: str, filling: Filling, rng: Random) -> str:
    """Something else for a slot, as like as can be: one character of an address, the opposite of a side."""
    was = filling[slot]
    if slot == "address":
        place = rng.randrange(2, len(was))
        return was[:place] + rng.choice([digit for digit in "0123456789abcdef" if digit != was[place]]) + was[place + 1 :]
    if was in _OPPOSITE:
        return _OPPOSITE[was]
    taken = {was, filling.get(slot.rstrip("2"), ""), filling.get(f"{slot}2", "")}
    return rng.choice([one for one in _CHOICES[slot] if one not in taken])


def _said(phrasing: str, filling: Filling) -> str:
    text = phrasing.format(**filling)
    return text[0].upper() + text[1:]
