"""Building a model: hashes are checked, the folder appears whole, and damage is noticed."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import small_weights, write_tokenizer

import knowloom
from cli_runs import run
from knowloom.embedders import model_files
from knowloom.embedders.bert_graph import read_weights
from knowloom.embedders.model_files import RECIPES, PublishedFile, build_model
from knowloom.errors import Invalid, Unavailable


def describe(path: Path, *names: str) -> PublishedFile:
    data = path.read_bytes()
    return PublishedFile(names, len(data), hashlib.sha256(data).hexdigest())


def export(path: Path) -> None:
    """Write the weights as an exporter does: dense layers transposed, with their biases."""
    nodes, tensors = [], []
    for number, (name, array) in enumerate(small_weights(vocabulary=300).items()):
        is_dense = name.endswith(".weight") and f"{name[:-6]}bias" in small_weights()
        is_dense &= "LayerNorm" not in name
        exported = f"onnx::MatMul_{number}" if is_dense else name
        values = np.ascontiguousarray(array.T if is_dense else array)
        tensors.append(onnx.numpy_helper.from_array(values, exported))
        if is_dense:
            nodes.append(onnx.helper.make_node("MatMul", ["x", exported], [f"p{number}"]))
            biased = [f"{name[:-6]}bias", f"p{number}"]
            nodes.append(onnx.helper.make_node("Add", biased, [f"s{number}"]))
    graph = onnx.helper.make_graph(nodes, "export", [], [], tensors)
    onnx.save(onnx.helper.make_model(graph), str(path))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small model in place of the published one."""
    folder = tmp_path / "source"
    folder.mkdir()
    export(folder / "model.onnx")
    write_tokenizer(folder / "tokenizer.json")
    recipe = replace(
        RECIPES["bge-small"],
        url=(tmp_path / "source.jar").as_uri(),
        model=describe(folder / "model.onnx", "bge.onnx", "model.onnx"),
        tokenizer=describe(folder / "tokenizer.json", "bge.json", "tokenizer.json"),
    )
    monkeypatch.setitem(RECIPES, "bge-small", recipe)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    return folder


def pack(source: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(source / "model.onnx", "bge.onnx")
        archive.write(source / "tokenizer.json", "bge.json")
    return path


def silent(_: str) -> None:
    pass


def open_built(target: str = "bge-small") -> knowloom.Engine:
    return knowloom.open("memory:", embedder=target, links=[])


def test_a_model_is_built_from_a_folder_an_archive_or_a_download(
    source: Path, tmp_path: Path
) -> None:
    pack(source, tmp_path / "source.jar")
    vectors = []
    for origin in (source, tmp_path / "source.jar", None):
        folder = build_model("bge-small", origin, None, silent)
        assert folder == tmp_path / "home" / ".knowloom" / "models" / "bge-small"
        names = ["manifest.json", "model.onnx", "tokenizer.json"]
        assert sorted(path.name for path in folder.iterdir()) == names
        assert [path.name for path in folder.parent.iterdir()] == ["bge-small"]
        with open_built() as kb:
            kb.add(knowloom.Item("a", "s", text="tea"))
            vectors.append(kb.reader.embed_texts(["tea"])[0])
            fingerprint = kb.maintenance.stats().embedder
    assert fingerprint.startswith("bge-small:")
    np.testing.assert_array_equal(vectors[0], vectors[1])
    np.testing.assert_array_equal(vectors[0], vectors[2])


def test_the_command_says_where_the_model_is(source: Path, tmp_path: Path) -> None:
    result = run("models", "build", "bge-small", "--from", str(source), "--json")
    answer = json.loads(result.stdout)
    assert Path(answer["folder"]).is_dir() and answer["embedder"] == "bge-small"
    target = tmp_path / "elsewhere"
    result = run("models", "build", "bge-small", "--from", str(source), "--to", str(target))
    assert f"built: {target}" in result.stdout and f"bge-small:{target}" in result.stdout
    open_built(f"bge-small:{target}").close()


def test_no_model_is_used_before_it_was_built(source: Path) -> None:
    with pytest.raises(Invalid, match='run "knowloom models build bge-small"'):
        open_built()


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
def test_files_with_another_hash_are_refused(source: Path, file: str) -> None:
    data = bytearray((source / file).read_bytes())
    data[-1] ^= 1
    (source / file).write_bytes(data)
    with pytest.raises(Invalid, match=rf"the sha256 of .*{file}' must be \w+, got \w+"):
        build_model("bge-small", source, None, silent)
    with pytest.raises(Invalid, match="sha256"):
        build_model("bge-small", pack(source, source / "damaged.zip"), None, silent)
    with pytest.raises(Invalid, match="no model"):
        open_built()


def test_a_folder_of_the_users_own_model_is_not_checked_by_hash(
    source: Path, tmp_path: Path
) -> None:
    folder = build_model("bge-small", source, tmp_path / "mine", silent)
    (folder / "manifest.json").unlink()
    open_built(f"bge-small:{folder}").close()


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json", "manifest.json"])
def test_a_built_model_that_was_damaged_is_refused(source: Path, file: str) -> None:
    folder = build_model("bge-small", source, None, silent)
    (folder / file).write_bytes((folder / file).read_bytes()[:-2])
    with pytest.raises(Invalid, match="is not the file that was built: run") as caught:
        open_built()
    assert caught.value.code == "damaged_model"
    build_model("bge-small", source, None, silent)
    open_built().close()


def test_a_failed_build_leaves_the_earlier_model_in_place(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_model("bge-small", source, None, silent)
    before = (folder / "model.onnx").read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_files, "_write_manifest", fail)
    with pytest.raises(Unavailable, match=r"cannot write the model to .*No space left"):
        build_model("bge-small", source, None, silent)
    assert (folder / "model.onnx").read_bytes() == before
    assert [path.name for path in folder.parent.iterdir()] == ["bge-small"]
    open_built().close()


def test_a_folder_with_other_files_is_not_replaced(source: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "diary.txt").write_text("x")
    with pytest.raises(Invalid, match="is not empty and was not built by knowloom"):
        build_model("bge-small", source, tmp_path / "home", silent)
    assert (tmp_path / "home" / "diary.txt").read_text() == "x"


def test_sources_that_cannot_be_used_are_named(source: Path, tmp_path: Path) -> None:
    (tmp_path / "text.jar").write_text("no archive")
    with zipfile.ZipFile(tmp_path / "other.jar", "w") as archive:
        archive.writestr("README", "x")
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("nowhere", "no file or folder"),
        ("text.jar", "must be a folder or a zip archive"),
        ("other.jar", r"must contain bge\.onnx, found: README"),
        ("empty", r"must contain bge\.onnx or model\.onnx, found: nothing"),
    ):
        with pytest.raises(Invalid, match=message):
            build_model("bge-small", tmp_path / name, None, silent)
    with pytest.raises(Invalid, match="unknown model 'huge'; available: bge-small"):
        build_model("huge", source, None, silent)


def test_a_download_that_fails_has_a_remedy(source: Path) -> None:
    with pytest.raises(Unavailable, match=r"cannot download file:.*pass it with --from"):
        build_model("bge-small", None, None, silent)


def test_the_published_recipe_names_whole_hashes() -> None:
    for recipe in RECIPES.values():
        assert len(recipe.model.sha256) == len(recipe.tokenizer.sha256) == 64
        assert recipe.url.startswith("https://")


def test_the_weights_of_the_export_are_those_of_the_model(source: Path) -> None:
    weights = read_weights(source / "model.onnx")
    for name, array in small_weights(vocabulary=300).items():
        np.testing.assert_array_equal(weights[name], array)
