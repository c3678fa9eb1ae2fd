"""The bundled embedder: all-MiniLM-L6-v2 as int8 ONNX, on the CPU, from files of the package."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from knowloom.ports import Vector

FILES = Path(__file__).parent / "minilm_files"
MAX_WORD_PIECES = 256  # the length that the model was trained with


class MiniLM:
    """Unit vectors of 384 dimensions, in about 3 ms for a question and 18 ms for a paragraph."""

    name = "minilm"
    dimensions = 384
    window = MAX_WORD_PIECES

    @classmethod
    def open(cls, _: str = "") -> MiniLM:
        return cls()

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the model: vectors of another build are not comparable."""
        with (FILES / "model.onnx").open("rb") as model:
            return "minilm:" + hashlib.file_digest(model, "sha256").hexdigest()[:16]

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        # No batches: dynamic int8 scales by the whole batch, so that a vector would depend on it.
        return [self._embed_text(text) for text in texts]

    def _embed_text(self, text: str) -> Vector:
        pieces = np.array([self._tokenizer.encode(text).ids], np.int64)
        inputs = {"input_ids": pieces, "attention_mask": np.ones_like(pieces)}
        vector: Vector = self._session.run(["embedding"], inputs)[0][0]
        return vector

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_file(str(FILES / "tokenizer.json"))
        tokenizer.enable_truncation(MAX_WORD_PIECES)
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        # Requests run concurrently; threads inside one would only compete for the cores.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(
            str(FILES / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
