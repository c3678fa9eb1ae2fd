"""Build the table of words that mean nearly the same, from the word vectors inside the bundled embedding model.

Run once by a maintainer, after build_minilm.py; the result is committed. Needs: pip install onnx

    PYTHONPATH=src python tools/build_synonyms.py src/knowloom/embedders/minilm_files src/knowloom/text/synonyms.txt
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
LEAST_LETTERS = 3
LEAST_NEAR = 0.4  # cosine; below, words share a subject and no more
MOST = 5  # near words of a word
AT_ONCE = 500


def word_vectors(folder: Path) -> dict[str, np.ndarray]:
    """The model's vectors of whole words, moved so that their mean is 0: all word vectors of such a model lean the same way."""
    known = {
        one.name: numpy_helper.to_array(one)
        for one in onnx.load(str(folder / "model.onnx")).graph.initializer
    }
    vectors = known[f"{VECTORS}_quantized"].astype(np.float32) - known[
        f"{VECTORS}_zero_point"
    ].astype(np.float32)
    pieces = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    kept = {
        word: place
        for word, place in pieces.items()
        if word.isascii() and word.isalpha() and len(word) >= LEAST_LETTERS
    }
    mean = vectors[list(kept.values())].mean(axis=0)
    return {word: vectors[place] - mean for word, place in kept.items()}


def by_stem(vectors: dict[str, np.ndarray]) -> tuple[list[str], np.ndarray]:
    """One unit vector for each stem: the mean of its words'. So "authority" hardly moves what "author" is near to."""
    groups: dict[str, list[np.ndarray]] = defaultdict(list)
    for word, vector in vectors.items():
        for stem in extract_terms(word):
            groups[stem].append(vector / np.linalg.norm(vector))
    stems = sorted(stem for stem in groups if len(stem) >= LEAST_LETTERS)
    means = np.array([np.mean(groups[stem], axis=0) for stem in stems])
    return stems, means / np.linalg.norm(means, axis=1, keepdims=True)


def lines(stems: list[str], vectors: np.ndarray) -> list[str]:
    """Each stem with those near to it, nearest first. One that begins like the other is found with it anyway."""
    found = []
    for first in range(0, len(stems), AT_ONCE):
        nearness = vectors[first : first + AT_ONCE] @ vectors.T
        for stem, row in zip(stems[first:], nearness, strict=False):
            order = sorted(
                np.flatnonzero(row >= LEAST_NEAR),
                key=lambda place: (-round(float(row[place]), 4), stems[place]),
            )
            near = [
                stems[place]
                for place in order
                if not stems[place].startswith(stem) and not stem.startswith(stems[place])
            ]
            if near:
                found.append(" ".join([f"{stem}:", *near[:MOST]]))
    return found


def main() -> None:
    folder, target = map(Path, sys.argv[1:])
    table = lines(*by_stem(word_vectors(folder)))
    target.write_text("\n".join([*table, ""]))
    print(f"{len(table)} words")


if __name__ == "__main__":
    main()
