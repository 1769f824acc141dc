"""The rewrite of the model's bytes: same vectors, bit for bit; what does not fit exactly is left alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.embedding.files import locate
from stores.embedding.graph import gather_first
from stores.embedding.onnx import _import_runtime
from tests.support.onnx_model import WORDS, plain_model, quantised_model, vectors


def states(model: bytes, ids: list[list[int]]) -> np.ndarray:
    runtime = _import_runtime()
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    feed = np.array(ids, dtype=np.int64)
    (result,) = session.run(["last_hidden_state"], {"input_ids": feed, "attention_mask": np.ones_like(feed)})
    return np.asarray(result)


def test_rows_are_looked_up_before_they_are_dequantised() -> None:
    model = quantised_model()
    rewritten = gather_first(model)
    assert rewritten != model
    ids = [[n % len(WORDS) for n in range(start, start + 5)] for start in range(4)]
    assert states(rewritten, ids).tobytes() == states(model, ids).tobytes() == vectors()[np.array(ids)].tobytes()


def test_the_rewrite_is_done_once() -> None:
    rewritten = gather_first(quantised_model())
    assert gather_first(rewritten) == rewritten


@pytest.mark.parametrize("model", [plain_model(), quantised_model(twice=True), b""])
def test_other_models_are_left_as_they_are(model: bytes) -> None:
    assert gather_first(model) == model


def test_the_default_model_is_rewritten() -> None:
    model = locate().model.read_bytes()
    assert gather_first(model) != model


@given(st.binary(max_size=200), st.integers(0, 400))
def test_bytes_that_are_no_model_are_refused_or_left_alone(noise: bytes, at: int) -> None:
    whole = quantised_model()
    for damaged in (noise, whole[:at], whole[:at] + noise + whole[at:]):
        try:
            gather_first(damaged)
        except ValueError:
            continue
