"""New claims are found where they were planted, said once, and not found where there is nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from schemas.claims import Condition
from tests.support.toy_market import autoregressive
from workers.distil import confirm, mine
from workers.distil.confirm import Finding, Halves, Rule, discover, superseded
from workers.distil.evidence import STRETCHES, compare, held_fixed, steady
from workers.distil.mine import outcome_deviations, search, selectors, strata
from workers.distil.observations import Observation, Observations, View
from workers.metrics import METRICS


@dataclass
class Table:
    """Columns by name; each metric with noise of its own."""

    n: int
    seed: int
    features: dict[str, list] = field(default_factory=dict)
    metrics: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def view(self) -> View:
        rows = Observations(self.n)
        for i in range(self.n):
            cells = {name: column[i] for name, column in self.features.items()}
            known = {name: float(column[i]) for name, column in self.metrics.items() if column[i] == column[i]}
            rows.append(Observation(i * 600_000, f"e{i}", known, cells))
        return rows.view()

    def flag(self, name: str, share: float = 0.4) -> np.ndarray:
        column = self.rng.random(self.n) < share
        self.features[name] = [bool(x) for x in column]
        return column

    def number(self, name: str, values: np.ndarray | None = None) -> np.ndarray:
        column = np.exp(self.rng.normal(size=self.n)) if values is None else values
        self.features[name] = [float(x) for x in column]
        return column


def find(view: View, metric: str = "cost_bps", believed: tuple[Rule, ...] = (), alpha: float = 0.02) -> list[Finding]:
    return discover(view, METRICS[metric], Halves(), alpha=alpha, believed=believed)


def said(findings: list[Finding]) -> list[tuple[list[str], int]]:
    return [(sorted(finding.rule.slots), finding.direction) for finding in findings]


def test_a_planted_effect_is_found_with_its_threshold() -> None:
    table = Table(500, 1)
    size = table.number("size")
    table.number("noise")
    table.metrics["cost_bps"] = 30 + 4.0 * (size >= 1.5) + np.exp(table.rng.normal(size=500))
    (finding,) = find(table.view())
    (condition,) = finding.rule.conditions
    assert (condition.feature, condition.op, finding.direction) == ("size", ">=", 1)
    assert 1.2 < condition.value < 1.8
    evidence = finding.comparison.evidence(finding.q)
    assert evidence.n == 250
    assert evidence.inside - evidence.outside == pytest.approx(4.0, abs=0.7)
    assert evidence.low > 0.147
    assert len(evidence.episode_ids) == 20
    assert set(evidence.episode_ids) <= {f"e{i}" for i in range(250, 500)}


def test_failures_are_compared_as_rates() -> None:
    table = Table(600, 2)
    table.features["router"] = [str(x) for x in table.rng.choice(["alpha", "beta", "gamma"], 600)]
    beta = np.array(table.features["router"]) == "beta"
    table.metrics["failed"] = (table.rng.random(600) < np.where(beta, 0.4, 0.05)).astype(float)
    (finding,) = find(table.view(), "failed")
    assert said([finding]) == [(["router==beta"], 1)]
    evidence = finding.comparison.evidence(finding.q)
    assert evidence.kind == "risk_difference"
    assert evidence.effect == pytest.approx(evidence.inside - evidence.outside, abs=1e-5)


def test_an_interaction_is_one_claim_and_its_parents_are_none() -> None:
    table = Table(900, 3)
    both = table.flag("stable", 0.5) & table.flag("busy", 0.5)
    table.metrics["cost_bps"] = 30 + 4.0 * both + np.exp(table.rng.normal(size=900))
    assert said(find(table.view())) == [(["busy==True", "stable==True"], 1)]


def test_a_main_effect_is_not_dressed_up_with_noise() -> None:
    """Among ten flags that mean nothing, some improve on the true one by chance, in the half that proposes."""
    for seed in range(8):
        table = Table(360, 40 + seed)
        stable = table.flag("stable", 0.5)
        for i in range(10):
            table.flag(f"noise_{i}", 0.6)
        table.metrics["cost_bps"] = 30 + 2.0 * stable + np.exp(table.rng.normal(size=360))
        assert said(find(table.view())) == [(["stable==True"], 1)]


@pytest.mark.parametrize(("interaction", "better"), [(True, True), (False, False)])
def test_a_refinement_must_matter_inside_each_of_its_parents(interaction: bool, better: bool) -> None:
    table = Table(600, 15)
    stable, busy = table.flag("stable", 0.5), table.flag("busy", 0.5)
    table.metrics["cost_bps"] = 30 + 3.0 * (stable & busy if interaction else stable) + np.exp(table.rng.normal(size=600))
    both = tuple(Condition(feature=name, op="==", value=True) for name in ("busy", "stable"))
    view = table.view()
    assert confirm._better_than_parents(view, Rule("cost_bps", both), METRICS["cost_bps"], 1) is better
    found = selectors(view)
    deviations = outcome_deviations(view.metrics["cost_bps"], METRICS["cost_bps"])
    (pair,) = [group for group in search(found, deviations, top=50) if len(group.members) == 2]
    assert all(mine._improves(found, deviations, pair, parent) for parent in pair.members) is better


def test_significance_is_asked_for_at_the_alpha_that_may_be_spent() -> None:
    table = Table(300, 13)
    stable = table.flag("stable", 0.5)
    table.metrics["cost_bps"] = 30 + 1.2 * stable + np.exp(0.5 * table.rng.normal(size=300))
    view = table.view()
    (finding,) = find(view, alpha=0.01)
    assert finding.q <= 0.01
    assert find(view, alpha=finding.q / 2) == []


def test_what_only_differs_between_times_is_no_finding() -> None:
    """Twice the flag was on while costs were high, and off while they were low: two times, not two hundred episodes."""
    table = Table(500, 14)
    early = np.arange(500) % 250 < 110
    table.features["flag"] = [bool(x) for x in early]
    table.metrics["cost_bps"] = 30 + 3.0 * early + table.rng.normal(size=500)
    assert find(table.view()) == []


def test_of_proxies_one_is_kept_and_a_believed_one_silences_the_others() -> None:
    table = Table(800, 5)
    share = table.number("size_share")
    table.number("size_usd", share * 1e6 * np.exp(0.1 * table.rng.normal(size=800)))
    table.metrics["cost_bps"] = 30 + 5.0 * (share >= 1.5) + np.exp(table.rng.normal(size=800))
    view = table.view()
    (finding,) = find(view)
    assert finding.rule.features == ["size_share"]
    believed = Rule("cost_bps", (Condition(feature="size_share", op=">=", value=1.6),))
    assert find(view, believed=(believed,)) == []


def test_the_same_rule_for_another_metric_of_the_same_thing_is_no_news() -> None:
    table = Table(800, 6)
    hour = table.number("hour", np.arange(800) * 0.37 % 24)
    gas = 20 * np.exp(0.3 * table.rng.normal(size=800)) * np.where((hour >= 13) & (hour < 17), 2.0, 1.0)
    table.metrics |= {"gas_gwei": gas, "gas_usd": gas * 0.3 * np.exp(0.05 * table.rng.normal(size=800))}
    view = table.view()
    (first,) = find(view, "gas_gwei")
    assert said([first]) == [(["hour<", "hour>="], 1)]
    assert find(view, "gas_usd") != []
    assert find(view, "gas_usd", believed=(first.rule,)) == []


def test_failures_are_never_explained_by_costs_that_only_successes_have() -> None:
    table = Table(900, 7)
    beta = table.flag("beta")
    failed = table.rng.random(900) < np.where(beta, 0.4, 0.05)
    cost = 30 + 3.0 * beta + np.exp(table.rng.normal(size=900))
    table.metrics |= {"failed": failed.astype(float), "cost_bps": np.where(failed, np.nan, cost)}
    view = table.view()
    believed = Rule("cost_bps", (Condition(feature="beta", op="==", value=True),))
    assert said(find(view, "failed", believed=(believed,))) == [(["beta==True"], 1)]


def test_a_finding_supersedes_the_proxy_believed_before_it() -> None:
    table = Table(800, 8)
    share = table.number("size_share")
    table.number("size_usd", share * np.exp(0.7 * table.rng.normal(size=800)))
    other = table.number("other")
    table.metrics["cost_bps"] = 30 + 5.0 * (share >= 1.5) + 3.0 * (other >= 1.0) + np.exp(table.rng.normal(size=800))
    finding = next(one for one in find(table.view()) if one.rule.features == ["size_share"])
    proxy, own = (Rule("cost_bps", (Condition(feature=name, op=">=", value=1.0),)) for name in ("size_usd", "other"))
    assert superseded(proxy, 1, METRICS["cost_bps"], finding)
    assert not superseded(own, 1, METRICS["cost_bps"], finding)


def test_holding_the_cause_fixed_leaves_nothing_of_its_proxy() -> None:
    table = Table(800, 9)
    cause = table.number("cause")
    table.number("proxy", cause * np.exp(0.5 * table.rng.normal(size=800)))
    table.metrics["cost_bps"] = 30 + 5.0 * (cause >= 1.5) + table.rng.normal(size=800)
    comparison = compare(table.view(), [Condition(feature="proxy", op=">=", value=1.5)], METRICS["cost_bps"])
    assert comparison is not None
    assert comparison.effect.low > 0.3
    left = held_fixed(comparison, strata(comparison.view, ["cause"]))
    assert left is not None
    assert left.effect < 0.147


def test_what_only_differs_between_times_is_not_steady() -> None:
    """The flag is on in the first half, and costs fell meanwhile: nothing tells the two apart."""
    table = Table(400, 10)
    early = np.arange(400) < 200
    table.features["flag"] = [bool(x) for x in early]
    table.metrics["cost_bps"] = 30 + 3.0 * early + table.rng.normal(size=400)
    comparison = compare(table.view(), [Condition(feature="flag", op="==", value=True)], METRICS["cost_bps"])
    assert comparison is not None
    assert not steady(comparison, 1)


def test_an_immaterial_difference_is_no_finding_however_significant() -> None:
    table = Table(600, 11)
    stable = table.flag("stable")
    table.metrics["cost_bps"] = 30 + 0.05 * stable + 0.01 * table.rng.normal(size=600)
    view = table.view()
    comparison = compare(view, [Condition(feature="stable", op="==", value=True)], METRICS["cost_bps"])
    assert comparison is not None
    assert comparison.effect.p < 1e-9
    assert find(view) == []


def test_a_few_days_do_not_make_an_hour_of_the_day() -> None:
    """Three days of slow gas: however many trades, the afternoons are three observations."""
    table = Table(300, 12)
    hour = table.number("hour", np.arange(300) * 0.24 % 24)
    inside = hour >= 12
    table.metrics["gas_gwei"] = 20 * np.exp(0.4 * autoregressive(table.rng, 300, 0.98) + 0.8 * inside)
    comparison = compare(table.view(), [Condition(feature="hour", op=">=", value=12.0)], METRICS["gas_gwei"])
    assert comparison is not None
    assert comparison.between.stretches < STRETCHES
    assert not comparison.clears(1)


@pytest.mark.parametrize("tail", ["normal", "lognormal", "cauchy"])
def test_noise_is_rarely_taken_for_a_claim(tail: str) -> None:
    """Thirty halves of nothing, at the whole of α: far fewer findings than α allows, because a floor must be cleared as well."""
    wrong = 0
    for seed in range(10):
        table = Table(240, 100 + seed)
        for name in ("a", "b", "c"):
            table.number(name)
        table.flag("flag")
        noise = table.rng.normal(size=(3, 240))
        shaped = {"normal": noise, "lognormal": np.exp(1.5 * noise), "cauchy": np.tan(np.pi * (table.rng.random((3, 240)) - 0.5))}[
            tail
        ]
        table.metrics |= {"cost_bps": 30 + shaped[0], "gas_gwei": 20 + shaped[1], "pnl_bps": shaped[2]}
        view = table.view()
        wrong += sum(bool(find(view, name, alpha=0.1)) for name in table.metrics)
    assert wrong <= 1
