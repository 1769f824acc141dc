"""Draws a simulated desk's tool executions, one after another, from nothing but a seed.

The physics of a swap: it is asked for a size; the fair amount out is that size at the pool's mid; what comes out is less by the
pool's fee, the impact of the size on the pool's depth, what the router and a nervous market add, and symmetric heavy-tailed
noise. Amounts are exact integers, so the cost that anyone computes from the event is the one drawn here, to the rounding of one
raw unit. A quote promises everything but the noise.
"""

from __future__ import annotations

import hashlib
from bisect import bisect
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Context, Decimal
from itertools import accumulate
from math import exp
from random import Random
from typing import Any, Literal

from schemas.events import Leg, Provenance, Quote, Status, Token, ToolExecution, Valuation
from streams.sources.market.plan import (
    ACTIVITY_BY_HOUR,
    BRIDGE_SHARE,
    DAILY_CHAIN,
    EAST_SHARE,
    FLAT_CHAIN,
    GAS_BY_HOUR,
    GAS_GWEI,
    LARGE_SHARE,
    MEAN_GAP_S,
    MEMPOOL_BPS,
    MORE_FAILURES,
    PRICES,
    PRIORITY_GAS,
    RARE_FAILURE,
    ROUTERS,
    START,
    STRATEGIES,
    USDC,
    VOLATILITY,
    WETH,
    Book,
    books,
    change_s,
)
from streams.sources.market.world import Asset, Reverting, Shocks, arrivals

AGENT = "simulator"
NOISE_BPS = 7.0
"""Scale of the noise in a swap's cost at long-run volatility, in bps."""
GAS_UNITS = {"swap": 165_000, "deposit": 120_000, "withdraw": 140_000, "rebalance": 310_000}
BLOCK_S = {DAILY_CHAIN: 2.0}
SLIPPAGE_BOUND_BPS = (5.0, 10.0, 25.0, 50.0)

_EXACT = Context(prec=28)
_MILLIONTHS = 10**10
"""A whole in millionths of a bps: the grid on which costs are applied to raw amounts."""


NullKind = Literal["market", "iid", "ar1", "heavy"]


def simulate(
    seed: int, events: int, *, effects: bool = True, above: bool = False, null_kind: NullKind = "market"
) -> Iterator[ToolExecution]:
    """``events`` executions of the simulated desk in the order of their times; memory does not grow with them.

    With ``effects`` false nothing is planted, but tails stay heavy and gas, depth and volatility stay persistent. ``above`` adds
    what lies above the keys: features that move costs in every pair of a tool and gas in every tool, one that is a trap, a tool
    that always fails and tools that fail more often. It draws from dice of its own, so that the rest of a seed's market stays what
    it is. The same arguments always give the same events; every one is marked ``simulated``.

    ``null_kind`` is the noise: the market's own (Student t with three degrees, levels that revert in hours), or independent normal
    noise and levels (``iid``), or noise and a feature that are autocorrelated from trade to trade (``ar1``), or noise without a
    mean (``heavy``).
    """
    desk = Desk(seed, events, effects=effects, above=above, null_kind=null_kind)
    times = arrivals(seed, mean_gap_s=MEAN_GAP_S, by_hour=ACTIVITY_BY_HOUR)
    for number, time_s in zip(range(events), times, strict=False):
        yield ToolExecution.model_validate(desk.execution(number, time_s))


class Desk:
    """The state of the simulated market and the desk's dice."""

    def __init__(self, seed: int, events: int, *, effects: bool, above: bool = False, null_kind: NullKind = "market") -> None:
        self._seed = seed
        self._effects = effects
        self._above = Random(f"{seed}:above") if above else None  # noqa: S311
        self._books = books(effects)
        self._bounds = list(accumulate(book.weight for book in self._books))
        self._change_s = change_s(events)
        self._daily_gas = effects
        self._random = Random(f"{seed}:desk")  # noqa: S311 — reproducible, not secret
        self._shocks = Shocks(seed, self._random, null_kind)
        faster = 1e-6 if null_kind == "iid" else 1.0
        self._gas = {chain: Reverting(seed, f"gas:{chain}", half_life_s=5400.0 * faster, spread=0.40) for chain in GAS_GWEI}
        self._depth = {
            book.pool: Reverting(seed, f"depth:{book.pool}", half_life_s=64_800.0 * faster, spread=0.35)
            for book in self._books
            if book.pool
        }
        self._assets = {
            identity: Asset(seed, identity, price=price, volatility=VOLATILITY[identity]) for identity, price in PRICES.items()
        }
        self._makers: dict[str, Callable[[Book, dict[str, Any], float], None]] = {
            "swap": self._swap,
            "deposit": self._move,
            "withdraw": self._move,
            "rebalance": self._rebalance,
            "simulate": self._dry_run,
            "research": self._research,
        }

    def execution(self, number: int, time_s: float) -> dict[str, Any]:
        """The fields of one execution at a time; times must not go back."""
        random = self._random
        book = self._books[min(bisect(self._bounds, random.random() * self._bounds[-1]), len(self._books) - 1)]
        ts = START + timedelta(milliseconds=int(time_s * 1000))
        fields: dict[str, Any] = {
            "tool": book.tool,
            "agent_id": AGENT,
            "strategy": random.choice(STRATEGIES),
            "simulated": True,
            "status": Status.SUCCESS,
            "ts_decision": ts - timedelta(milliseconds=int(400 + 2500 * random.random())),
            "ts_executed": ts,
            "ts_unit": "iso",
            "features": {
                "coin": "heads" if random.random() < 0.5 else "tails",
                "queue_depth": float(int(self._shocks.queue(book.tool, random.lognormvariate(2.0, 1.0)))),
            },
        }
        if book.chain is not None:
            fields["chain_id"] = book.chain
        if book.tool in GAS_UNITS:
            self._transaction(book, fields, number, time_s)
        self._makers[book.tool](book, fields, time_s)
        return fields if self._above is None or not self._effects else self._failing(self._above, fields)

    def _failing(self, dice: Random, fields: dict[str, Any]) -> dict[str, Any]:
        """The same execution, or a failed one, or one of the bridge in its place."""
        if dice.random() < BRIDGE_SHARE:
            kept = ("agent_id", "strategy", "simulated", "ts_decision", "ts_executed", "ts_unit", "features")
            bridge = {name: fields[name] for name in kept}
            return bridge | {
                "tool": "bridge",
                "chain_id": FLAT_CHAIN,
                "pair": "USDC-route",
                "status": Status.FAILED,
                "error": "timed out: the relayer does not answer",
            }
        rate, error = MORE_FAILURES.get(fields["tool"], (0.0, ""))
        if dice.random() < rate and fields["status"] is Status.SUCCESS:
            fields |= {"status": Status.REVERTED if "gas_used" in fields else Status.FAILED, "error": error}
            fields.pop("reward", None)
        return fields

    def _drawn_above(self, fields: dict[str, Any], name: str, levels: dict[str, float]) -> float:
        """A feature of the effects above the keys, noted in the fields, and what it does."""
        if self._above is None:
            return levels[min(levels, key=lambda value: levels[value])]
        chosen = self._above.choice(tuple(levels))
        fields["features"][name] = chosen
        return levels[chosen] if self._effects else min(levels.values())

    def _transaction(self, book: Book, fields: dict[str, Any], number: int, time_s: float) -> None:
        """Hash, block and gas: the chain's level, its rhythm, a persistent deviation, jitter and rare spikes."""
        chain, random, ts = book.chain or 0, self._random, fields["ts_executed"]
        gwei = GAS_GWEI[chain] * exp(self._gas[chain].at(time_s) + random.gauss(0.0, 0.06))
        if chain == DAILY_CHAIN and self._daily_gas:
            gwei *= GAS_BY_HOUR[ts.hour]
        if random.random() < 0.01:
            gwei *= 1.0 + random.paretovariate(1.5)
        gwei *= self._drawn_above(fields, "priority", PRIORITY_GAS)
        if self._above is not None:
            fields["features"]["desk"] = "east" if self._above.random() < EAST_SHARE[chain] else "west"
        fields |= {
            "tx_hash": "0x" + hashlib.sha256(f"simulated:{self._seed}:{number}".encode()).hexdigest(),
            "log_index": 0,
            "block_number": int(time_s / BLOCK_S.get(chain, 12.0)),
            "gas_used": int(GAS_UNITS[book.tool] * exp(random.gauss(0.0, 0.10))),
            "gas_price_wei": int(gwei * 1e9),
            "native_usd": self._valuation(WETH, time_s, ts),
            "amount_provenance": Provenance.LOG,
        }

    def _swap(self, book: Book, fields: dict[str, Any], time_s: float) -> None:
        random, late = self._random, time_s >= self._change_s
        token_in, token_out = book.tokens if random.random() < 0.5 else book.tokens[::-1]
        router = random.choice(ROUTERS)
        size_usd = round(random.lognormvariate(9.9, 1.0), 2)
        depth = book.depth_usd * exp(self._depth[book.pool or ""].at(time_s))
        base = self._asset(book.tokens[0], time_s)
        fields["router"] = router
        fields["features"] |= {
            "size_share": _rounded(size_usd / depth),
            "pool_depth_usd": _rounded(depth),
            "volatility": _rounded(base.volatility),
        }
        certain = book.fee_pips / 100 + book.impact[late].bps(size_usd / depth)
        certain += book.router_bps[late][router] + book.volatility_bps * (base.stress - 1.0)
        if size_usd >= LARGE_SHARE * depth:
            certain += book.large_router_bps[router]
        certain += self._drawn_above(fields, "mempool", MEMPOOL_BPS)
        noise = NOISE_BPS * self._shocks.scale(base.stress) * self._shocks.unit(book.pool or "")
        prices = self._valuation(token_in, time_s, fields["ts_executed"]), self._valuation(token_out, time_s, fields["ts_executed"])
        mid = _EXACT.divide(prices[0].value, prices[1].value)
        amount_in = int(size_usd / float(prices[0].value) * 10**token_in.decimals)
        fair = _EXACT.multiply(Decimal(amount_in).scaleb(token_out.decimals - token_in.decimals, _EXACT), mid)
        fields |= {
            "pool": book.pool,
            "fee_pips": book.fee_pips,
            "token_in": token_in,
            "token_out": token_out,
            "mid_before": mid,
            "in_usd": prices[0],
            "out_usd": prices[1],
            "quote": Quote(amount_in_raw=amount_in, amount_out_raw=_after_cost(fair, certain), source=router),
        }
        if random.random() < book.failure[router]:
            # It reverts at its very end, so it has used as much gas as any: failing does not make gas cheaper here.
            fields |= {"status": Status.REVERTED, "error": "execution reverted: transfer failed"}
        else:
            fields |= {"amount_in_raw": amount_in, "amount_out_raw": _after_cost(fair, certain + noise)}

    def _move(self, book: Book, fields: dict[str, Any], time_s: float) -> None:
        """A deposit to a vault or a withdrawal from it."""
        (token,) = book.tokens
        amount = int(round(self._random.lognormvariate(10.5, 0.9), 2) * 10**token.decimals)
        fields |= {"pool": book.pool, "legs": (Leg(token=token, amount_raw=amount, into=book.tool == "deposit"),)}
        self._maybe_revert(fields)

    def _rebalance(self, book: Book, fields: dict[str, Any], time_s: float) -> None:
        """Two legs that bring a position back; it earns more the farther the position had drifted."""
        random = self._random
        base, quote = book.tokens
        size_usd, drift = round(random.lognormvariate(10.0, 0.6), 2), random.lognormvariate(4.0, 0.7)
        price = self._valuation(base, time_s, fields["ts_executed"])
        fields["features"] |= {"drift_bps": _rounded(drift), "volatility": _rounded(self._asset(base, time_s).volatility)}
        fields |= {
            "pool": book.pool,
            "legs": (
                Leg(token=base, amount_raw=int(size_usd / float(price.value) * 10**base.decimals), into=False),
                Leg(token=quote, amount_raw=int(size_usd * 10**quote.decimals), into=True),
            ),
        }
        pnl = book.pnl_slope * drift + 14.0 * self._shocks.unit(book.pool or "")
        if not self._maybe_revert(fields):
            fields["pnl_bps"] = Decimal(f"{pnl:.4f}")

    def _dry_run(self, book: Book, fields: dict[str, Any], time_s: float) -> None:
        """A simulated transaction: it costs no gas, and fails more often the tighter its slippage bound."""
        random = self._random
        bound = random.choice(SLIPPAGE_BOUND_BPS)
        fields["features"]["slippage_bound_bps"] = bound
        fields |= {"token_in": book.tokens[0], "token_out": book.tokens[1]}
        if random.random() < book.failure[f"{bound:g}"]:
            fields |= {"status": Status.FAILED, "error": "simulation failed: too little received"}

    def _research(self, book: Book, fields: dict[str, Any], time_s: float) -> None:
        """A plain tool call off chain, with a reward."""
        random = self._random
        mode = random.choice(tuple(book.reward))
        reward = min(1.0, max(0.0, random.gauss(book.reward[mode], 0.22)))
        fields["features"] |= {"mode": mode, "prompt_words": float(int(random.lognormvariate(5.0, 0.6)))}
        fields |= {"pair": book.pair, "reward": Decimal(f"{reward:.4f}")}

    def _maybe_revert(self, fields: dict[str, Any]) -> bool:
        if self._random.random() >= RARE_FAILURE:
            return False
        fields |= {"status": Status.REVERTED, "error": "execution reverted: paused"}
        return True

    def _asset(self, token: Token, time_s: float) -> Asset:
        asset = self._assets[token.identity]
        asset.move_to(time_s)
        return asset

    def _valuation(self, token: Token, time_s: float, ts: datetime) -> Valuation:
        if token is USDC:
            return Valuation(value=Decimal(1), ts=ts, source="simulated-oracle")
        return Valuation(value=Decimal(f"{self._asset(token, time_s).price:.8g}"), ts=ts, source="simulated-oracle")


def _rounded(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.6g}")


def _after_cost(fair: Decimal, cost_bps: float) -> int:
    """The raw amount left of a fair one after a cost in bps; at least one unit."""
    kept = _MILLIONTHS - round(min(9_000.0, max(-9_000.0, cost_bps)) * 10**6)
    return max(1, int(_EXACT.divide(_EXACT.multiply(fair, Decimal(kept)), Decimal(_MILLIONTHS))))
