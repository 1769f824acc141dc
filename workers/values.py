"""The values in a sentence: what two sentences must agree in to say the same, whatever their cosine.

Everything is found by form, no model: numbers with their units, addresses and other identifiers, chains, names, sides (buy or
sell, above or below, …) and polarity. A sentence's **frame** is what is left when measures, sides and negations are taken out;
two sentences of one frame are the same statement with other values in it.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

_UNITS = {
    "%": "%", "percent": "%", "pct": "%", "bps": "bps", "bp": "bps", "gwei": "gwei", "wei": "wei", "eth": "eth", "ether": "eth",
    "$": "usd", "usd": "usd", "usdc": "usdc", "usdt": "usdt", "dai": "dai", "weth": "weth", "wbtc": "wbtc", "btc": "btc",
    "x": "x", "s": "s", "sec": "s", "seconds": "s", "min": "min", "minutes": "min", "h": "h", "hours": "h", "hour": "h",
    "d": "d", "days": "d", "day": "d", "ms": "ms", "blocks": "blocks", "block": "blocks", "ticks": "ticks", "utc": "utc",
}  # fmt: skip
_SCALES = {"k": Decimal(1_000), "m": Decimal(1_000_000), "bn": Decimal(1_000_000_000), "b": Decimal(1_000_000_000)}
_SIDES = {
    word: (axis, pole)
    for axis, poles in {
        "trade": ("buy buys bought buying", "sell sells sold selling"),
        "position": ("long longs", "short shorts"),
        "flow": ("deposit deposits deposited depositing add", "withdraw withdraws withdrew withdrawing withdrawal remove"),
        "holding": ("own owns owned hold holds held holding keep keeps", "exit exits exited close closed"),
        "bound": ("above over exceeds exceed > >= ≥", "below under < <= ≤"),
        "degree": ("higher more larger bigger greater high large big", "lower less smaller fewer low small"),
        "change": (
            "increase increases increased rise rises rose up raise",
            "decrease decreases decreased fall falls fell down cut",
        ),
        "depth": ("deep deeper liquid", "shallow shallower thin illiquid"),
        "speed": ("faster fast", "slower slow"),
        "time": ("before earlier", "after later"),
        "worth": ("cheap cheaper good better best safe safer", "expensive costly bad worse worst unsafe risky dangerous"),
        "result": ("succeed succeeds succeeded success", "fail fails failed failure revert reverts reverted"),
        "switch": ("enable enabled on allow allowed always", "disable disabled off forbid forbidden never"),
    }.items()
    for pole, words in enumerate(poles)
    for word in words.split()
    if word not in ("on", "off")
}
_NEGATIONS = frozenset("not no never none neither nor without avoid avoids avoided cannot stop dont".split())  # noqa: SIM905
_AUXILIARIES = frozenset("do does did be is are should must will would can could may might to the a an".split())  # noqa: SIM905
_CHAINS = {
    "ethereum": "1", "mainnet": "1", "optimism": "10", "bsc": "56", "gnosis": "100", "polygon": "137", "arbitrum": "42161",
    "avalanche": "43114", "linea": "59144", "scroll": "534352", "zksync": "324",
}  # fmt: skip
_HEX = re.compile(r"0x[0-9a-f]{2,64}(?:…[0-9a-f]+|\.\.\.[0-9a-f]+)?", re.IGNORECASE)
_DOTTED = re.compile(r"\b\d+(?:\.\d+){2,}\b")
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w.])[-+−])?(?P<usd>\$)?(?<![\w.])(?P<digits>\d[\d,_]*(?:\.\d+)?(?:e[-+]?\d+)?)(?P<tail>\s?%|\s?[a-z]+)?",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[<>≥≤]=?")
_ON_BASE = re.compile(r"\b(?:on|chain)\s+base\b", re.IGNORECASE)
_CHAIN_NUMBER = re.compile(r"\bchain\s+(?:id\s+)?(\d+)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Values:
    """``measures``: numbers by unit, in order; ``bare``: numbers without one. ``identifiers``: addresses, hashes, dotted numbers.

    ``names``: words written like a name; ``lead``: the first word, where it may be one; ``words``: all of them. ``sides``: axes
    with their poles. ``negated``: an odd number of negations. ``frame``: what is left.
    """

    measures: tuple[tuple[str, tuple[Decimal, ...]], ...]
    bare: tuple[Decimal, ...]
    identifiers: frozenset[str]
    chains: frozenset[str]
    names: frozenset[str]
    lead: str
    words: frozenset[str]
    sides: frozenset[tuple[str, int]]
    negated: bool
    frame: tuple[str, ...]


def values(text: str) -> Values:
    """The values of a sentence.

    >>> said = values("Do not swap on Curve when gas > 80 gwei")
    >>> said.measures, said.negated, sorted(said.names), sorted(said.sides)
    ((('gwei', (Decimal('80'),)),), True, ['curve'], [('bound', 0)])
    >>> values("paid 0.50 %").measures == values("paid 0.5%").measures
    True
    """
    plain = unicodedata.normalize("NFKC", text).replace("’", "'")
    identifiers: list[str] = []
    chains = {_CHAINS[word] for word in re.findall(r"[a-z]+", plain.lower()) if word in _CHAINS}
    chains |= {match[1] for match in _CHAIN_NUMBER.finditer(plain)} | ({"8453"} if _ON_BASE.search(plain) else set())

    def taken(match: re.Match[str]) -> str:
        identifiers.append(match[0].lower())
        return " \x01 "

    rest = _DOTTED.sub(taken, _HEX.sub(taken, plain))
    measures: dict[str, list[Decimal]] = {}
    bare: list[Decimal] = []
    rest = _NUMBER.sub(lambda match: _number(match, measures, bare), rest)
    tokens = [match[0] for match in _WORD.finditer(rest)]
    lowered = [token.lower() for token in tokens]
    return Values(
        measures=tuple(sorted((unit, tuple(found)) for unit, found in measures.items())),
        bare=tuple(bare),
        identifiers=frozenset(identifiers),
        chains=frozenset(chains),
        names=frozenset(_names(tokens)),
        lead=lowered[0] if lowered and not _bends(lowered[0]) else "",
        words=frozenset(lowered),
        sides=frozenset(_SIDES[word] for word in lowered if word in _SIDES),
        negated=sum(word in _NEGATIONS or word.endswith("n't") for word in lowered) % 2 == 1,
        frame=tuple(word for word in lowered if not _bends(word)),
    )


def differences(one: Values, other: Values) -> set[str]:
    """In what two sentences' values differ: nothing means that they may say the same.

    One word in place of another counts: it may be a synonym, or the opposite, and form cannot tell.

    >>> sorted(differences(values("pool 0xA1b2c3 cost 0.50 %"), values("pool 0xA1b2c4 cost 5.00 %")))
    ['identifiers', 'measures']
    """
    found = {
        name for name in ("measures", "bare", "identifiers", "chains", "negated") if getattr(one, name) != getattr(other, name)
    }
    if "negated" in found:
        found.remove("negated")
        found.add("polarity")
    if one.sides != other.sides:
        found.add("side")
    strangers = one.lead and other.lead and one.lead not in other.words and other.lead not in one.words
    if strangers or not (one.names <= other.words and other.names <= one.words):
        found.add("names")
    if len(one.frame) == len(other.frame) and sum(a != b for a, b in zip(one.frame, other.frame, strict=True)) == 1:
        found.add("a word")
    return found


def _number(match: re.Match[str], measures: dict[str, list[Decimal]], bare: list[Decimal]) -> str:
    """Take a number out of the sentence: a mark in its place, and what of its tail was no unit."""
    try:
        value = Decimal(match["digits"].replace(",", "").replace("_", ""))
    except InvalidOperation:
        return match[0]
    if match["sign"] in ("-", "−"):
        value = -value
    tail = (match["tail"] or "").strip().lower()
    if tail in _SCALES:
        value, tail = value * _SCALES[tail], ""
        kept = ""
    else:
        kept = "" if tail in _UNITS else (match["tail"] or "")
    unit = "usd" if match["usd"] else _UNITS.get(tail)
    if unit is None:
        bare.append(value)
        return f" \x02 {kept}"
    measures.setdefault(unit, []).append(value)
    return f" unit{'pct' if unit == '%' else unit} {kept}"


def _names(tokens: list[str]) -> set[str]:
    """Words with a capital, but for the first, which any sentence has; a first word counts when it has two."""
    return {
        token.lower()
        for place, token in enumerate(tokens)
        if (any(letter.isupper() for letter in token) if place else sum(letter.isupper() for letter in token) > 1)
    }


def _bends(word: str) -> bool:
    """Whether a word carries a side or a negation, or is there for grammar only."""
    return word in _SIDES or word in _NEGATIONS or word in _AUXILIARIES or word.endswith("n't")
