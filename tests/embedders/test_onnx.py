"""Models of folders: any ONNX encoder with its tokenizer, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_models import DIMENSIONS, POSITIONS, small_weights, write_tokenizer

import knowloom
from knowloom.embedders.bert_graph import build_model, quantise, read_weights
from knowloom.embedders.minilm import MiniLM
from knowloom.embedders.onnx import OnnxEmbedder
from knowloom.embedders.onnx_text import OnnxText, find_model_files
from knowloom.errors import Invalid
from knowloom.ports import Embedder
from knowloom.testing import EmbedderContract


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    write_folder(path)
    return path


def write_folder(path: Path, seed: int = 0) -> Path:
    path.mkdir(exist_ok=True)
    onnx.save(build_model(small_weights(seed), "small"), str(path / "model.onnx"))
    write_tokenizer(path / "tokenizer.json")
    return path


def open_small(path: Path, **settings: object) -> OnnxEmbedder:
    return OnnxEmbedder(path, window=POSITIONS, **settings)  # type: ignore[arg-type]


def write_graph(path: Path, inputs: list[tuple[str, int]], output: str, axes: int) -> None:
    """Write a graph that returns its first input, as numbers with so many axes."""
    name = inputs[0][0]
    nodes = [helper.make_node("Cast", [name], ["numbers"], to=TensorProto.FLOAT)]
    nodes.append(helper.make_node("Reshape", ["numbers", "shape"], [output]))
    shape = helper.make_tensor("shape", TensorProto.INT64, [axes], [1] * (axes - 1) + [-1])
    values = [helper.make_tensor_value_info(name, type, ["b", "w"]) for name, type in inputs]
    result = helper.make_tensor_value_info(output, TensorProto.FLOAT, [None] * axes)
    graph = helper.make_graph(nodes, "graph", values, [result], [shape])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, str(path / "model.onnx"))


class TestFolder(EmbedderContract):
    @pytest.fixture
    def embedder(self, folder: Path) -> Embedder:
        return open_small(folder)


class TestFolderWithPrefixes(EmbedderContract):
    @pytest.fixture
    def embedder(self, folder: Path) -> Embedder:
        return open_small(folder, query_prefix="query: ", passage_prefix="passage: ")


def test_queries_and_passages_have_their_own_prefix(folder: Path) -> None:
    plain, prefixed = open_small(folder), open_small(folder, query_prefix="find: ")
    assert (plain.has_roles, prefixed.has_roles) == (False, True)
    np.testing.assert_array_equal(prefixed.embed_queries(["tea"]), plain.embed(["find: tea"]))
    np.testing.assert_array_equal(prefixed.embed(["tea"]), plain.embed(["tea"]))
    assert plain.fingerprint != prefixed.fingerprint


def test_the_fingerprint_depends_on_both_files_and_the_settings(tmp_path: Path) -> None:
    first, second = write_folder(tmp_path / "a"), write_folder(tmp_path / "b", seed=1)
    fingerprints = {open_small(path).fingerprint for path in (first, first, second)}
    fingerprints.add(OnnxEmbedder(first, window=10).fingerprint)
    fingerprints.add(open_small(first, precision="exact").fingerprint)
    write_tokenizer(first / "tokenizer.json", "abcdefghijklmnopqrstuvwxyz.,:?'0123456789")
    fingerprints.add(open_small(first).fingerprint)
    assert len(fingerprints) == 5


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_vector_per_token_is_pooled_as_the_folder_says(tmp_path: Path, pooling: str) -> None:
    write_graph(tmp_path, [("input_ids", TensorProto.INT64)], "last_hidden_state", 3)
    write_tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(Invalid, match=r"pooling is not in the folder: .* one of: cls, mean"):
        open_small(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    key = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}[pooling]
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({key: True}))
    assert open_small(tmp_path)._pooling == pooling
    with pytest.raises(Invalid, match="unknown pooling 'max'; available: cls, mean"):
        open_small(tmp_path, pooling="max")


def test_prompts_and_length_of_the_folder_are_read(tmp_path: Path) -> None:
    write_folder(tmp_path)
    prompts = {"prompts": {"query": "find: ", "document": "read: "}}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 20}))
    embedder = OnnxEmbedder(tmp_path)
    assert embedder.window == 20 and embedder.has_roles
    plain = OnnxEmbedder(tmp_path, query_prefix="", passage_prefix="")
    np.testing.assert_array_equal(embedder.embed(["tea"]), plain.embed(["read: tea"]))
    assert not plain.has_roles


def test_an_engine_searches_with_the_model_of_a_folder(folder: Path, tmp_path: Path) -> None:
    settings = {"window": POSITIONS}
    address = f"onnx:{folder}"
    for _ in range(2):
        with knowloom.open(
            tmp_path / "k.db", embedder=address, embedder_settings=settings, links=[]
        ) as kb:
            kb.add([knowloom.Item("a", "s", text="tea"), knowloom.Item("b", "s", text="zzz 99")])
            assert kb.search("tea", spaces=["s"], mode="vector")[0].item.id == "a"
            assert kb.reader.is_cpu_bound and kb.reader.dimensions == DIMENSIONS


class TestRefused:
    def test_a_folder_that_does_not_exist_or_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        for name, reason in (("nowhere", "got nothing"), ("file", "got a file")):
            with pytest.raises(Invalid, match=f"must be a folder, {reason} at"):
                OnnxEmbedder(tmp_path / name)
        with pytest.raises(Invalid, match="pass onnx:FOLDER"):
            knowloom.open("memory:", embedder="onnx")

    def test_a_folder_without_its_files_names_what_is_there(self, tmp_path: Path) -> None:
        (tmp_path / "README.md").write_text("x")
        with pytest.raises(Invalid, match=r"must contain model.onnx .*found: README.md"):
            OnnxEmbedder(tmp_path)
        (tmp_path / "model.onnx").write_bytes(b"junk")
        with pytest.raises(Invalid, match=r"must contain tokenizer.json .*README.md, model.onnx"):
            OnnxEmbedder(tmp_path)

    def test_files_that_are_not_a_model_and_a_tokenizer(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "model.onnx").write_bytes(b"junk")
        write_tokenizer(tmp_path / "tokenizer.json")
        with pytest.raises(Invalid, match="must be an ONNX model"):
            OnnxEmbedder(tmp_path)
        (tmp_path / "model.onnx").write_bytes((folder / "model.onnx").read_bytes())
        (tmp_path / "tokenizer.json").write_text("{}")
        with pytest.raises(Invalid, match=r"must be a tokenizer\.json"):
            OnnxEmbedder(tmp_path)

    @pytest.mark.parametrize(
        ("inputs", "listing"),
        [
            ([("pixel_values", TensorProto.FLOAT)], r"pixel_values tensor\(float\)"),
            ([("input_ids", TensorProto.FLOAT)], r"input_ids tensor\(float\)"),
            ([("attention_mask", TensorProto.INT64)], r"attention_mask tensor\(int64\)"),
        ],
    )
    def test_other_inputs_than_those_of_a_text_model(
        self, tmp_path: Path, inputs: list[tuple[str, int]], listing: str
    ) -> None:
        write_graph(tmp_path, inputs, "embedding", 2)
        write_tokenizer(tmp_path / "tokenizer.json")
        with pytest.raises(Invalid, match=f"must take input_ids .*found: {listing}") as caught:
            OnnxEmbedder(tmp_path)
        assert caught.value.code == "unsuitable_model"

    def test_an_output_without_a_vector(self, tmp_path: Path) -> None:
        write_graph(tmp_path, [("input_ids", TensorProto.INT64)], "logits", 2)
        write_tokenizer(tmp_path / "tokenizer.json")
        with pytest.raises(Invalid, match=r"found: logits \(2 axes\)"):
            OnnxEmbedder(tmp_path)

    def test_a_model_of_another_language(self, tmp_path: Path) -> None:
        write_folder(tmp_path)
        write_tokenizer(tmp_path / "tokenizer.json", "אבגדהוזחטיכלמנסעפצקרשת")
        with pytest.raises(Invalid, match=r"does not know \d\d% of the tokens of English texts"):
            open_small(tmp_path)

    @pytest.mark.parametrize(
        "settings", [{"window": 0}, {"precision": "fp64"}, {"query_prefix": 5}]
    )
    def test_invalid_settings(self, folder: Path, settings: dict[str, object]) -> None:
        with pytest.raises(Invalid, match=next(iter(settings))):
            OnnxEmbedder(folder, **{"window": POSITIONS} | settings)  # type: ignore[arg-type]


class TestGraph:
    def test_quantised_vectors_are_close_to_the_exact_ones(self, tmp_path: Path) -> None:
        exact, quantised = write_folder(tmp_path / "exact"), tmp_path / "int8"
        quantised.mkdir()
        write_tokenizer(quantised / "tokenizer.json")
        quantise(build_model(small_weights(), "small"), quantised / "model.onnx", True)
        texts = ["How do I get a refund?", "Parcels leave on Mondays."]
        pairs = zip(open_small(exact).embed(texts), open_small(quantised).embed(texts), strict=True)
        assert all(float(one @ other) > 0.98 for one, other in pairs)

    def test_weights_are_recovered_from_an_exported_graph(self, tmp_path: Path) -> None:
        """Exporters name the matrices of dense layers anew, and transpose them."""
        weights = small_weights()
        names = [name for name in weights if name.endswith("dense.weight")]
        initializers, nodes = [], []
        for number, (name, array) in enumerate(weights.items()):
            exported = f"onnx::MatMul_{number}" if name in names else f"bert.{name}"
            values = array.T if name in names else array
            initializers.append(
                onnx.numpy_helper.from_array(np.ascontiguousarray(values), exported)
            )
            if name in names:
                bias = f"bert.{name.removesuffix('weight')}bias"
                nodes.append(helper.make_node("MatMul", ["input_ids", exported], [f"p{number}"]))
                nodes.append(helper.make_node("Add", [bias, f"p{number}"], [f"s{number}"]))
        graph = helper.make_graph(nodes, "export", [], [], initializers)
        onnx.save(helper.make_model(graph), str(tmp_path / "export.onnx"))
        recovered = read_weights(tmp_path / "export.onnx")
        for name, array in weights.items():
            np.testing.assert_array_equal(recovered[name], array)

    def test_files_that_are_no_encoder_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "junk").write_bytes(b"\xff\xfe junk")
        with pytest.raises(Invalid, match="must be an ONNX model"):
            read_weights(tmp_path / "junk")
        write_graph(tmp_path, [("input_ids", TensorProto.INT64)], "x", 2)
        with pytest.raises(Invalid, match="must be a BERT encoder"):
            read_weights(tmp_path / "model.onnx")


def test_exact_precision_has_vectors_and_a_fingerprint_of_its_own() -> None:
    fast, exact = MiniLM(), MiniLM.open(precision="exact")
    assert exact.fingerprint == f"{fast.fingerprint}:exact"
    (one,), (other,) = (
        fast.embed(["How do I get a refund?"]),
        exact.embed(["How do I get a refund?"]),
    )
    assert float(one @ other) > 0.97
    with pytest.raises(Invalid, match="unknown precision 'fp32'; available: exact, fast"):
        MiniLM(precision="fp32")


def test_a_pair_of_texts_is_read_as_two_segments(folder: Path) -> None:
    model = OnnxText(find_model_files(folder), POSITIONS)
    assert model.outputs == {"embedding": 2}
    assert not np.array_equal(model.run("embedding", "a", "b"), model.run("embedding", "a b"))
    assert model.run("embedding", "lone \ud83e surrogate").shape == (DIMENSIONS,)
