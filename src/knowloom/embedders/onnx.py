"""Embedders from a folder: any ONNX sentence encoder with its tokenizer.json, on the CPU.

The folder is laid out as sentence-transformers does; its settings for pooling, prompts and length
are read, and the arguments take precedence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from knowloom.embedders.calibration import calibration_texts
from knowloom.embedders.onnx_text import Array, OnnxText, find_model_files, is_exact
from knowloom.errors import Invalid, unknown_name
from knowloom.files import read_text
from knowloom.ports import Vector
from knowloom.validation import validate_int

WINDOW = 512  # tokens that most encoders read
READY_OUTPUTS = ("embedding", "sentence_embedding")  # a vector per text
MAX_UNKNOWN_SHARE = 0.2  # of the tokens of English texts
POOLINGS: dict[str, Callable[[Array], Array]] = {
    "cls": lambda hidden: hidden[0],
    "mean": lambda hidden: hidden.mean(axis=0),
}


class OnnxEmbedder:
    """A sentence encoder of a folder. Its files are loaded, and checked, when it is opened.

    `pooling` is "cls" or "mean", for models whose output is a vector per token. `identity` stands
    for the content of the files in the fingerprint.
    """

    is_local = True

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str = "onnx",
        pooling: str = "",
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        window: int | None = None,
        precision: str = "fast",
        identity: str = "",
    ) -> None:
        files = find_model_files(folder)
        settings = _read_settings(Path(folder).expanduser())
        self.name = name
        self.window = settings.get("window", WINDOW) if window is None else window
        validate_int(f"{name}: window", self.window, 1)
        self._query_prefix = _prefix("query_prefix", query_prefix, settings)
        self._passage_prefix = _prefix("passage_prefix", passage_prefix, settings)
        self.has_roles = self._query_prefix != self._passage_prefix
        self._precision, self._identity = precision, identity
        self._model = OnnxText(files, self.window, exact=is_exact(precision))
        self._model.check()
        self._output, self._pooling = self._choose_output(pooling or settings.get("pooling", ""))
        self._check_language()
        self.dimensions = len(self._embed_text("dimensions"))

    @classmethod
    def open(
        cls,
        address: str = "",
        *,
        pooling: str = "",
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        window: int | None = None,
        precision: str = "fast",
    ) -> OnnxEmbedder:
        """Open the model of a folder, as in `onnx:models/e5-small`."""
        if not address:
            raise Invalid("onnx: the folder of the model is missing: pass onnx:FOLDER")
        return cls(
            address,
            pooling=pooling,
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
            window=window,
            precision=precision,
        )

    @cached_property
    def fingerprint(self) -> str:
        """A digest of both files and of the settings that change a vector."""
        digest = hashlib.sha256(self._identity.encode())
        files = () if self._identity else (self._model.files.model, self._model.files.tokenizer)
        for path in files:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        settings = (self._output, self._pooling, self._query_prefix, self._passage_prefix)
        digest.update(repr((*settings, self.window, self._precision)).encode())
        return f"{self.name}:{digest.hexdigest()[:16]}"

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [self._embed_text(self._passage_prefix + text) for text in texts]

    def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return [self._embed_text(self._query_prefix + text) for text in texts]

    def _embed_text(self, text: str) -> Vector:
        output = self._model.run(self._output, text)
        vector = np.asarray(POOLINGS[self._pooling](output) if self._pooling else output)
        if vector.ndim != 1:
            raise Invalid(
                f"{self.name}: the output {self._output!r} must be a vector per text or per token, "
                f"got {vector.ndim + bool(self._pooling)} axes",
                "unsuitable_model",
            )
        length = float(np.linalg.norm(vector))
        return (vector / (length or 1.0)).astype(np.float32)

    def _choose_output(self, pooling: str) -> tuple[str, str]:
        """Return the output to read and its pooling, "" for a ready vector."""
        outputs = self._model.outputs
        for output in READY_OUTPUTS:
            if output in outputs:
                return output, ""
        hidden = [output for output, axes in outputs.items() if axes in (3, None)]
        if not hidden:
            names = ", ".join(f"{name} ({axes} axes)" for name, axes in outputs.items())
            raise Invalid(
                f"{str(self._model.files.model)!r}: an encoder must return "
                f"{' or '.join(READY_OUTPUTS)}, or a vector per token (3 axes); found: {names}",
                "unsuitable_model",
            )
        if pooling not in POOLINGS:
            if not pooling:
                raise Invalid(
                    f"{self.name}: pooling is not in the folder: pass it as a setting, "
                    f"one of: {', '.join(POOLINGS)}"
                )
            raise unknown_name("pooling", pooling, POOLINGS)
        return hidden[0], pooling

    def _check_language(self) -> None:
        share = self._model.unknown_share(calibration_texts().passages)
        if share > MAX_UNKNOWN_SHARE:
            raise Invalid(
                f"{str(self._model.files.tokenizer)!r} does not know {share:.0%} of the tokens of "
                f"English texts: a model of English or of many languages is needed, with at most "
                f"{MAX_UNKNOWN_SHARE:.0%}",
                "unsuitable_model",
            )


def _prefix(name: str, value: str | None, settings: dict[str, Any]) -> str:
    prefix = settings.get(name, "") if value is None else value
    if not isinstance(prefix, str):
        raise Invalid(f"{name} must be text, got {prefix!r}")
    return prefix


def _read_settings(folder: Path) -> dict[str, Any]:
    """Return what the files of sentence-transformers say about pooling, prefixes and window."""
    settings: dict[str, Any] = {}
    pooling = _read_json(folder / "1_Pooling" / "config.json")
    for name, key in (("cls", "pooling_mode_cls_token"), ("mean", "pooling_mode_mean_tokens")):
        if pooling.get(key) is True:
            settings["pooling"] = name
    length = _read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    if isinstance(length, int):
        settings["window"] = length
    prompts = _read_json(folder / "config_sentence_transformers.json").get("prompts")
    for name, keys in (("query_prefix", ("query",)), ("passage_prefix", ("passage", "document"))):
        for key in keys:
            if isinstance(prompts, dict) and isinstance(prompts.get(key), str):
                settings[name] = prompts[key]
    return settings


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError):
        raise Invalid(f"{str(path)!r} must be JSON") from None
    return value if isinstance(value, dict) else {}
