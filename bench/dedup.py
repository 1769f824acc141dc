"""Error rates of dedup on labelled near-duplicates: ``python -m bench.dedup [--write]``.

A false merge is a pair of different statements that dedup takes for one; a false keep is a paraphrase that it keeps apart. Each
pair is judged in both orders, and a merge in either counts. Beside ours: a cosine alone, which is what others do.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from bench.near_duplicates import NEVER, Pair, made, written
from bench.retrieval import open_embedder
from schemas.claims import Category
from schemas.insights import Insight
from workers.dedup import REINFORCED_FROM, THRESHOLD, Candidate, judge

PAGE = Path(__file__).parent / "RESULTS.md"
BEGIN, END = "<!-- dedup -->\n", "<!-- /dedup -->"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Rule = Callable[[Pair, float], bool]


@dataclass(frozen=True, slots=True)
class Measured:
    """A pair and the cosine of its sentences."""

    pair: Pair
    cosine: float


def ours(pair: Pair, cosine: float) -> bool:
    """Whether dedup would merge the pair, in either order."""
    return any(
        judge(new, "*", [Candidate(_kept(old), cosine)]).duplicate is not None
        for new, old in ((pair.one, pair.other), (pair.other, pair.one))
    )


def cosine_alone(threshold: float) -> Rule:
    """The rule that merges from a cosine on."""
    return lambda pair, cosine: cosine >= threshold


RULES: dict[str, Rule] = {
    f"cosine ≥ {REINFORCED_FROM} alone": cosine_alone(REINFORCED_FROM),
    f"cosine ≥ {THRESHOLD} alone": cosine_alone(THRESHOLD),
    "dedup": ours,
}


def _kept(text: str) -> Insight:
    return Insight(
        id="kept", text=text, category=Category.GENERAL, confidence=Decimal(1), revision=1, key="*", label="note",
        created_ts=NOW, validated_ts=NOW, author="agent",
    )  # fmt: skip


def measured(pairs: Sequence[Pair]) -> list[Measured]:
    """The pairs with their cosines, by the model that the stores use."""
    texts = list(dict.fromkeys(text for pair in pairs for text in (pair.one, pair.other)))
    rows = dict(zip(texts, open_embedder().embed(texts), strict=True))
    return [Measured(pair, round(float(rows[pair.one] @ rows[pair.other]), 6)) for pair in pairs]


def table(sets: dict[str, list[Measured]]) -> Iterator[str]:
    """False merges and false keeps of each rule on each set."""
    yield "| set | pairs (same / different) | rule | false merges | false keeps |"
    yield "|---|---|---|---|---|"
    for name, rows in sets.items():
        same, different = [one for one in rows if one.pair.same], [one for one in rows if not one.pair.same]
        for label, rule in RULES.items():
            merged = sum(rule(one.pair, one.cosine) for one in different)
            kept = sum(not rule(one.pair, one.cosine) for one in same)
            yield (
                f"| {name} | {len(same)} / {len(different)} | {label} | {merged} ({merged / len(different):.1%}) "
                f"| {kept} ({kept / len(same):.1%}) |"
            )


def kinds(rows: Sequence[Measured]) -> Iterator[str]:
    """False merges by what the pair differs in, over all sets."""
    yield "| differs in | pairs | median cosine | cosine alone merges | dedup merges |"
    yield "|---|---|---|---|---|"
    for kind in sorted({one.pair.kind for one in rows if not one.pair.same}, key=lambda kind: (kind not in NEVER, kind)):
        found = [one for one in rows if one.pair.kind == kind and not one.pair.same]
        median = sorted(one.cosine for one in found)[len(found) // 2]
        plain = sum(one.cosine >= THRESHOLD for one in found)
        yield f"| {kind} | {len(found)} | {median:.3f} | {plain} | {sum(ours(one.pair, one.cosine) for one in found)} |"


def main() -> None:
    """Print both tables and what was got wrong; write the tables where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the made pairs")
    parser.add_argument("--write", action="store_true", help="put the tables into bench/RESULTS.md")
    arguments = parser.parse_args()
    sets = {
        "made from templates": measured(made(arguments.seed)),
        "written": measured(written()),
        "written, unseen by the rules": measured(written("near_duplicates_unseen")),
    }
    rows = [one for found in sets.values() for one in found]
    told = [*table(sets), "", *kinds(rows)]
    print("\n".join(told))
    for one in rows:
        if ours(one.pair, one.cosine) != one.pair.same:
            wrong = "kept apart" if one.pair.same else "MERGED"
            print(f"{wrong} at {one.cosine:.3f} ({one.pair.kind}): {one.pair.one} | {one.pair.other}")
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        block = BEGIN + "\n".join(told) + "\n" + END
        PAGE.write_text(re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: block, page, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
