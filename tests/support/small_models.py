"""Small text models for tests: a BERT of one layer with random weights, and its tokenizer."""

from __future__ import annotations

import string
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

DIMENSIONS = 32
POSITIONS = 512
CHARACTERS = string.ascii_lowercase + string.digits + string.punctuation
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def small_weights(seed: int = 0, vocabulary: int = 200) -> dict[str, np.ndarray]:
    """Return the weights of a BERT encoder with one layer and one head."""
    chance = np.random.default_rng(seed)
    wide = 2 * DIMENSIONS
    layer = "encoder.layer.0."
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (vocabulary, DIMENSIONS),
        "embeddings.position_embeddings.weight": (POSITIONS, DIMENSIONS),
        "embeddings.token_type_embeddings.weight": (2, DIMENSIONS),
        f"{layer}attention.output.dense.weight": (DIMENSIONS, DIMENSIONS),
        f"{layer}attention.output.dense.bias": (DIMENSIONS,),
        f"{layer}intermediate.dense.weight": (wide, DIMENSIONS),
        f"{layer}intermediate.dense.bias": (wide,),
        f"{layer}output.dense.weight": (DIMENSIONS, wide),
        f"{layer}output.dense.bias": (DIMENSIONS,),
    }
    for name in ("query", "key", "value"):
        shapes[f"{layer}attention.self.{name}.weight"] = (DIMENSIONS, DIMENSIONS)
        shapes[f"{layer}attention.self.{name}.bias"] = (DIMENSIONS,)
    weights = {name: chance.normal(0, 0.3, shape) for name, shape in shapes.items()}
    for norm in ("embeddings", f"{layer}attention.output", f"{layer}output"):
        weights[f"{norm}.LayerNorm.weight"] = np.ones(DIMENSIONS)
        weights[f"{norm}.LayerNorm.bias"] = np.zeros(DIMENSIONS)
    return {name: array.astype(np.float32) for name, array in weights.items()}


def write_tokenizer(path: Path, characters: str = CHARACTERS) -> None:
    """Write a tokenizer that reads these characters one by one."""
    pieces = [*SPECIAL, *characters, *(f"##{character}" for character in characters)]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    tokenizer.save(str(path))
