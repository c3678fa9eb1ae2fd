"""Build the table of synonyms from the word vectors inside the bundled embedding model.

Run once by a maintainer, after build_minilm.py; the result is committed. Needs: pip install onnx

    PYTHONPATH=src python tools/build_synonyms.py \\
        src/knowloom/embedders/minilm_files src/knowloom/text/synonyms.txt
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from knowloom.text.words import extract_terms

VECTORS = "embeddings.word_embeddings.weight"
MIN_LETTERS = 3
MIN_COSINE = 0.4  # below, words share a subject and no more
MAX_SYNONYMS = 5  # of a word
BATCH = 500


def word_vectors(folder: Path) -> dict[str, np.ndarray]:
    """Return the model's vectors of whole words, centred: raw ones share a common direction."""
    tensors = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in onnx.load(str(folder / "model.onnx")).graph.initializer
    }
    zero_point = tensors[f"{VECTORS}_zero_point"].astype(np.float32)
    vectors = tensors[f"{VECTORS}_quantized"].astype(np.float32) - zero_point
    pieces = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    positions = {
        word: position
        for word, position in pieces.items()
        if word.isascii() and word.isalpha() and len(word) >= MIN_LETTERS
    }
    mean = vectors[list(positions.values())].mean(axis=0)
    return {word: vectors[position] - mean for word, position in positions.items()}


def average_by_stem(vectors: dict[str, np.ndarray]) -> tuple[list[str], np.ndarray]:
    """Return the stems, and for each the unit vector of the mean of its words.

    The mean keeps "authority" from moving the neighbours of "author" much.
    """
    groups: dict[str, list[np.ndarray]] = defaultdict(list)
    for word, vector in vectors.items():
        for stem in extract_terms(word):
            groups[stem].append(vector / np.linalg.norm(vector))
    stems = sorted(stem for stem in groups if len(stem) >= MIN_LETTERS)
    means = np.array([np.mean(groups[stem], axis=0) for stem in stems])
    return stems, means / np.linalg.norm(means, axis=1, keepdims=True)


def format_lines(stems: list[str], vectors: np.ndarray) -> list[str]:
    """Format each stem with its nearest ones, nearest first.

    A stem that begins like the other is skipped: search matches it anyway.
    """
    lines = []
    for first in range(0, len(stems), BATCH):
        cosines = vectors[first : first + BATCH] @ vectors.T
        for stem, row in zip(stems[first:], cosines, strict=False):
            order = sorted(
                np.flatnonzero(row >= MIN_COSINE),
                key=lambda position: (-round(float(row[position]), 4), stems[position]),
            )
            near = [
                other
                for other in (stems[position] for position in order)
                if not other.startswith(stem) and not stem.startswith(other)
            ]
            if near:
                lines.append(" ".join([f"{stem}:", *near[:MAX_SYNONYMS]]))
    return lines


def main() -> None:
    folder, target = map(Path, sys.argv[1:])
    table = format_lines(*average_by_stem(word_vectors(folder)))
    target.write_text("\n".join([*table, ""]))
    print(f"{len(table)} words")


if __name__ == "__main__":
    main()
