"""Cross-encoders from a folder: any ONNX model for pairs of texts with its tokenizer.json."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from knowloom.embedders.calibration import calibration_texts
from knowloom.embedders.onnx_text import OnnxText, find_model_files, is_exact
from knowloom.errors import Invalid
from knowloom.validation import validate_int

WINDOW = 512  # tokens of a query and a passage together; the longer of the two is cut
MAX_UNKNOWN_SHARE = 0.2  # of the tokens of English texts
MAX_LOGIT = 700.0  # beyond this, a power of e overflows


class OnnxReranker:
    """A cross-encoder of a folder, on the CPU. Its files are loaded, and checked, when opened.

    It must return one number per pair, or one for each of two classes, "no" and "yes".
    """

    is_local = True

    def __init__(
        self, folder: str | Path, *, window: int = WINDOW, precision: str = "fast"
    ) -> None:
        validate_int("onnx: window", window, 1)
        self.name, self._precision = "onnx", precision
        self._model = OnnxText(find_model_files(folder), window, exact=is_exact(precision))
        self._model.check()
        self._output = self._choose_output()
        self._check_language()
        self._score("query", "passage")

    @classmethod
    def open(
        cls, address: str = "", *, window: int = WINDOW, precision: str = "fast"
    ) -> OnnxReranker:
        """Open the model of a folder, as in `onnx:models/ms-marco`."""
        if not address:
            raise Invalid("onnx: the folder of the reranker is missing: pass onnx:FOLDER")
        return cls(address, window=window, precision=precision)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of both files and of the settings that change a score."""
        digest = hashlib.sha256()
        for path in (self._model.files.model, self._model.files.tokenizer):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        digest.update(repr((self._output, self._model.window, self._precision)).encode())
        return f"onnx:{digest.hexdigest()[:16]}"

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        return [self._score(query, text) for text in texts]

    def _score(self, query: str, text: str) -> float:
        logits = np.asarray(self._model.run(self._output, query, text), np.float64).ravel()
        if len(logits) not in (1, 2):
            raise self._unsuitable(f"{len(logits)} numbers per pair")
        # Of two classes, their difference: the softmax of the second.
        logit = float(logits[-1] - (logits[0] if len(logits) == 2 else 0.0))
        return logit if math.isnan(logit) else 1 / (1 + math.exp(min(-logit, MAX_LOGIT)))

    def _choose_output(self) -> str:
        """Return the output with one or two numbers per pair."""
        outputs = self._model.outputs
        for name, axes in outputs.items():
            if axes in (1, 2, None) and ("logits" in outputs) <= (name == "logits"):
                return name
        names = ", ".join(f"{name} ({axes} axes)" for name, axes in outputs.items()) or "none"
        raise self._unsuitable(names)

    def _check_language(self) -> None:
        share = self._model.unknown_share(calibration_texts().passages)
        if share > MAX_UNKNOWN_SHARE:
            raise Invalid(
                f"{str(self._model.files.tokenizer)!r} must know the words of English texts, "
                f"but {share:.0%} of their tokens are unknown to it: it is for another language",
                "unsuitable_model",
            )

    def _unsuitable(self, outputs: str) -> Invalid:
        return Invalid(
            f"{str(self._model.files.model)!r}: a cross-encoder must return one number, or two "
            f"classes, for each pair of texts; found: {outputs}",
            "unsuitable_model",
        )
