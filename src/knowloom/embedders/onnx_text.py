"""A text model of a folder: an ONNX graph and its tokenizer, checked when they are loaded.

Embedders and rerankers share it. Anything that does not fit is Invalid, with what was found and
what is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Tokenizer

from knowloom.errors import Invalid, unknown_name

TOKENIZER = "tokenizer.json"
MODELS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
# The inputs of BERT and its relatives.
REQUIRED_INPUT = "input_ids"
INPUTS = (REQUIRED_INPUT, "attention_mask", "token_type_ids", "position_ids")
_TYPES: dict[str, type[np.integer[Any]]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
UNKNOWN_TOKENS = ("[UNK]", "<unk>", "<UNK>")
# The setting of onnxruntime for processors without VNNI instructions: products of 8-bit numbers are
# added without saturation, as on other processors, in about 1.15 times the time.
_EXACT_INTEGERS = "session.x64quantprecision"

PRECISIONS = ("fast", "exact")

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The two files that a text model consists of."""

    model: Path
    tokenizer: Path


def find_model_files(folder: str | Path) -> ModelFiles:
    """Return the files of a folder; raise Invalid if the model or the tokenizer is missing."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        entry = "a file" if path.exists() else "nothing"
        raise Invalid(f"a model must be a folder, got {entry} at {str(path)!r}", "no_model")
    entries = sorted(entry.name for entry in path.iterdir())
    listing = ", ".join(entries[:10]) or "nothing"
    models = [path / name for name in MODELS if (path / name).is_file()]
    if not models:
        raise Invalid(
            f"{str(path)!r} must contain {MODELS[0]} or {MODELS[1]}, found: {listing}", "no_model"
        )
    if not (path / TOKENIZER).is_file():
        raise Invalid(
            f"{str(path)!r} must contain {TOKENIZER} (of a fast tokenizer), found: {listing}",
            "no_tokenizer",
        )
    return ModelFiles(models[0], path / TOKENIZER)


class OnnxText:
    """A model that reads at most `window` tokens of a text, or of a pair of texts.

    One text at a time: dynamic int8 scales by the whole batch, so that a result would depend on
    the other texts of its batch. Safe to share between threads. The files are loaded on first use;
    `check` loads them at once.
    """

    def __init__(self, files: ModelFiles, window: int, *, exact: bool = False) -> None:
        self.files, self.window, self._exact = files, window, exact

    def check(self) -> None:
        """Load both files; raise Invalid if they are not those of a text model."""
        _ = self._inputs, self._tokenizer

    @property
    def outputs(self) -> dict[str, int | None]:
        """The number of axes of each output by name, None if the file does not say."""
        return {
            output.name: None if output.shape is None else len(output.shape)
            for output in self._session.get_outputs()
        }

    def run(self, output: str, text: str, pair: str | None = None) -> Array:
        """Return an output for a text or a pair, without the axis of the batch."""
        result: Array = self.run_all((output,), text, pair)[0]
        return result

    def run_all(
        self, outputs: Sequence[str], text: str, pair: str | None = None
    ) -> tuple[Array, ...]:
        feeds = self._encode(text, pair)
        return tuple(result[0] for result in self._session.run(list(outputs), feeds))

    def unknown_share(self, texts: Sequence[str]) -> float:
        """Return the share of tokens that are unknown to the tokenizer."""
        unknown = {self._tokenizer.token_to_id(token) for token in UNKNOWN_TOKENS} - {None}
        ids = [id for text in texts for id in self._tokenizer.encode(_clean(text)).ids]
        return sum(id in unknown for id in ids) / max(len(ids), 1)

    def _encode(self, text: str, pair: str | None) -> dict[str, Array]:
        texts = (_clean(text),) if pair is None else (_clean(text), _clean(pair))
        encoding = self._tokenizer.encode(*texts)
        ids = encoding.ids or [0]
        columns: Mapping[str, Sequence[int]] = {
            "input_ids": ids,
            "attention_mask": [1] * len(ids),
            "token_type_ids": encoding.type_ids or [0],
            "position_ids": range(len(ids)),
        }
        return {name: np.array([columns[name]], type) for name, type in self._inputs.items()}

    @cached_property
    def _inputs(self) -> dict[str, type[np.integer[Any]]]:
        """The type of each input; other inputs than those of BERT are Invalid."""
        inputs = {tensor.name: tensor.type for tensor in self._session.get_inputs()}
        unsuitable = [name for name, type in inputs.items() if type not in _TYPES]
        if REQUIRED_INPUT not in inputs or unsuitable or not inputs.keys() <= set(INPUTS):
            names = ", ".join(f"{name} {type}" for name, type in inputs.items()) or "none"
            rule = f"{REQUIRED_INPUT} and optionally {', '.join(INPUTS[1:])}, all of them integers"
            raise Invalid(
                f"{str(self.files.model)!r}: a text model must take {rule}; found: {names}",
                "unsuitable_model",
            )
        return {name: _TYPES[type] for name, type in inputs.items()}

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        try:
            tokenizer = Tokenizer.from_file(str(self.files.tokenizer))
        except Exception as error:  # the package raises Exception itself
            raise Invalid(
                f"{str(self.files.tokenizer)!r} must be a tokenizer.json: {error}", "no_tokenizer"
            ) from error
        tokenizer.enable_truncation(self.window)
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        # Requests run concurrently; threads inside one would only compete for the cores.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if self._exact:
            options.add_session_config_entry(_EXACT_INTEGERS, "1")
        path = str(self.files.model)
        try:
            return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the package has no common class of errors
            reason = str(error).splitlines()[0][:200]
            raise Invalid(f"{path!r} must be an ONNX model: {reason}", "no_model") from error


def is_exact(precision: str) -> bool:
    """Return True for the precision "exact", False for "fast"; raise Invalid for any other."""
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)
    return precision == "exact"


def _clean(text: str) -> str:
    """Return valid UTF-8: the tokenizer refuses lone surrogates."""
    return text if text.isascii() else text.encode(errors="replace").decode()
