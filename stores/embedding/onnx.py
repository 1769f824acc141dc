"""The embedder: ONNX Runtime over the model's files, made so that a text's vector depends on nothing but the text.

- Texts are sorted by length and run in small batches, each padded to its own longest: padding is work, and batches of 8 keep what
  the model holds in the processor's cache. The files' own padding (to 128 tokens, always) is switched off.
- Pooling is done here, over a text's own tokens alone and row by row, so that neither its neighbours nor the padding enter. The
  model computes in fp32 (its weights are int8 in the file only), and a row's result does not depend on the batch: a property test
  holds vectors bit-identical over batches, neighbours and threads.
- Memory: no arena (it would keep the largest batch ever seen), no memory pattern (it would add all of a run's buffers up), the word
  table gathered before it is dequantised (``graph.py``), and what loading left behind given back.
- ONNX Runtime sends telemetry from its import on, unless the environment forbids it before; so it is imported here, late, and only
  with that word in place.

Nothing is loaded before the first text is embedded.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stores.embedding.files import Manifest, ModelError, ModelFiles, locate, read_verified
from stores.embedding.graph import gather_first
from stores.heap import release

if TYPE_CHECKING:
    import onnxruntime
    from tokenizers import Tokenizer

Vectors = npt.NDArray[np.float32]

BATCH = 8
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"
_RUNS_WORTH_A_RELEASE = 16
_LAYER_NORM_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class _Engine:
    session: onnxruntime.InferenceSession
    tokenizer: Tokenizer
    inputs: tuple[str, ...]
    output: str


class OnnxEmbedder:
    """Text to normalised float32 vectors with one model. Safe to share between threads.

    ``threads`` is how many inferences run side by side (0: as many as this process has cores), each on one thread: two threads of
    *one* inference wait for each other at every operator, so a core that the rest of the pipeline takes for a moment would hold up
    both. ``batch`` is the number of texts in one inference.
    """

    def __init__(self, files: ModelFiles, *, dimension: int | None = None, threads: int = 0, batch: int = BATCH) -> None:
        self.dimension = files.manifest.dimension if dimension is None else dimension
        self.model_id = files.model_id(self.dimension)
        self._files = files
        self._threads = threads or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))
        self._batch = batch
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="embedding")
        self._lock = threading.Lock()
        self._engine: _Engine | None = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of documents, shape ``(len(texts), dimension)``, in order.

        Raises:
            ModelError: the model's files are missing, damaged or not a sentence model, or a vector came out not finite.
        """
        return self._embed(texts, self._files.manifest.document_prefix)

    def embed_query(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions to documents; the same as :meth:`embed` but for models that mark questions with a prefix.

        Raises:
            ModelError: see :meth:`embed`.
        """
        return self._embed(texts, self._files.manifest.query_prefix)

    def _embed(self, texts: Sequence[str], prefix: str) -> Vectors:
        result = np.empty((len(texts), self.dimension), dtype=np.float32)
        if not texts:
            return result
        engine = self._loaded()
        tokens = [engine.tokenizer.encode(_encodable(prefix + text)).ids for text in texts]
        order = sorted(range(len(texts)), key=lambda index: len(tokens[index]))
        runs = [order[start : start + self._batch] for start in range(0, len(order), self._batch)]
        longest_first = runs[::-1]
        for run, vectors in zip(longest_first, self._side_by_side(engine, tokens, longest_first), strict=True):
            result[run] = vectors
        if len(runs) >= _RUNS_WORTH_A_RELEASE:
            release()
        if not np.isfinite(result).all():
            raise ModelError("the model gave a vector with NaN or infinity", hint="its files are damaged, or are of another model")
        return result

    def _side_by_side(self, engine: _Engine, tokens: Sequence[Sequence[int]], runs: Sequence[Sequence[int]]) -> Iterable[Vectors]:
        batches = [[tokens[index] for index in run] for run in runs]
        if len(batches) == 1 or self._threads == 1:
            return [self._run(engine, batch) for batch in batches]
        return self._pool.map(lambda batch: self._run(engine, batch), batches)

    def _run(self, engine: _Engine, tokens: Sequence[Sequence[int]]) -> Vectors:
        """One inference over texts of about the same length."""
        shape = len(tokens), max(len(one) for one in tokens)
        feed = {name: np.zeros(shape, dtype=np.int64) for name in _INPUTS}
        for row, ids in enumerate(tokens):
            feed["input_ids"][row, : len(ids)] = ids
            feed["attention_mask"][row, : len(ids)] = 1
        (states,) = engine.session.run([engine.output], {name: feed[name] for name in engine.inputs})
        return np.stack(
            [to_vector(states[row, : len(ids)], self._files.manifest, self.dimension) for row, ids in enumerate(tokens)]
        )

    def _loaded(self) -> _Engine:
        with self._lock:
            if self._engine is None:
                self._engine = _load(self._files)
                release()
            return self._engine


def to_vector(states: Vectors, manifest: Manifest, dimension: int) -> Vectors:
    """A text's vector from its tokens' last hidden states, shape ``(tokens, width)``: pool, layer-normalise, cut, scale to norm 1.

    Layer normalisation before the cut is what Matryoshka models are trained with (Nussbaum et al. 2024, *Nomic Embed*).
    """
    pooled = states[0].astype(np.float64) if manifest.pooling == "cls" else states.sum(axis=0, dtype=np.float64) / len(states)
    if manifest.layer_norm:
        pooled = (pooled - pooled.mean()) / np.sqrt(pooled.var() + _LAYER_NORM_EPSILON)
    cut = pooled[:dimension]
    norm = np.sqrt(np.add.reduce(cut * cut))
    return np.asarray(cut / norm if norm > 0.0 else np.full_like(cut, np.nan), dtype=np.float32)


def open_model(
    model_dir: Path | None = None, *, dimension: int | None = None, threads: int = 0, batch: int = BATCH
) -> OnnxEmbedder:
    """The default model, or the one in ``model_dir``. Files are found now, read and verified when first needed.

    Raises:
        ModelError: a file is missing, or the model has another dimension.
    """
    return OnnxEmbedder(locate(model_dir), dimension=dimension, threads=threads, batch=batch)


def _encodable(text: str) -> str:
    """Text that has a UTF-8 form: a lone surrogate, which has none, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _load(files: ModelFiles) -> _Engine:
    runtime = _import_runtime()
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(read_verified(files.tokenizer, files.tokenizer_sha256).decode("utf-8"))
        model = gather_first(read_verified(files.model, files.model_sha256))
        session = runtime.InferenceSession(model, _options(runtime), providers=["CPUExecutionProvider"])
        session._model_bytes = None  # the session holds the file's 23 MB for other providers to fall back from; there are none
    except ModelError:
        raise
    except Exception as error:  # both libraries raise bare exceptions of their own
        raise ModelError(f"{files.model.parent} does not hold a model that loads: {str(error)[:300]}", hint=_FORM) from None
    tokenizer.no_padding()
    tokenizer.enable_truncation(files.manifest.max_tokens)
    inputs = tuple(one.name for one in session.get_inputs())
    _check_form(inputs, session.get_outputs()[0], files.manifest)
    return _Engine(session, tokenizer, inputs, session.get_outputs()[0].name)


_FORM = "a sentence model takes input_ids, attention_mask and perhaps token_type_ids, and its first output is the last hidden state"


def _check_form(inputs: Iterable[str], output: Any, manifest: Manifest) -> None:
    unknown = sorted(set(inputs) - set(_INPUTS))
    if unknown:
        raise ModelError(f"the model wants an input that nobody here can give: {unknown[0]}", hint=_FORM)
    if len(output.shape) != 3 or (isinstance(output.shape[2], int) and output.shape[2] != manifest.dimension):
        raise ModelError(
            f"the model's output {output.name} has shape {output.shape}, not (batch, tokens, {manifest.dimension})", hint=_FORM
        )


def _options(runtime: Any) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    return options


def _import_runtime() -> Any:
    """ONNX Runtime, silent.

    Raises:
        ModelError: something imported it before with its telemetry on, which cannot be taken back.
    """
    if "onnxruntime" in sys.modules and os.environ.get(_NO_TELEMETRY) != "1":
        raise ModelError(
            "onnxruntime was imported with its telemetry on, and only a new process can switch that off",
            hint=f"set {_NO_TELEMETRY}=1 in the environment, or import onnxruntime after the first embedding",
        )
    os.environ[_NO_TELEMETRY] = "1"
    import onnxruntime

    return onnxruntime
