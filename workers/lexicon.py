"""The words that change what a sentence about trades says: closed classes, by form, for ``workers/values.py``.

A class is only listed where one member in place of another makes another statement. What is in no class is compared as it stands.
"""

from __future__ import annotations

from decimal import Decimal

UNITS = {
    "%": "%", "percent": "%", "pct": "%", "bps": "bps", "bp": "bps", "gwei": "gwei", "wei": "wei", "eth": "eth", "ether": "eth",
    "$": "usd", "usd": "usd", "dollars": "usd", "usdc": "usdc", "usdt": "usdt", "dai": "dai", "weth": "weth", "wbtc": "wbtc",
    "btc": "btc", "x": "x", "s": "s", "sec": "s", "second": "s", "seconds": "s", "min": "min", "minute": "min", "minutes": "min",
    "h": "h", "hours": "h", "hour": "h", "d": "d", "days": "d", "day": "d", "week": "w", "weeks": "w", "month": "mo",
    "months": "mo", "year": "y", "years": "y", "ms": "ms", "blocks": "blocks", "block": "blocks", "ticks": "ticks", "tick": "ticks",
    "hops": "hops", "hop": "hops", "utc": "utc",
}  # fmt: skip
SCALES = {"k": Decimal(1_000), "m": Decimal(1_000_000), "bn": Decimal(1_000_000_000), "b": Decimal(1_000_000_000)}
NUMBER_WORDS = {
    word: Decimal(value)
    for word, value in {
        "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
        "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "fifteen": "15", "twenty": "20", "thirty": "30", "forty": "40",
        "fifty": "50", "sixty": "60", "hundred": "100", "thousand": "1000", "million": "1000000", "dozen": "12", "half": "0.5",
        "quarter": "0.25", "once": "1", "twice": "2", "double": "2", "doubles": "2", "doubled": "2", "triple": "3", "triples": "3",
        "halves": "0.5", "halved": "0.5", "second": "2", "third": "3", "fourth": "4", "single": "1",
    }.items()
}  # fmt: skip
"""Numbers as words; ``second`` counts as an ordinal, which without a number before it it is."""

SIDES = {
    word: (axis, pole)
    for axis, poles in {
        "trade": ("buy buys bought buying buyer buyers", "sell sells sold selling seller sellers"),
        "position": ("long longs", "short shorts"),
        "flow": (
            "deposit deposits deposited depositing add adds added inflow inflows",
            "withdraw withdraws withdrew withdrawing withdrawal withdrawals remove removes removed outflow outflows",
        ),
        "loan": ("supply supplies supplied lend lends lent", "borrow borrows borrowed borrowing"),
        "stake": ("stake stakes staked staking", "unstake unstakes unstaked unstaking"),
        "supply": ("mint mints minted minting", "burn burns burned burning"),
        "book": ("bid bids maker makers", "ask asks taker takers"),
        "exactness": ("input in", "output out"),
        "holding": ("own owns owned hold holds held holding keep keeps", "exit exits exited close closes closed closing"),
        "bound": ("above over exceeds exceed past > >= ≥", "below under < <= ≤"),
        "limit": ("minimum least min", "maximum most max"),
        "degree": ("higher more larger bigger greater high large big longer", "lower less smaller fewer low small shorter"),
        "change": (
            "increase increases increased rise rises rose rising up raise raises raised widens gain gains grows",
            "decrease decreases decreased fall falls fell falling down cut cuts drop drops dropped narrows loss losses shrinks",
        ),
        "depth": ("deep deeper deepest liquid", "shallow shallower thin thinner illiquid"),
        "speed": ("faster fast quick quickly", "slower slow slowly"),
        "time": ("before earlier early until", "after later late since"),
        "rank": ("first", "last"),
        "worth": (
            "cheap cheaper cheapest good better best safe safer reliable profitable outperforms outperform",
            "expensive costly bad worse worst unsafe risky dangerous unreliable unprofitable underperforms underperform",
        ),
        "market": ("calm quiet ranging bull bullish", "volatile turbulent trending bear bearish"),
        "access": ("private", "public"),
        "result": ("succeed succeeds succeeded success filled fills fill", "fail fails failed failure revert reverts reverted"),
        "switch": ("enable enabled allow allows allowed always valid", "disable disabled forbid forbidden never invalid expired"),
    }.items()
    for pole, words in enumerate(poles)
    for word in words.split()
    if word != "in"
}
NEGATIONS = frozenset(
    "not no never none neither nor without avoid avoids avoided cannot stop stops dont unless except rarely seldom hardly"  # noqa: SIM905
    " scarcely lacks lack".split()
)
ANTONYM_PREFIXES = ("un", "in", "il", "im", "ir", "dis", "non", "de")
QUANTITIES = {
    word: kind
    for kind, words in {
        "all": "all every each both entire whole",
        "most": "most mostly majority usually",
        "some": "some several sometimes occasionally partly",
        "few": "few",
        "only": "only solely exclusively",
        "always": "always",
    }.items()
    for word in words.split()
}
AUXILIARIES = frozenset(
    "do does did be is are was were been should must will would can could may might to the a an has have had".split()  # noqa: SIM905
)
FUNCTIONS = frozenset(
    "of on in at for by with while when whenever during if it its their our we i you this that these those and or as so then there"  # noqa: SIM905
    " than about around through via from into across within also just too".split()
)
SAME = {
    "trade": "swap", "exchange": "swap", "order": "swap", "tx": "transaction", "txn": "transaction", "often": "often",
    "frequently": "often", "via": "through", "however": "but",
}  # fmt: skip
"""Words that are the same in this field."""
TOKENS = frozenset(
    "eth weth steth wsteth reth cbeth usdc usdt dai frax lusd gho usd0 susd tusd usde btc wbtc cbbtc tbtc arb op matic pol link uni"  # noqa: SIM905
    " aave crv ldo mkr comp snx bal sushi cake gmx pepe shib doge sol avax bnb atom dot near sui apt ape ens grt rpl fxs cvx 1inch"
    " pendle ena eigen tia inj wld".split()
)
VENUES = frozenset(
    "uniswap curve balancer sushiswap pancakeswap cow cowswap paraswap kyber kyberswap 1inch matcha zerox dodo bancor velodrome"  # noqa: SIM905
    " aerodrome camelot gmx dydx aave compound morpho spark maker lido hop across stargate synapse celer wormhole layerzero"
    " flashbots".split()
)
CALENDAR = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february april june july august september october november"  # noqa: SIM905
    " december morning afternoon evening night noon midnight weekday weekend today yesterday tomorrow hourly daily weekly monthly"
    " quarterly yearly spring summer autumn winter am pm".split()
)
CHAINS = {
    "ethereum": "1", "mainnet": "1", "optimism": "10", "bsc": "56", "gnosis": "100", "polygon": "137", "arbitrum": "42161",
    "avalanche": "43114", "linea": "59144", "scroll": "534352", "zksync": "324", "solana": "solana", "tron": "tron",
}  # fmt: skip
PIVOTS = frozenset(
    "than beat beats beating outperform outperforms exceed exceeds follow follows precede precedes versus vs".split()  # noqa: SIM905
)
"""Words whose two sides have different roles."""
EXCHANGES = frozenset("for to into against from versus vs → ->".split())  # noqa: SIM905
"""Words between two things of which one becomes, or is set against, the other."""


def singular(word: str) -> str:
    """A word without the ``s`` of a plural or a possessive; short words and those on ``ss`` stay.

    >>> singular("swaps"), singular("mondays"), singular("ldo's"), singular("gas"), singular("less")
    ('swap', 'monday', 'ldo', 'gas', 'less')
    """
    word = word.removesuffix("'s")
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word
