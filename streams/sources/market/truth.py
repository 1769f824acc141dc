"""The truth about a simulated market: every planted effect, what carries it, when, and which way.

The truth is derived from the same plan that the simulator draws from: what holds in one key, what holds in every pair of a tool
or in every tool, and which kinds of error are frequent enough for a lesson. It lists what is physically implied, proxies included:
an order's size shows in its share of the pool as well as in dollars, and a deeper pool makes every share smaller. What is not
listed is not there: whatever somebody finds beyond it is chance or a flaw of the method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Literal

from schemas.base import Contract, Part
from schemas.events import Action, ToolExecution
from schemas.types import Moment, Name
from streams.sources.market.plan import (
    BRIDGE_SHARE,
    DAILY_CHAIN,
    GAS_BY_HOUR,
    LARGE_SHARE,
    MEMPOOL_BPS,
    MORE_FAILURES,
    PRIORITY_GAS,
    RARE_FAILURE,
    START,
    Book,
    Impact,
    books,
    change_s,
)
from workers.errors import error_class

ClaimLevel = Literal["pair", "tool", "global"]
COST = ("cost_bps", "impact_bps", "shortfall_bps")
GAS = ("gas_gwei", "gas_native", "gas_usd")
LESSON_RATE = 0.05
"""From here on a kind of error is worth a lesson about the key."""
ERROR_KIND = "error_kind"
BRIDGE_KEY, BRIDGE_LABEL = "bridge:31337-simulated:USDC-route", "bridge USDC-route"
NULLS = ("coin", "queue_depth", "prompt_words", "side", "strategy", "weekday")


class Carrier(Part):
    """A feature through which an effect shows.

    ``sign`` says how the metric moves as a numeric feature rises; ``levels`` gives the metric's relative level at each value of a
    categorical or cyclic feature, the value as text. One of them is set.
    """

    feature: Name
    sign: Literal[-1, 1] | None = None
    levels: dict[str, float] | None = None


class Effect(Part):
    """One planted effect in one record key, in every pair of a tool or in every tool.

    It lasts from ``from_ts`` up to but not including ``to_ts`` (absent: to the end).

    ``metrics`` is the family in which it shows, ``carriers`` every feature known before the decision that carries it. ``follows``
    names the effect that this one took the place of at the regime change.
    """

    id: str
    level: ClaimLevel = "pair"
    key: str
    metrics: tuple[Name, ...]
    carriers: tuple[Carrier, ...]
    from_ts: Moment
    to_ts: Moment | None = None
    strength: str
    follows: str | None = None

    def carrier(self, feature: str) -> Carrier | None:
        """How a feature carries the effect; None where it does not."""
        return next((carrier for carrier in self.carriers if carrier.feature == feature), None)

    def overlaps(self, first: datetime, last: datetime) -> bool:
        """Whether it was there at some time from ``first`` to ``last``."""
        return self.from_ts <= last and (self.to_ts is None or first < self.to_ts)


class BookTruth(Part):
    """A record key of the simulated desk and its share of the executions."""

    key: str
    label: str
    share: float


class Truth(Contract):
    """What a simulated market contains; JSON by ``to_wire``. ``nulls`` are fields and features that carry nothing in any key.

    ``effects`` are those of keys, ``above`` those that hold above a key. ``lessons`` are the kinds of error that a key, a tool or
    several tools fail with, as effects on ``failed`` that the kind itself carries; they are there without planting, too, for
    something always fails.
    """

    kind: Literal["simulated-market-truth"] = "simulated-market-truth"
    simulated: Literal[True] = True
    seed: int
    events: int
    planted: bool
    start_ts: Moment
    change_ts: Moment
    books: tuple[BookTruth, ...]
    effects: tuple[Effect, ...] = ()
    above: tuple[Effect, ...] = ()
    lessons: tuple[Effect, ...] = ()
    nulls: tuple[str, ...] = NULLS


def truth_of(seed: int, events: int, *, effects: bool = True, above: bool = False) -> Truth:
    """The truth about ``simulate(seed, events, effects=effects, above=above)``."""
    desk = books(effects)
    change = START + timedelta(seconds=change_s(events))
    planted = [effect for book in desk for effect in _effects(book, change)] if effects else []
    if effects and above:
        planted += [effect for book in desk for effect in _drawn_above(book)]
    shares = [BookTruth(key=key_of(book), label=label_of(book), share=book.weight) for book in desk]
    if effects and above:
        shares.append(BookTruth(key=BRIDGE_KEY, label=BRIDGE_LABEL, share=BRIDGE_SHARE))
    return Truth(
        seed=seed,
        events=events,
        planted=effects,
        start_ts=START,
        change_ts=change,
        books=tuple(shares),
        effects=tuple(planted),
        above=tuple(_above(desk, drawn=above)) if effects else (),
        lessons=tuple(_lessons(desk, above=effects and above)),
        nulls=(*NULLS, "desk") if above else NULLS,
    )


def key_of(book: Book) -> str:
    """The record key of a book's executions."""
    return _example(book).key


def label_of(book: Book) -> str:
    """A book's name for people."""
    return f"{book.tool} {_example(book).pair_label}"


def _example(book: Book) -> ToolExecution:
    tokens = {"token_in": book.tokens[0], "token_out": book.tokens[-1]} if len(book.tokens) > 1 else {}
    pair = {"pair": book.pair or (book.tokens[0].identity if len(book.tokens) == 1 else None)}
    known = {
        "tool": book.tool,
        "action": Action.CALL,
        "agent_id": "-",
        "status": "rejected",
        "simulated": True,
        "ts_executed": START,
    }
    return ToolExecution.model_validate({**known, **tokens, **pair, "chain_id": book.chain or 1}).model_copy(
        update={"chain_id": book.chain}
    )


def _effects(book: Book, change: datetime) -> Iterator[Effect]:
    name = f"{book.tool}:{book.chain or 'offchain'}:{'-'.join(token.symbol or '' for token in book.tokens) or book.pair}".lower()
    if book.impact != (Impact(), Impact()):
        sized = [Carrier(feature=feature, sign=1) for feature in ("size_share", "size_usd", "size")]
        carriers = (*sized, Carrier(feature="pool_depth_usd", sign=-1))
        told = [_impact_strength(impact) for impact in book.impact]
        yield from _halves(name, "size-raises-cost", book, COST, (carriers, carriers), (told[0], told[1]), change)
    if any(len(set(levels.values())) > 1 for levels in book.router_bps):
        routed = [(Carrier(feature="router", levels=dict(levels)),) for levels in book.router_bps]
        told = [_levels_strength(levels, "bps") for levels in book.router_bps]
        yield from _halves(name, "router-moves-cost", book, COST, (routed[0], routed[1]), (told[0], told[1]), change)
    whole: list[tuple[str, tuple[str, ...], Carrier, str]] = []
    if any(book.large_router_bps.values()):
        told_large = f"{_levels_strength(book.large_router_bps, 'bps')}, for orders from {LARGE_SHARE * 100:g} % of the depth on"
        routed_large = Carrier(feature="router", levels=dict(book.large_router_bps))
        whole.append(("router-moves-cost-of-large-orders", COST, routed_large, told_large))
    if book.volatility_bps:
        told_volatility = f"{book.volatility_bps:g} bps for each multiple of the long-run volatility"
        whole.append(("volatility-raises-cost", COST, Carrier(feature="volatility", sign=1), told_volatility))
    if len(set(book.failure.values())) > 1:
        whole.append(
            (
                f"{book.failure_feature.replace('_', '-')}-moves-failures",
                ("failed",),
                _failure_carrier(book),
                _levels_strength(book.failure, ""),
            )
        )
    if book.chain == DAILY_CHAIN:
        hours = {str(hour): level for hour, level in enumerate(GAS_BY_HOUR)}
        whole.append(("hour-moves-gas", GAS, Carrier(feature="hour", levels=hours), "0.60 to 1.80 times the level"))
    if book.pnl_slope:
        whole.append(("drift-raises-pnl", ("pnl_bps",), Carrier(feature="drift_bps", sign=1), f"{book.pnl_slope:g} bps a bps"))
    if len(set(book.reward.values())) > 1:
        whole.append(
            ("mode-moves-reward", ("reward",), Carrier(feature="mode", levels=dict(book.reward)), _levels_strength(book.reward, ""))
        )
    for effect, metrics, carrier, strength in whole:
        yield Effect(
            id=f"{name}:{effect}", key=key_of(book), metrics=metrics, carriers=(carrier,), from_ts=START, strength=strength
        )


def _drawn_above(book: Book) -> Iterator[Effect]:
    """What the effects above the keys are in one key."""
    name = f"{book.tool}:{book.chain or 'offchain'}:{'-'.join(token.symbol or '' for token in book.tokens) or book.pair}".lower()
    if book.tool == "swap":
        yield _by_mempool(key_of(book), name)
    if book.tool in ("swap", "deposit", "withdraw", "rebalance"):
        yield _by_priority(key_of(book), name)


def _by_mempool(key: str, name: str, level: ClaimLevel = "pair") -> Effect:
    return _of_levels(key, f"{name}:mempool-moves-cost", level, "mempool", COST, MEMPOOL_BPS, "bps")


def _by_priority(key: str, name: str, level: ClaimLevel = "pair") -> Effect:
    return _of_levels(key, f"{name}:priority-moves-gas", level, "priority", GAS, PRIORITY_GAS, "times the level")


def _of_levels(
    key: str, name: str, level: ClaimLevel, feature: str, metrics: tuple[str, ...], levels: dict[str, float], unit: str
) -> Effect:
    """An effect of a category, there all the time."""
    carriers = (Carrier(feature=feature, levels=levels),)
    strength = _levels_strength(levels, unit)
    return Effect(id=name, level=level, key=key, metrics=metrics, carriers=carriers, from_ts=START, strength=strength)


def _above(desk: tuple[Book, ...], *, drawn: bool) -> Iterator[Effect]:
    """What holds in every pair of a tool that has several, and in every tool that pays gas."""
    swap = "swap:*-simulated:*"
    if all(book.impact[half] != Impact() for book in desk if book.tool == "swap" for half in (0, 1)):
        sized = [Carrier(feature=feature, sign=1) for feature in ("size_share", "size_usd")]
        yield Effect(
            id="swap:size-raises-cost",
            level="tool",
            key=swap,
            metrics=COST,
            carriers=(*sized, Carrier(feature="pool_depth_usd", sign=-1)),
            from_ts=START,
            strength="in each pair as its own effect says",
        )
    if drawn:
        yield _by_mempool(swap, "swap", "tool")
        yield _by_priority(swap, "swap", "tool")
        yield _by_priority("*-simulated", "all", "global")


def failure_rates(book: Book, *, above: bool) -> dict[str, float]:
    """The expected share of a book's executions that fail with each kind of error."""
    if book.tool == "swap":
        rates = {"transfer": sum(book.failure.values()) / len(book.failure)}
    elif book.tool == "simulate":
        rates = {"slippage": sum(book.failure.values()) / len(book.failure)}
    else:
        rates = {} if book.tool == "research" else {"paused": RARE_FAILURE}
    if above and book.tool in MORE_FAILURES:
        more, error = MORE_FAILURES[book.tool]
        rates[error_class(error)] = more * (1.0 - sum(rates.values()))
    return rates


def _lessons(desk: tuple[Book, ...], *, above: bool) -> Iterator[Effect]:
    """Micro: kinds over ``LESSON_RATE`` in a key. Meso: each tool's most frequent kind. Macro: kinds over the rate in two tools."""
    by_key = {key_of(book): (book.tool, book.weight, failure_rates(book, above=above)) for book in desk}
    if above:
        by_key[BRIDGE_KEY] = ("bridge", BRIDGE_SHARE, {"transport": 1.0})
    by_tool: dict[str, dict[str, float]] = {}
    weights: dict[str, float] = {}
    for key, (tool, weight, rates) in by_key.items():
        weights[tool] = weights.get(tool, 0.0) + weight
        for kind, rate in rates.items():
            by_tool.setdefault(tool, {}).setdefault(kind, 0.0)
            by_tool[tool][kind] += rate * weight
            if rate >= LESSON_RATE:
                yield _lesson("pair", key, kind, f"{rate:.3g} of the executions")
    spread: dict[str, int] = {}
    for tool, shares in by_tool.items():
        leader = max(shares, key=lambda kind: shares[kind])
        yield _lesson("tool", f"{tool}:*-simulated:*", leader, f"{shares[leader] / sum(shares.values()):.3g} of the failures")
        for kind, share in shares.items():
            spread[kind] = spread.get(kind, 0) + (share / weights[tool] >= LESSON_RATE)
    for kind, tools in spread.items():
        if tools >= 2:
            yield _lesson("global", "*-simulated", kind, f"in {tools} tools")


def _lesson(level: ClaimLevel, key: str, kind: str, strength: str) -> Effect:
    found = _of_levels(key, f"{key}:fails-with-{kind}", level, ERROR_KIND, ("failed",), {kind: 1.0, "any other": 0.0}, "")
    return found.model_copy(update={"strength": strength})


def _halves(
    name: str,
    effect: str,
    book: Book,
    metrics: tuple[str, ...],
    carriers: tuple[tuple[Carrier, ...], tuple[Carrier, ...]],
    strength: tuple[str, str],
    change: datetime,
) -> Iterator[Effect]:
    """One effect where both halves agree, else the second one following the first."""
    first = Effect(
        id=f"{name}:{effect}", key=key_of(book), metrics=metrics, carriers=carriers[0], from_ts=START, strength=strength[0]
    )
    if strength[0] == strength[1]:
        yield first
        return
    yield first.model_copy(update={"to_ts": change})
    yield first.model_copy(
        update={
            "id": f"{first.id}:changed",
            "carriers": carriers[1],
            "from_ts": change,
            "strength": strength[1],
            "follows": first.id,
        }
    )


def _failure_carrier(book: Book) -> Carrier:
    """Failure by a numeric feature is monotone in it; by a category it has levels."""
    try:
        steps = [rate for _, rate in sorted((float(value), rate) for value, rate in book.failure.items())]
    except ValueError:
        return Carrier(feature=book.failure_feature, levels=dict(book.failure))
    return Carrier(feature=book.failure_feature, sign=1 if steps[-1] > steps[0] else -1)


def _impact_strength(impact: Impact) -> str:
    parts = [f"{impact.slope / 100:g} bps for each 1 % of the pool's depth"] if impact.slope else []
    if impact.step:
        parts.append(f"{impact.step:g} bps more from {impact.threshold * 100:g} % on")
    return ", ".join(parts)


def _levels_strength(levels: Mapping[str, float], unit: str) -> str:
    return ", ".join(f"{value} {level:g} {unit}".strip() for value, level in levels.items())
