"""``breakers status|value|restart``: how portfolios stand, and what they are worth."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.output import UNHEALTHY, json_option, plain_errors, print_json, print_table
from gateway.cli.writes import WAIT_S, operator, said_enough

if TYPE_CHECKING:
    from gateway.protection import BreakersView, BreakerView

TIME = click.DateTime(["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"])


def _valuation(command: Callable[..., None]) -> Callable[..., None]:
    """The arguments of a valuation: PORTFOLIO VALUE, and options."""
    for one in (
        click.option("--ts", type=TIME, help="When it was worth that (UTC); default: now."),
        click.option("--unit", default="USD", show_default=True),
        click.option("--net-deposits", required=True, help="All that was ever paid in, less all that was ever taken out."),
        click.argument("amount", metavar="VALUE"),
        click.argument("portfolio"),
    ):
        command = one(command)
    return command


@click.group()
def breakers() -> None:
    """Portfolio breakers: warn, halt new positions, stop, by the fall from the high-water mark."""


@breakers.command()
@json_option
@click.pass_obj
@plain_errors
def status(arguments: dict[str, str | None], as_json: bool) -> None:
    """Show how each portfolio stands, the worst first. Exit code 3 where new positions are halted or nothing can be judged."""
    with operator(arguments, writing=False) as (service, who):
        shown = service.breakers(who)
    if as_json:
        print_json(shown.model_dump(mode="json"))
    elif not shown.portfolios:
        click.echo("no portfolio is watched: nobody has said what one is worth")
    else:
        _print(shown)
    if not shown.may_open or shown.blind:
        raise click.exceptions.Exit(UNHEALTHY)


def _print(shown: BreakersView) -> None:
    print_table(
        ("state", "portfolio", "drawdown", "value", "mark", "since", "valued", "sight"), [_cells(one) for one in shown.portfolios]
    )


def _cells(one: BreakerView) -> tuple[object, ...]:
    name = f"[simulated] {one.portfolio}" if one.simulated else one.portfolio
    drawdown = f"{one.drawdown_bps / 100:.2f} %"
    sight = f"blind: {one.because}" if one.blind else "ok"
    return one.state, name, drawdown, f"{one.value} {one.unit}", one.mark, one.since, one.valued, sight


@breakers.command()
@_valuation
@click.option("--missing", multiple=True, help="An asset without a price; makes the valuation one that decides nothing.")
@json_option
@click.pass_obj
@plain_errors
def value(
    arguments: dict[str, str | None],
    portfolio: str,
    amount: str,
    net_deposits: str,
    unit: str,
    ts: datetime | None,
    missing: tuple[str, ...],
    as_json: bool,
) -> None:
    """Say that PORTFOLIO is worth VALUE."""
    _tell(arguments, as_json, ts, portfolio=portfolio, value=amount, net_deposits=net_deposits, unit=unit, missing=missing)


@breakers.command()
@_valuation
@click.option("--reason", required=True, help="Why the mark is begun anew.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
@plain_errors
def restart(
    arguments: dict[str, str | None],
    portfolio: str,
    amount: str,
    net_deposits: str,
    unit: str,
    ts: datetime | None,
    reason: str,
    yes: bool,
    as_json: bool,
) -> None:
    """Begin the mark of PORTFOLIO anew at VALUE: what it has lost so far is no longer counted."""
    if not yes:
        click.confirm(f"begin the mark of {portfolio} anew at {amount} {unit}?", abort=True, err=True)
    fields = {"portfolio": portfolio, "value": amount, "net_deposits": net_deposits, "unit": unit, "reason": reason}
    _tell(arguments, as_json, ts, restart=True, **fields)


def _tell(arguments: dict[str, str | None], as_json: bool, ts: datetime | None, **fields: Any) -> None:
    from datetime import UTC

    with operator(arguments, writing=True, may_begin=True) as (service, who):
        when = service.now() if ts is None else ts.replace(tzinfo=UTC)
        told = service.value_portfolio(who, {**fields, "ts": when.isoformat()}, WAIT_S)
    if not said_enough(told, as_json) and told.portfolio is not None:
        click.echo(f"{told.portfolio.portfolio}: {told.portfolio.state}, {told.portfolio.drawdown_bps / 100:.2f} % under its mark")
