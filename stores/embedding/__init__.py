"""Text to vectors: the model's files, the ONNX embedder, and a content-addressed cache before it."""

from stores.embedding.cache import CachedEmbedder
from stores.embedding.files import Manifest, ModelError, ModelFiles, find_model
from stores.embedding.onnx import OnnxEmbedder, open_model

__all__ = ["CachedEmbedder", "Manifest", "ModelError", "ModelFiles", "OnnxEmbedder", "find_model", "open_model"]
