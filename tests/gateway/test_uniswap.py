"""Real trades through the whole pipeline: every record accounted for, twice the same as once, rebuild the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.test_cli import document

DATA = Path(__file__).parents[3] / "shared" / "data" / "uniswap_v3"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="../shared/data/uniswap_v3, which is not part of the project, is not there"
)


def test_the_pool_goes_through_once_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = (
        "ingest",
        str(DATA / "wbtc_weth_3000_events.jsonl"),
        "--format",
        "uniswap-v3-events",
        "--pool",
        str(DATA / "pool.json"),
    )
    first = document(*command, data=data)
    assert (first["records"], first["processed"], first["duplicates"], first["rejected"]) == (903, 903, 0, 0)
    once = document("fingerprint", data=data)
    second = document(*command, data=data)
    assert (second["records"], second["processed"], second["duplicates"], second["rejected"]) == (903, 0, 903, 0)
    assert document("fingerprint", data=data) == once
    assert document("rebuild", "--into", str(tmp_path / "new"), data=data)["equal"] is True
