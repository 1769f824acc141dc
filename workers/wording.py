"""An execution in words: the reflection with its exact numbers, and the sentence with its named bands.

The **reflection** is what people and BM25 read. Every number in it is the event's own or a metric of it; addresses and hashes stand
in full, because a search for one must find it. It says what was aimed at and how far off it ended, and no more: lessons are the
distiller's.

The **sentence** is what is embedded. It names the tool, the market, the side and, in bands, size, hour, cost and gas: what a trader
would say of the trade. It leaves out what would make every trade its own (ids, addresses, exact numbers, the agent).

Text that others wrote (errors, labels) is untrusted: kept short, without control characters, and quoted.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from schemas.events import Provenance, Status, Token, ToolExecution
from schemas.types import iso
from workers import bands
from workers.costs import mid_before, promised, whole
from workers.errors import UNKNOWN, error_class
from workers.features import Feature, requested_in, side_of
from workers.metrics import METRICS
from workers.uniswap_math import EXACT

CHAINS = {
    1: "Ethereum",
    10: "Optimism",
    56: "BNB Chain",
    100: "Gnosis",
    137: "Polygon",
    8453: "Base",
    42161: "Arbitrum",
    43114: "Avalanche",
}
LONGEST_QUOTE = 300
SIMULATED = "[simulated]"


def number(value: float | Decimal) -> str:
    """A number as people write it: six significant digits at most, no exponent.

    >>> number(30.0912), number(0.00634124), number(1234570.0), number(Decimal("0"))
    ('30.0912', '0.00634124', '1234570', '0')
    """
    if isinstance(value, Decimal):
        return exact(Decimal(f"{value:.6g}"))
    text = f"{value + 0.0:.6g}"
    return exact(Decimal(text)) if "e" in text else text


def exact(value: Decimal) -> str:
    """All digits of a decimal, no exponent, no idle zeros."""
    text = format(value, "f") if value else "0"
    return text.rstrip("0").rstrip(".") if "." in text else text


def quoted(text: str) -> str:
    """Foreign text on one line, cut to size, in quotes."""
    if not text.isprintable():
        text = "".join(ch if ch.isprintable() else " " for ch in text)
    line = " ".join(text.split()).replace('"', "'")
    return f'"{line[:LONGEST_QUOTE]}…"' if len(line) > LONGEST_QUOTE else f'"{line}"'


def reflection(event: ToolExecution, label: str, metrics: Mapping[str, float], features: Mapping[str, Feature]) -> str:
    """The exact account: what, where, goal against outcome, costs, what was known before. ``label`` is the market's name."""
    parts = [
        _what(event, label),
        _traded(event),
        _gap(event, metrics),
        _costs(event, metrics),
        _failure(event),
        _known(event, features),
        _where(event),
    ]
    return " ".join(part for part in parts if part)


def sentence(event: ToolExecution, label: str, metrics: Mapping[str, float], features: Mapping[str, Feature]) -> str:
    """The canonical sentence in bands."""
    side = side_of(event)
    head = f"{event.tool} {side} in {label}" if side else f"{event.tool} {label}"
    chain = _chain(event)
    words = [f"{head} on {chain}" if chain else head, _size_band(features), f"{bands.HOUR.name(_hour(features))} UTC"]
    if event.status is Status.PENDING:
        words.append("pending")
    elif event.status is not Status.SUCCESS:
        why = error_class(event.error)
        words.append(f"{event.status.value}, error {why}" if why != UNKNOWN else event.status.value)
    words += _outcome_bands(metrics)
    return ", ".join(word for word in words if word)


def _size_band(features: Mapping[str, Feature]) -> str:
    share, worth = features.get("size_share"), features.get("size_usd")
    if isinstance(share, float):
        return f"{bands.SIZE_SHARE.name(share)} for the pool"
    return f"{bands.SIZE_USD.name(worth)} size" if isinstance(worth, float) else ""


def _outcome_bands(metrics: Mapping[str, float]) -> list[str]:
    words = []
    cost = next((metrics[name] for name in ("cost_bps", "slippage_bps", "shortfall_bps") if name in metrics), None)
    if cost is not None:
        words.append(f"{bands.COST_BPS.name(cost)} cost")
    if "pnl_bps" in metrics:
        words.append(bands.PNL_BPS.name(metrics["pnl_bps"]))
    if "reward" in metrics:
        words.append(f"{bands.REWARD.name(metrics['reward'])} reward")
    if bands.GAS_GWEI.order(metrics.get("gas_gwei", 0.0)) > 0:
        words.append(bands.GAS_GWEI.name(metrics["gas_gwei"]))
    return words


def _hour(features: Mapping[str, Feature]) -> float:
    hour = features.get("hour")
    return hour if isinstance(hour, float) else 0.0


def _chain(event: ToolExecution) -> str:
    return "" if event.chain_id is None else CHAINS.get(event.chain_id, f"chain {event.chain_id}")


def _what(event: ToolExecution, label: str) -> str:
    mark = f"{SIMULATED} " if event.simulated else ""
    chain = f" on {_chain(event)}" if event.chain_id is not None else ""
    if event.chain_id in CHAINS:
        chain += f" (chain {event.chain_id})"
    strategy = f", strategy {quoted(event.strategy)}" if event.strategy else ""
    when, gone = iso(event.ts_executed), ", removed by a reorganisation" if event.removed else ""
    return f"{mark}{event.tool} {label}{chain} by {quoted(event.agent_id)}{strategy} at {when}: {event.status.value}{gone}."


def _token(token: Token) -> str:
    return f"{token.label} ({token.address})" if token.address and token.symbol else token.address or token.label


def _traded(event: ToolExecution) -> str:
    if event.legs:
        ways = ("out", "in")
        moved = (f"{exact(whole(leg.amount_raw, leg.token))} {_token(leg.token)} {ways[leg.into]}" for leg in event.legs)
        return f"Moved {', '.join(moved)}."
    if event.token_in is None or event.token_out is None:
        return ""
    amount = _amount_in(event)
    given = f"{exact(whole(amount, event.token_in))} " if amount else ""
    verb = "Gave" if event.status is Status.SUCCESS else "Was to give"
    return f"{verb} {given}{_token(event.token_in)} for {_token(event.token_out)}."


def _amount_in(event: ToolExecution) -> int | None:
    """What went in where it went through, else what was to go in."""
    return event.amount_in_raw if event.status is Status.SUCCESS else requested_in(event)


def _gap(event: ToolExecution, metrics: Mapping[str, float]) -> str:
    """What was aimed at and what came of it."""
    aims = _aims(event)
    if event.status is Status.PENDING:
        return f"Goal: {' and '.join(aims)}; not settled yet." if aims else ""
    if event.status is not Status.SUCCESS:
        return f"Goal: {' and '.join(aims)}; it got nothing." if aims else "It got nothing."
    if event.token_out is None or not event.amount_out_raw:
        return _results(metrics)
    got = f"{exact(whole(event.amount_out_raw, event.token_out))} {event.token_out.label}"
    origin = " as quoted, not as executed" if event.amount_provenance is Provenance.QUOTE else ""
    gaps = _gaps(metrics)
    goal = f"Goal: {' and '.join(aims)}; " if aims else ""
    realised = f"{goal}{'r' if goal else 'R'}ealised {got}{origin}{': ' + ', '.join(gaps) if gaps else ''}."
    return " ".join(part for part in (realised, _results(metrics)) if part)


def _aims(event: ToolExecution) -> list[str]:
    asked = _amount_in(event)
    aims: list[str] = []
    if event.token_in is None or event.token_out is None or not asked:
        return aims
    mid = mid_before(event)
    if mid is not None:
        fair = EXACT.multiply(whole(asked, event.token_in), mid)
        aims.append(f"{number(fair)} {event.token_out.label} at the mid of {number(mid)} before the trade")
    elif event.in_usd is not None and event.out_usd is not None:
        worth = EXACT.multiply(whole(asked, event.token_in), event.in_usd.value)
        aims.append(f"{number(EXACT.divide(worth, event.out_usd.value))} {event.token_out.label} at the oracle price")
    if event.quote is not None:
        out = EXACT.scaleb(promised(event.quote, asked), -event.token_out.decimals)
        least = event.quote.min_out_raw
        bound = f", {number(whole(least, event.token_out))} at least" if least else ""
        aims.append(f"{number(out)} {event.token_out.label} as quoted{bound}")
    return aims


def _gaps(metrics: Mapping[str, float]) -> list[str]:
    """The differences between aim and outcome, each by its own reference."""
    gaps = []
    if "cost_bps" in metrics:
        split = [f"{name} {number(metrics[key])}" for name, key in (("impact", "impact_bps"), ("fee", "fee_bps")) if key in metrics]
        gaps.append(f"total cost {number(metrics['cost_bps'])} bps{' (' + ', '.join(split) + ')' if split else ''}")
    for key in ("slippage_bps", "shortfall_bps"):
        if key in metrics:
            gaps.append(f"{METRICS[key].phrase} {number(metrics[key])} bps")
    return gaps


def _results(metrics: Mapping[str, float]) -> str:
    told = []
    if "pnl_bps" in metrics:
        told.append(f"Profit and loss {number(metrics['pnl_bps'])} bps.")
    if "reward" in metrics:
        told.append(f"Reward {number(metrics['reward'])}.")
    return " ".join(told)


def _costs(event: ToolExecution, metrics: Mapping[str, float]) -> str:
    if "gas_gwei" not in metrics:
        return ""
    used = f"{event.gas_used} gas at " if event.gas_used is not None else "gas at "
    native = f" = {number(metrics['gas_native'])} native" if "gas_native" in metrics else ""
    usd = f", {number(metrics['gas_usd'])} USD" if "gas_usd" in metrics else ""
    return f"Paid {used}{number(metrics['gas_gwei'])} gwei{native}{usd}."


def _failure(event: ToolExecution) -> str:
    if event.status in (Status.SUCCESS, Status.PENDING):
        return ""
    why = error_class(event.error)
    said = f": {quoted(event.error)}" if event.error else ""
    return f"Error class {why}{said}."


def _known(event: ToolExecution, features: Mapping[str, Feature]) -> str:
    """What was known before, as name and value; pool and side are told elsewhere."""
    cells = [f"{name} {_cell(cell)}" for name, cell in features.items() if name not in ("pool", "side", "strategy")]
    return f"Known before: {', '.join(cells)}." if cells else ""


def _cell(cell: Feature) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return quoted(cell) if isinstance(cell, str) else number(cell)


def _where(event: ToolExecution) -> str:
    named = (("pool", event.pool), ("transaction", event.tx_hash), ("block", event.block_number))
    places = [f"{name} {value}" for name, value in named if value is not None]
    return f"In {', '.join(places)}." if places else ""
