"""The bundled embedder: all-MiniLM-L6-v2 as int8 ONNX, on the CPU, from files of the package."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from knowloom.embedders.onnx_text import ModelFiles, OnnxText, is_exact
from knowloom.ports import Vector

FILES = Path(__file__).parent / "minilm_files"
MAX_WORD_PIECES = 256  # the length that the model was trained with


class MiniLM:
    """Unit vectors of 384 dimensions, in about 3 ms for a question and 18 ms for a paragraph.

    With `precision` "exact", 8-bit products are added without saturation on every processor.
    """

    name = "minilm"
    dimensions = 384
    window = MAX_WORD_PIECES
    is_calibrated = True  # the scale that other embedders are calibrated to
    is_local = True

    def __init__(self, precision: str = "fast") -> None:
        self._suffix = ":exact" if is_exact(precision) else ""
        files = ModelFiles(FILES / "model.onnx", FILES / "tokenizer.json")
        self._model = OnnxText(files, MAX_WORD_PIECES, exact=is_exact(precision))

    @classmethod
    def open(cls, _: str = "", precision: str = "fast") -> MiniLM:
        return cls(precision)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the model: vectors of another build are not comparable."""
        with self._model.files.model.open("rb") as model:
            digest = hashlib.file_digest(model, "sha256").hexdigest()[:16]
        return f"minilm:{digest}{self._suffix}"

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [self._model.run("embedding", text) for text in texts]
