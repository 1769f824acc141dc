"""kill -9 anywhere in a run changes nothing: a short version of ``bench/kills.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.kills import trial


@pytest.mark.faults
def test_a_killed_and_restarted_ingest_gives_the_same_brain(tmp_path: Path) -> None:
    found = trial(tmp_path, kills=3, events=600, seed=5)
    assert len(found.kills) == 3
    assert found.disturbed == found.undisturbed
    assert found.rebuilt == found.undisturbed
