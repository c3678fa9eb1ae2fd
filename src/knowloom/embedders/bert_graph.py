"""A BERT encoder as a fused ONNX graph with 8-bit weights. Needs the package onnx."""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from knowloom.errors import Invalid

Array = npt.NDArray[np.float32]
Weights = Mapping[str, Array]

HEAD_SIZE = 32  # dimensions of an attention head, in MiniLM, bge-small and e5-small alike
EPSILON = 1e-12
FUSED = "com.microsoft"  # onnxruntime's fused operators: half the nodes, twice the speed
OPSET, IR_VERSION = 17, 8
WORDS = "embeddings.word_embeddings.weight"
_PREFIX = re.compile(r"^(bert|model|roberta)\.")
_LAYER = re.compile(r"^encoder\.layer\.(\d+)\.")


class Graph:
    """An ONNX graph under construction. The methods return the name of what they add."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    @property
    def dimensions(self) -> int:
        return int(self.weights[WORDS].shape[1])

    def constant(self, name: str, value: npt.NDArray[np.generic]) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def matrix(self, name: str) -> str:
        """Add a dense layer's weight, transposed so that `input @ weight` is the product."""
        return self.constant(name, self.weights[name].T)

    def node(
        self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: float
    ) -> str:
        node = helper.make_node(operator, inputs, [output], name=output, domain=domain)
        node.attribute.extend(helper.make_attribute(*pair) for pair in sorted(attributes.items()))
        self.nodes.append(node)
        return output


def read_weights(path: Path) -> dict[str, Array]:
    """Return the weights of a BERT encoder by the names of its checkpoint.

    Exporters rename the weights of dense layers; each is identified by the bias added to its
    product.
    """
    try:
        graph = onnx.load(str(path)).graph
    except Exception as error:  # protobuf has several classes for damaged files
        reason = type(error).__name__
        raise Invalid(f"{str(path)!r} must be an ONNX model, got {reason}") from error
    initializers = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    producers = {output: node for node in graph.node for output in node.output}
    weights = {_PREFIX.sub("", name): array for name, array in initializers.items()}
    for node in graph.node:
        biases = [name for name in node.input if name.endswith(".bias") and name in initializers]
        products = [producers[name] for name in node.input if name in producers]
        if node.op_type != "Add" or not biases or not products:
            continue
        matrices = [name for name in products[0].input if name in initializers]
        if products[0].op_type == "MatMul" and matrices:
            name = _PREFIX.sub("", biases[0]).removesuffix(".bias") + ".weight"
            weights[name] = initializers[matrices[0]].T
    if WORDS not in weights or not any(map(_LAYER.match, weights)):
        raise Invalid(f"{str(path)!r} must be a BERT encoder, it has no {WORDS!r} or no layers")
    return weights


def build_model(
    weights: Weights, name: str, pooling: str = "mean", head_size: int = HEAD_SIZE
) -> onnx.ModelProto:
    """Return the graph from token ids to a unit vector, pooled by "mean" or "cls"."""
    graph = Graph(weights)
    layers = 1 + max(int(match[1]) for match in map(_LAYER.match, weights) if match)
    hidden = _add_embeddings(graph)
    graph.node("Cast", ["attention_mask"], "mask32", to=TensorProto.INT32)
    for number in range(layers):
        attended = _add_attention(graph, number, hidden, graph.dimensions // head_size)
        hidden = _add_feed_forward(graph, number, attended)
    POOLINGS[pooling](graph, hidden)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "words"])
        for name in ("input_ids", "attention_mask")
    ]
    shape: list[str | int | None] = ["batch", graph.dimensions]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, shape)]
    body = helper.make_graph(graph.nodes, name, inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
    return helper.make_model(body, ir_version=IR_VERSION, opset_imports=opsets)


def quantise_file(source: Path, target: Path, name: str, pooling: str) -> None:
    """Write an exported BERT encoder with 8-bit weights that do not saturate on any processor."""
    quantise(build_model(read_weights(source), name, pooling), target, reduce_range=True)


def quantise(model: onnx.ModelProto, target: Path, reduce_range: bool) -> None:
    """Write the model with 8-bit weights, one scale per column.

    `reduce_range` uses 7 of the 8 bits: processors without VNNI instructions add pairs of products
    in 16 bits, and saturate with 8.
    """
    logger = logging.getLogger()
    level = logger.level
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        full = Path(folder) / "full.onnx"
        onnx.save(model, str(full))
        logger.setLevel(logging.ERROR)  # it advises a step that fused operators cannot take
        try:
            quantize_dynamic(
                full,
                target,
                weight_type=QuantType.QInt8,
                per_channel=True,
                reduce_range=reduce_range,
                op_types_to_quantize=["MatMul", "Attention", "Gather"],
                extra_options={"DefaultTensorType": TensorProto.FLOAT},
            )
        finally:
            logger.setLevel(level)


def _add_embeddings(graph: Graph) -> str:
    """Add word and position vectors, normalised; the vector of segment 0 is in the positions."""
    positions = (
        graph.weights["embeddings.position_embeddings.weight"]
        + graph.weights["embeddings.token_type_embeddings.weight"][0]
    )
    graph.constant("positions", positions)
    for number in range(3):
        graph.constant(f"axis{number}", np.array([number], np.int64))
    graph.node("Gather", [graph.weight(WORDS), "input_ids"], "words")
    graph.node("Shape", ["input_ids"], "shape")
    graph.node("Slice", ["shape", "axis1", "axis2", "axis0"], "length")
    graph.node("Slice", ["positions", "axis0", "length", "axis0"], "places")
    graph.node("Add", ["words", "places"], "embedded")
    norm = [graph.weight("embeddings.LayerNorm.weight"), graph.weight("embeddings.LayerNorm.bias")]
    return graph.node(
        "LayerNormalization", ["embedded", *norm], "layer_in", axis=-1, epsilon=EPSILON
    )


def _add_attention(graph: Graph, number: int, hidden: str, heads: int) -> str:
    layer = f"encoder.layer.{number}.attention."
    parts = [graph.weights[f"{layer}self.{name}.weight"].T for name in ("query", "key", "value")]
    biases = [graph.weights[f"{layer}self.{name}.bias"] for name in ("query", "key", "value")]
    weight = graph.constant(f"{layer}qkv", np.concatenate(parts, axis=1))
    bias = graph.constant(f"{layer}qkv_bias", np.concatenate(biases))
    inputs = [hidden, weight, bias, "mask32"]
    graph.node("Attention", inputs, f"attended{number}", FUSED, num_heads=heads)
    matrix = graph.matrix(f"{layer}output.dense.weight")
    graph.node("MatMul", [f"attended{number}", matrix], f"projected{number}")
    return _add_and_norm(graph, f"{layer}output", f"projected{number}", hidden, f"heard{number}")


def _add_feed_forward(graph: Graph, number: int, hidden: str) -> str:
    layer = f"encoder.layer.{number}."
    matrix = graph.matrix(f"{layer}intermediate.dense.weight")
    graph.node("MatMul", [hidden, matrix], f"wide{number}")
    bias = graph.weight(f"{layer}intermediate.dense.bias")
    graph.node("BiasGelu", [f"wide{number}", bias], f"active{number}", FUSED)
    matrix = graph.matrix(f"{layer}output.dense.weight")
    graph.node("MatMul", [f"active{number}", matrix], f"narrow{number}")
    return _add_and_norm(graph, f"{layer}output", f"narrow{number}", hidden, f"layer{number}")


def _add_and_norm(graph: Graph, layer: str, hidden: str, residual: str, output: str) -> str:
    names = (f"{layer}.LayerNorm.weight", f"{layer}.LayerNorm.bias", f"{layer}.dense.bias")
    inputs = [hidden, residual, *(graph.weight(name) for name in names)]
    return graph.node("SkipLayerNormalization", inputs, output, FUSED, epsilon=EPSILON)


def _add_mean_pooling(graph: Graph, hidden: str) -> None:
    """Add the mean over the words that are not padding, as a unit vector."""
    graph.constant("tiny", np.array(1e-9, np.float32))
    graph.node("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
    graph.node("Unsqueeze", ["mask", "axis2"], "mask3")
    graph.node("Mul", [hidden, "mask3"], "masked")
    graph.node("ReduceSum", ["masked", "axis1"], "sum", keepdims=0)
    graph.node("ReduceSum", ["mask", "axis1"], "count", keepdims=1)
    graph.node("Max", ["count", "tiny"], "divisor")
    graph.node("Div", ["sum", "divisor"], "mean")
    graph.node("LpNormalization", ["mean"], "embedding", axis=-1, p=2)


def _add_first_word_pooling(graph: Graph, hidden: str) -> None:
    """Add the vector of the first word, [CLS], as a unit vector."""
    graph.node("Slice", [hidden, "axis0", "axis1", "axis1"], "first")
    graph.node("Squeeze", ["first", "axis1"], "cls")
    graph.node("LpNormalization", ["cls"], "embedding", axis=-1, p=2)


POOLINGS: dict[str, Callable[[Graph, str], None]] = {
    "mean": _add_mean_pooling,
    "cls": _add_first_word_pooling,
}
