"""Every reason that a contract can give is explained in the docs."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.codec import NAMED_REASONS

PAGE = (Path(__file__).parents[2] / "docs" / "contracts.md").read_text()


@pytest.mark.parametrize("reason", sorted(NAMED_REASONS))
def test_a_reason_stands_in_the_docs(reason: str) -> None:
    assert f"`{reason}`" in PAGE
