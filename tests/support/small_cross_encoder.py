"""A small cross-encoder, built on the spot: it counts the words that two texts share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from knowloom.embedders.calibration import calibration_texts

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
WORDS = "How long does a refund take? It takes five days. Parcels leave on Mondays. Water boils."


def build_folder(
    folder: Path, *, inputs: Iterable[str] = INPUTS, classes: int = 1, words: Iterable[str] = ()
) -> Path:
    """Write model.onnx and tokenizer.json; `words` replace the English vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(build_model(tuple(inputs), classes), str(folder / "model.onnx"))
    build_tokenizer(list(words) or [*calibration_texts().passages, WORDS]).save(
        str(folder / "tokenizer.json")
    )
    return folder


def build_tokenizer(texts: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=special))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return tokenizer


def build_model(inputs: tuple[str, ...], classes: int) -> onnx.ModelProto:
    """Return a graph whose logit is the number of equal tokens of both texts, less three."""
    axes = {name: numpy_helper.from_array(np.array([axis]), name) for name, axis in AXES.items()}
    constants = [
        *axes.values(),
        numpy_helper.from_array(np.array([1.0], np.float32), "unit"),
        numpy_helper.from_array(np.array([3.0], np.float32), "offset"),
        numpy_helper.from_array(np.array([1, 2]), "both"),
        numpy_helper.from_array(
            np.linspace(0, 1, max(classes, 2), dtype=np.float32)[-classes:], "classes"
        ),
    ]
    nodes = [
        helper.make_node("Unsqueeze", ["input_ids", "two"], ["rows"]),
        helper.make_node("Unsqueeze", ["input_ids", "one"], ["columns"]),
        helper.make_node("Equal", ["rows", "columns"], ["same"]),
        helper.make_node("Cast", ["same"], ["equal"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["token_type_ids"], ["second"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["unit", "second"], ["first"]),
        helper.make_node("Unsqueeze", ["first", "two"], ["first_rows"]),
        helper.make_node("Unsqueeze", ["second", "one"], ["second_columns"]),
        helper.make_node("Mul", ["first_rows", "second_columns"], ["crossing"]),
        helper.make_node("Mul", ["equal", "crossing"], ["shared"]),
        helper.make_node("ReduceSum", ["shared", "both"], ["count"], keepdims=0),
        helper.make_node("Sub", ["count", "offset"], ["logit"]),
        helper.make_node("Unsqueeze", ["logit", "one"], ["column"]),
        helper.make_node("Mul", ["column", "classes"], ["logits"]),
    ]
    tensors = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in inputs
    ]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", classes])
    graph = helper.make_graph(nodes, "overlap", tensors, [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


AXES = {"one": 1, "two": 2}
