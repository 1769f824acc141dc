"""The values in a sentence: what two sentences must agree in to say the same, whatever their cosine.

Everything is found by form, no model: numbers with their units, addresses and other identifiers, chains, tokens and names, days and
times, sides (buy or sell, above or below, …), quantities (all, most, only) and polarity (``workers/lexicon.py`` has the words). A
sentence's **frame** is what is left when measures, sides and negations are taken out; two sentences of one frame are the same
statement with other values in it.

Order matters where roles do. "Swap USDC for WETH" has the words of "swap WETH for USDC", and so has "alpha is cheaper than beta" of
its opposite; a cosine puts both pairs over 0.98. So what stands on the two sides of such a word is compared (``_turned``), the word
that a side or a negation belongs to (``heads``), and whether moving one phrase explains the other order (``_shuffled``: "at night
pools are thin" and "pools are thin at night"); never the bag of words alone.

All of it errs in one direction: what form cannot tell from the opposite counts as different. The price is in
``bench/RESULTS.md``: the share of true paraphrases that are kept apart.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, DecimalException

from workers.lexicon import (
    ANTONYM_PREFIXES,
    AUXILIARIES,
    CALENDAR,
    CHAINS,
    EXCHANGES,
    FUNCTIONS,
    NEGATIONS,
    NUMBER_WORDS,
    PIVOTS,
    QUANTITIES,
    SAME,
    SCALES,
    SIDES,
    TOKENS,
    UNITS,
    VENUES,
    singular,
)

_HEX = re.compile(r"0x[0-9a-f]{2,64}(?:(?:…|\.\.\.?)[0-9a-f]+)?", re.IGNORECASE)
_BARE_HEX = re.compile(r"\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,64}\b", re.IGNORECASE)
_BASE58 = re.compile(r"\b(?=\w*\d)(?=\w*[a-z])[1-9A-HJ-NP-Za-km-z]{32,44}\b")
_DOTTED = re.compile(r"\b\d+(?:\.\d+){2,}\b|\b[\w-]+\.(?:eth|xyz|sol|crypto|lens|com|org|io)\b", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w.])[-+−])?(?P<usd>\$)?(?<![\w.])(?P<digits>\d[\d,_]*(?:\.\d+)?(?:e[-+]?\d+)?)(?P<tail>\s?%|\s?[a-z]+)?",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[<>≥≤]=?|→|->")
_ON_BASE = re.compile(r"\b(?:on|chain|to|from)\s+base\b", re.IGNORECASE)
_CHAIN_NUMBER = re.compile(r"\bchain\s+(?:id\s+)?(\d+)\b", re.IGNORECASE)
_COUNTED = r"(?=[^\w$]*[\d$])"
_REPHRASED = (
    (re.compile(rf"\b(?:more|greater|larger|higher|longer) than{_COUNTED}", re.IGNORECASE), "above"),
    (re.compile(rf"\b(?:less|fewer|smaller|lower|shorter) than{_COUNTED}", re.IGNORECASE), "below"),
    (re.compile(r"\bno longer\b|\bfails? to\b|\bfar from\b|\binstead of\b|\brather than\b", re.IGNORECASE), "not"),
)
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""No digit of a number is rounded away: raw amounts have up to 78, and two that differ in the last are two."""
_MARKS = 0xF0000
"""A private plane of Unicode: what stands in the places of identifiers until their order is known."""
_PRIVATE = re.compile("[\U000f0000-\U000ffffd]")


@dataclass(frozen=True, slots=True)
class Values:
    """``measures``: numbers by unit, in order; ``bare``: numbers without one. ``identifiers``: addresses, hashes, dotted numbers;
    ``mentioned``: the same in the order in which they come.

    ``names``: words written like a name; ``lead``: the first word, where it may be one; ``words``: all of them, in order, lower
    case. ``things``: tokens and venues, ``calendar``: days and times, ``codes``: words with digits in them (v3), ``quantities``:
    all, most, only, … . ``sides``: axes with their poles. ``heads``: the word that each side or negation belongs to.
    ``negated``: an odd number of negations. ``frame``: what is left; ``content``: of that, what is no function word.
    """

    measures: tuple[tuple[str, tuple[Decimal, ...]], ...]
    bare: tuple[Decimal, ...]
    identifiers: frozenset[str]
    mentioned: tuple[str, ...]
    chains: frozenset[str]
    names: frozenset[str]
    lead: str
    words: tuple[str, ...]
    things: frozenset[str]
    calendar: frozenset[str]
    codes: frozenset[str]
    quantities: frozenset[str]
    sides: frozenset[tuple[str, int]]
    heads: frozenset[tuple[str, int, str]]
    negated: bool
    frame: tuple[str, ...]
    content: tuple[str, ...]


def values(text: str) -> Values:
    """The values of a sentence.

    >>> said = values("Do not swap on Curve when gas > 80 gwei")
    >>> said.measures, said.negated, sorted(said.names), sorted(said.sides)
    ((('gwei', (Decimal('80'),)),), True, ['curve'], [('bound', 0)])
    >>> values("paid 0.50 %").measures == values("paid 0.5%").measures
    True
    """
    plain = " ".join(unicodedata.normalize("NFKC", text).replace("’", "'").split())
    for pattern, words in _REPHRASED:
        plain = pattern.sub(words, plain)
    rest, mentioned = _identified(plain)
    measures: dict[str, list[Decimal]] = {}
    bare: list[Decimal] = []
    rest = _NUMBER.sub(lambda match: _number(match, measures, bare), rest)
    tokens = [match[0] for match in _WORD.finditer(rest)]
    lowered = [_plain(token) for token in tokens]
    bare += [NUMBER_WORDS[word] for word in lowered if word in NUMBER_WORDS]
    frame = tuple(word for word in lowered if not _bends(word))
    return Values(
        measures=tuple(sorted((unit, tuple(found)) for unit, found in measures.items())),
        bare=tuple(bare),
        identifiers=frozenset(mentioned),
        mentioned=mentioned,
        chains=_chains(plain, lowered),
        names=frozenset(_names(tokens)),
        lead=lowered[0] if lowered and not _bends(lowered[0]) and lowered[0] not in FUNCTIONS | QUANTITIES.keys() else "",
        words=tuple(lowered),
        things=frozenset(word for word in lowered if word in TOKENS or word in VENUES),
        calendar=frozenset(word for word in lowered if word in CALENDAR),
        codes=frozenset(word for word in lowered if any(c.isdigit() for c in word) and any(c.isalpha() for c in word)),
        quantities=frozenset(QUANTITIES[word] for word in lowered if word in QUANTITIES),
        sides=frozenset(SIDES[word] for word in lowered if word in SIDES),
        heads=frozenset(_heads(lowered)),
        negated=sum(_negates(word) for word in lowered) % 2 == 1,
        frame=frame,
        content=tuple(word for word in frame if word not in FUNCTIONS),
    )


_EQUAL = {
    "measures": "measures", "bare": "bare", "identifiers": "identifiers", "chains": "chains", "negated": "polarity",
    "sides": "side", "things": "names", "calendar": "calendar", "codes": "codes", "quantities": "quantities",
}  # fmt: skip


def differences(one: Values, other: Values) -> set[str]:
    """In what two sentences' values differ: nothing means that they may say the same.

    One word in place of another counts, and a word more on one side: it may be a synonym or idle, or the opposite or a condition,
    and form cannot tell.

    >>> sorted(differences(values("pool 0xA1b2c3 cost 0.50 %"), values("pool 0xA1b2c4 cost 5.00 %")))
    ['identifiers', 'measures']
    >>> sorted(differences(values("swap USDC for WETH"), values("swap WETH for USDC")))
    ['order']
    """
    found = {name for field, name in _EQUAL.items() if getattr(one, field) != getattr(other, field)}
    if _strangers(one, other):
        found.add("names")
    if _opposed(one, other):
        found.add("side" if _opposed(one, other) == "side" else "polarity")
    moved = one.identifiers == other.identifiers and one.mentioned != other.mentioned
    if moved or _turned(one.words, other.words) or _shuffled(one, other):
        found.add("order")
    mine, theirs = Counter(one.content), Counter(other.content)
    extra, missing = (mine - theirs).total(), (theirs - mine).total()
    if (extra, missing) == (1, 1):
        found.add("a word")
    elif (extra == 0) != (missing == 0):
        found.add("scope")
    return found


def _strangers(one: Values, other: Values) -> bool:
    """Whether one has a name that the other does not mention."""
    leads = one.lead and other.lead and one.lead not in other.words and other.lead not in one.words
    return bool(leads) or not (one.names <= set(other.words) and other.names <= set(one.words))


def _opposed(one: Values, other: Values) -> str:
    """``side`` or ``polarity`` where the same word has the opposite side in the other, or is negated in only one of them."""
    ours, theirs_ = _poles(one), _poles(other)
    if any(ours[place] != theirs_[place] for place in ours.keys() & theirs_.keys()):
        return "side"
    for mine, theirs in ((one, other), (other, one)):
        negated = {head for axis, _, head in theirs.heads if axis == "not"}
        if negated and any(axis == "not" and head in theirs.words and head not in negated for axis, _, head in mine.heads):
            return "polarity"
    mine_only, theirs_only = set(one.content) - set(other.content), set(other.content) - set(one.content)
    prefixed = any(prefix + word in theirs_only for word in mine_only for prefix in ANTONYM_PREFIXES)
    return "polarity" if prefixed or any(prefix + word in mine_only for word in theirs_only for prefix in ANTONYM_PREFIXES) else ""


def _poles(said: Values) -> dict[tuple[str, str], set[int]]:
    """The sides that each word has, by axis: a word can have both ("buy WETH when calm, sell WETH when volatile")."""
    poles: dict[tuple[str, str], set[int]] = {}
    for axis, pole, head in said.heads:
        if axis != "not":
            poles.setdefault((axis, head), set()).add(pole)
    return poles


def _turned(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether things have changed roles: about a pivot (``alpha beats beta``), or around an exchange (``USDC for WETH``)."""
    left, right = _about_pivot(one), _about_pivot(other)
    if left is not None and right is not None:
        over, back = left[0] & right[1], left[1] & right[0]
        if (over - right[0]) and (back - left[0]):
            return True
    mine, theirs = _exchanged(one), _exchanged(other)
    return any((b, a) in theirs - mine for a, b in mine - theirs)


def _shuffled(one: Values, other: Values) -> bool:
    """Whether the same words stand in an order that moving one phrase does not explain: two of them have changed places."""
    mine, theirs = ([word for word in said.words if word not in AUXILIARIES] for said in (one, other))
    if Counter(mine) != Counter(theirs):
        mine, theirs = ([word for word in said if word not in FUNCTIONS] for said in (mine, theirs))
    return Counter(mine) == Counter(theirs) and not _one_move(mine, theirs)


def _one_move(one: list[str], other: list[str]) -> bool:
    """Whether moving one run of words makes one list of the other.

    >>> _one_move("at night pools are thin".split(), "pools are thin at night".split())
    True
    >>> _one_move("spot lags perpetual".split(), "perpetual lags spot".split())
    False
    """
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    return not one or any(one[place:] + one[:place] == other for place in range(1, len(one)))


def _about_pivot(words: tuple[str, ...]) -> tuple[set[str], set[str]] | None:
    for place, word in enumerate(words):
        if word in PIVOTS:
            idle = FUNCTIONS | AUXILIARIES
            return set(words[:place]) - idle, set(words[place + 1 :]) - idle
    return None


def _exchanged(words: tuple[str, ...]) -> set[tuple[str, str]]:
    """Pairs of words with nothing but an exchange, articles and one more word between them, in order."""
    told = [word for word in words if word not in ("the", "a", "an")]
    pairs = set()
    for place, word in enumerate(told):
        if word in EXCHANGES and 0 < place < len(told) - 1:
            pairs.add((told[place - 1], told[place + 1]))
    return pairs


def _heads(words: list[str]) -> list[tuple[str, int, str]]:
    """What each side and negation stands before: the next word that is there for more than grammar."""
    found = []
    for place, word in enumerate(words):
        sided, negates = SIDES.get(word), _negates(word)
        if sided is None and not negates:
            continue
        after = next((w for w in words[place + 1 :] if w not in AUXILIARIES and w not in FUNCTIONS), "")
        if sided is not None:
            found.append((*sided, after))
        if negates:
            found.append(("not", 0, after))
    return found


def _chains(plain: str, words: list[str]) -> frozenset[str]:
    named = {CHAINS[word] for word in words if word in CHAINS}
    numbered = {match[1] for match in _CHAIN_NUMBER.finditer(plain)}
    return frozenset(named | numbered | ({"8453"} if _ON_BASE.search(plain) else set()))


def _identified(plain: str) -> tuple[str, tuple[str, ...]]:
    """A sentence with marks in the places of its addresses, hashes and dotted numbers; and these, each where it first comes."""
    found: list[str] = []
    rest = _PRIVATE.sub(" ", plain)
    for pattern in (_HEX, _BASE58, _BARE_HEX, _DOTTED):

        def taken(match: re.Match[str], as_written: bool = pattern is _BASE58) -> str:
            found.append(match[0] if as_written else match[0].lower())
            return f" {chr(_MARKS + len(found) - 1)} "

        rest = pattern.sub(taken, rest)
    return rest, tuple(dict.fromkeys(found[ord(mark) - _MARKS] for mark in _PRIVATE.findall(rest)))


def _number(match: re.Match[str], measures: dict[str, list[Decimal]], bare: list[Decimal]) -> str:
    """Take a number out of the sentence: a mark in its place, and what of its tail was no unit."""
    tail = (match["tail"] or "").strip().lower()
    kept = "" if tail in UNITS or tail in SCALES else (match["tail"] or "")
    try:
        value = _EXACT.create_decimal(match["digits"].replace(",", "").replace("_", ""))
        if tail in SCALES:
            value = _EXACT.multiply(value, SCALES[tail])
    except DecimalException:  # an exponent beyond all numbers: a word like any other
        return match[0]
    if match["sign"] in ("-", "−"):
        value = value.copy_negate()
    unit = "usd" if match["usd"] else UNITS.get(tail)
    if unit is None:
        bare.append(value)
        return f" \x02 {kept}"
    measures.setdefault(unit, []).append(value)
    return f" unit{'pct' if unit == '%' else unit} {kept}"


def _names(tokens: list[str]) -> set[str]:
    """Words with a capital, but for the first, which any sentence has; a first word counts when it has two."""
    return {
        _plain(token)
        for place, token in enumerate(tokens)
        if (any(letter.isupper() for letter in token) if place else sum(letter.isupper() for letter in token) > 1)
    }


def _plain(token: str) -> str:
    """A word as it is compared: lower case, singular, one of those that are the same; sides and negations as they are."""
    low = token.lower()
    if low in SIDES or low in NEGATIONS or low in AUXILIARIES:
        return low
    return SAME.get(singular(low), singular(low))


def _negates(word: str) -> bool:
    return word in NEGATIONS or word.endswith("n't")


def _bends(word: str) -> bool:
    """Whether a word carries a side or a negation, or is there for grammar only."""
    return word in SIDES or word in AUXILIARIES or _negates(word)
