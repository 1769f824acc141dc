"""A sentence model of some hundred bytes, written as protocol buffers: its hidden states are rows of a table, one a token.

The table may be int8 with a scale a row, dequantised as a whole before rows are looked up, like the real model's word table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, models, pre_tokenizers

FLOAT, INT8, INT64 = 1, 3, 7
WORDS = ("[UNK]", "a", "b", "c", "d", "search_query", "search_document", ":")


def table(width: int = 8, seed: int = 5) -> npt.NDArray[np.int8]:
    """The model's rows as int8; with :func:`scales` they make its word vectors."""
    return np.random.default_rng(seed).integers(-127, 128, (len(WORDS), width)).astype(np.int8)


def scales(seed: int = 6) -> npt.NDArray[np.float32]:
    """A factor a row."""
    return np.random.default_rng(seed).uniform(0.001, 0.1, (len(WORDS), 1)).astype(np.float32)


def vectors(width: int = 8) -> npt.NDArray[np.float32]:
    """The dequantised table."""
    return np.asarray(table(width).astype(np.float32) * scales(), dtype=np.float32)


def quantised_model(width: int = 8, *, twice: bool = False) -> bytes:
    """Cast, Mul, Gather. ``twice`` gives the dequantised table a second user."""
    nodes = [
        _node("Cast", ["table"], ["wide"], _attribute("to", FLOAT)),
        _node("Mul", ["wide", "scale"], ["words"]),
        _node("Gather", ["words", "input_ids"], ["last_hidden_state"], _attribute("axis", 0)),
    ]
    if twice:
        nodes.append(_node("Identity", ["words"], ["again"]))
    tensors = [_tensor("table", INT8, table(width)), _tensor("scale", FLOAT, scales())]
    return _model(nodes, tensors, width)


def plain_model(width: int = 8, *, spoiled: bool = False) -> bytes:
    """Gather from a float table; ``spoiled`` has infinity in it."""
    rows = vectors(width)
    if spoiled:
        rows[1] = np.inf
    return _model([_node("Gather", ["words", "input_ids"], ["last_hidden_state"])], [_tensor("words", FLOAT, rows)], width)


def model_folder(folder: Path, model: bytes, manifest: dict[str, object] | None) -> Path:
    """A folder with a model, a tokenizer that splits at blanks, and a manifest where given."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model)
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    if manifest is not None:
        (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def _model(nodes: Sequence[bytes], tensors: Sequence[bytes], width: int) -> bytes:
    inputs = [_value(name, INT64, ["batch", "tokens"]) for name in ("input_ids", "attention_mask")]
    graph = b"".join(_bytes(1, node) for node in nodes) + _bytes(2, b"tiny") + b"".join(_bytes(5, tensor) for tensor in tensors)
    graph += b"".join(_bytes(11, one) for one in inputs)
    graph += _bytes(12, _value("last_hidden_state", FLOAT, ["batch", "tokens", width]))
    return _int(1, 8) + _bytes(8, _bytes(1, b"") + _int(2, 17)) + _bytes(7, graph)


def _node(op: str, inputs: Sequence[str], outputs: Sequence[str], attribute: bytes = b"") -> bytes:
    names = b"".join(_bytes(1, name.encode()) for name in inputs) + b"".join(_bytes(2, name.encode()) for name in outputs)
    return names + _bytes(4, op.encode()) + attribute


def _attribute(name: str, value: int) -> bytes:
    return _bytes(5, _bytes(1, name.encode()) + _int(3, value) + _int(20, 2))


def _tensor(name: str, kind: int, rows: npt.NDArray[np.generic]) -> bytes:
    return b"".join(_int(1, size) for size in rows.shape) + _int(2, kind) + _bytes(8, name.encode()) + _bytes(9, rows.tobytes())


def _value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    dims = b"".join(_bytes(1, _int(1, size) if isinstance(size, int) else _bytes(2, size.encode())) for size in shape)
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, _int(1, kind) + _bytes(2, dims)))


def _int(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(written) + bytes([value])
