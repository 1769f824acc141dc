"""The embedder: a text's vector depends on nothing but the text; nothing leaves the process."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores.embedding import Manifest, ModelError, OnnxEmbedder, open_model
from stores.embedding.onnx import to_vector
from tests.support.onnx_model import WORDS, model_folder, plain_model, quantised_model, vectors

MATRYOSHKA = {
    "name": "nested", "dimension": 16, "matryoshka": True, "layer_norm": True,
    "query_prefix": "search_query: ", "document_prefix": "search_document: ",
}  # fmt: skip


@cache
def default(threads: int = 1, batch: int = 8) -> OnnxEmbedder:
    return open_model(threads=threads, batch=batch)


@cache
def alone(text: str) -> bytes:
    """The text's vector, embedded by itself."""
    return default().embed([text])[0].tobytes()


words = st.text(st.sampled_from("abcdefghij0123456789 ./%:-ÄéЖ中🙂\x00\n"), max_size=120)
texts = st.lists(words | st.sampled_from(["", "swap WETH/USDC", "0x" + "ab" * 20, "word " * 40]), min_size=1, max_size=9)


@settings(max_examples=20, deadline=None)
@given(texts, st.sampled_from([(1, 1), (1, 3), (2, 8), (2, 2)]))
def test_vectors_are_bit_identical_whatever_the_batch_the_neighbours_and_the_threads(some: list[str], how: tuple[int, int]) -> None:
    made = default(*how).embed(some)
    assert [row.tobytes() for row in made] == [alone(text) for text in some]


def test_vectors_are_normalised_and_mean_something() -> None:
    close, near, far = default().embed(["the swap failed", "the trade was reverted", "a recipe for apple pie"])
    assert np.linalg.norm(close) == pytest.approx(1.0, abs=1e-6)
    assert close @ near > close @ far + 0.2


def test_the_first_256_tokens_count_and_padding_does_not() -> None:
    long = "token " * 254
    assert alone(long) == alone(long + "and nothing after that")
    assert alone("token " * 253) != alone(long)


def test_no_texts_and_no_text() -> None:
    assert default().embed([]).shape == (0, 384)
    assert np.isfinite(default().embed([""])).all()
    assert alone("a \ud800 surrogate") == alone("a ? surrogate")


def test_threads_share_one_embedder() -> None:
    shared = open_model(threads=1)
    some = [f"text number {n}" for n in range(12)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda text: shared.embed([text])[0].tobytes(), some))
    assert results == [alone(text) for text in some]


def expected(ids: list[int], dimension: int) -> np.ndarray:
    pooled = vectors(16)[ids].astype(np.float64).mean(axis=0)
    normal = (pooled - pooled.mean()) / np.sqrt(pooled.var() + 1e-5)
    return normal[:dimension] / np.linalg.norm(normal[:dimension])


def test_a_matryoshka_model_pools_normalises_cuts_and_scales(tmp_path: Path) -> None:
    folder = model_folder(tmp_path, quantised_model(16), MATRYOSHKA)
    ids = {word: n for n, word in enumerate(WORDS)}
    for dimension in (8, 16):
        model = open_model(folder, dimension=dimension, threads=1)
        document = [ids["search_document"], ids[":"], ids["a"], ids["b"]]
        query = [ids["search_query"], ids[":"], ids["a"], ids["b"]]
        np.testing.assert_allclose(model.embed(["a b", "c"])[0], expected(document, dimension), atol=1e-6)
        np.testing.assert_allclose(model.embed_query(["a b"])[0], expected(query, dimension), atol=1e-6)


def test_the_first_token_is_the_vector_where_the_manifest_says_so() -> None:
    hidden = vectors()[:3]
    by_cls = to_vector(hidden, Manifest(dimension=8, pooling="cls"), 8)
    np.testing.assert_allclose(by_cls, hidden[0] / np.linalg.norm(hidden[0]), atol=1e-6)


def test_a_vector_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    model = open_model(model_folder(tmp_path, plain_model(spoiled=True), {"name": "tiny", "dimension": 8}), threads=1)
    assert np.isfinite(model.embed(["b"])).all()
    with pytest.raises(ModelError, match="NaN or infinity"), np.errstate(invalid="ignore"):
        model.embed(["b", "a"])


def test_files_that_are_no_model_and_a_wrong_width_are_refused(tmp_path: Path) -> None:
    broken = open_model(model_folder(tmp_path / "broken", b"\x08\x08", {"name": "tiny", "dimension": 8}), threads=1)
    with pytest.raises(ModelError, match="does not hold a model that loads"):
        broken.embed(["a"])
    wide = open_model(model_folder(tmp_path / "wide", plain_model(16), {"name": "tiny", "dimension": 8}), threads=1)
    with pytest.raises(ModelError, match="shape"):
        wide.embed(["a"])


def test_a_file_that_changed_since_it_was_found_is_refused(tmp_path: Path) -> None:
    folder = model_folder(tmp_path, plain_model(), {"name": "tiny", "dimension": 8})
    model = open_model(folder, threads=1)
    (folder / "model.onnx").write_bytes(plain_model(spoiled=True))
    with pytest.raises(ModelError, match="damaged or another version"):
        model.embed(["a"])


SILENT = """
import os, pathlib, sys
from stores.embedding import open_model
assert "onnxruntime" not in sys.modules
open_model(threads=1).embed(["a text"])
links = []
for entry in pathlib.Path("/proc/self/fd").glob("*") if sys.platform == "linux" else ():
    try:
        links.append(os.readlink(entry))
    except FileNotFoundError:
        pass
print([link for link in links if link.startswith("socket:") or "onnxruntime.db" in link])
"""
LOUD = """
import os, sys, types
sys.modules["onnxruntime"] = types.ModuleType("onnxruntime")
from stores.embedding import ModelError, open_model
try:
    open_model(threads=1).embed(["a text"])
except ModelError as error:
    print(error, "|", error.hint)
"""


def in_a_new_process(program: str, home: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")}
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program], env={**environment, "HOME": str(home)}, cwd=Path(__file__).parents[2],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_onnxruntime_neither_phones_home_nor_leaves_anything_there(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert in_a_new_process(SILENT, home) == "[]"
    assert list(home.rglob("*")) == []


def test_an_onnxruntime_that_already_talks_is_refused(tmp_path: Path) -> None:
    said = in_a_new_process(LOUD, tmp_path / "home")
    assert "imported with its telemetry on" in said
    assert "ORT_DISABLE_TELEMETRY=1" in said
