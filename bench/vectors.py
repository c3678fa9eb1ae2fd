"""The bundled embedder with its vectors in a file: embedding a set takes minutes."""

from __future__ import annotations

from pathlib import Path

from knowloom.embedders.cache import CachedEmbedder
from knowloom.embedders.disk_cache import DiskCache
from knowloom.embedders.minilm import MiniLM

FILE = "vectors.db"
MAX_VECTORS = 100_000  # in memory: more than the passages of any set


def open_embedder(folder: Path | None) -> CachedEmbedder:
    """Return MiniLM; with a folder, each text is embedded once per machine.

    Vectors are stored by the digest of their text, so that all sets, joins and versions of the code
    share them. Several processes may use the folder at once.
    """
    disk = None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        disk = DiskCache(folder / FILE)
    return CachedEmbedder(MiniLM(), MAX_VECTORS, disk=disk)
