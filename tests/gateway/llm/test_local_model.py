"""Two real models, small enough to run anywhere, over the same little market: what they propose, and that the evidence decides.

Needs llama-cpp-python and the packages that hold the weights (docs/language-model.md); each is asked three to ten questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.composition import Layout, open_sinks
from gateway.fingerprint import fingerprint
from gateway.llm.openai import OpenAICompatible
from streams.rebuild import fold
from tests.support.gateway import WordEmbedder
from tests.support.local_model import serving, weights
from tests.support.taught import Brain

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PATIENCE_S = 600.0


@pytest.fixture(params=["gemma", "smollm2"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenAICompatible]:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    file = weights(request.param, tmp_path)
    if file is None:
        pytest.skip(f"the weights of {request.param} are not installed")
    with serving(file, threads=2) as url:
        adapter = OpenAICompatible(url, request.param, format="json_object", timeout_s=PATIENCE_S)
        yield adapter
        adapter.close()


def test_what_a_small_model_says_is_recorded_tested_and_rebuilt(
    model: OpenAICompatible, brain: Brain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"llm_retries": 0, "llm_max_tokens": 300, "llm_summary_chars": 2500}
    done = brain.ask(model, timeout_s=PATIENCE_S, **settings)
    later = brain.ask(model, timeout_s=PATIENCE_S, key=brain.key, **settings)
    said = [*done.said, *later.said]
    with capsys.disabled():
        for one in said:
            print(
                f"\n{one.model} {one.purpose}: {one.outcome}, {Counter(each.reason for each in one.judgements)}\n  {one.raw[:300]}"
            )
    assert said
    assert all(one.outcome in ("answered", "unusable") for one in said)
    assert [one.said_id for one in brain.said()] == [one.said_id for one in said]
    for insight in brain.held():  # whatever it proposed, only what was planted can have passed
        assert insight.claim is not None
        assert (insight.claim.metric, insight.claim.conditions[0].feature) == ("reward", "load")
        assert insight.claim.direction == ("lower" if insight.claim.conditions[0].op == ">=" else "higher")
    before = fingerprint(brain.episodes, brain.insights)
    with open_sinks(Layout(tmp_path / "again"), WordEmbedder()) as sinks:
        fold(brain.log, [sinks.episode_sink, sinks.writer])
        assert fingerprint(sinks.episodes, sinks.insights) == before
