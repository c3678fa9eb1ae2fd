"""The embedder bge-small-en-v1.5: better than the bundled model on plain search, half as fast."""

from __future__ import annotations

from knowloom.embedders.model_files import RECIPES, check_built, model_folder
from knowloom.embedders.onnx import OnnxEmbedder

NAME = "bge-small"
WINDOW = 512
# The instruction that the model was trained with; passages have none.
QUERY_PREFIX = "Represent this sentence for searching relevant passages: "


class BgeSmall:
    """Opens the model of the folder that `knowloom models build bge-small` wrote, or of another."""

    @classmethod
    def open(cls, address: str = "", *, precision: str = "fast") -> OnnxEmbedder:
        """Open the built model, or one of a folder as in `bge-small:models/bge-small-en-v1.5`."""
        folder = address or model_folder(NAME)
        identity = check_built(NAME, folder)
        return OnnxEmbedder(
            folder,
            name=NAME,
            pooling=RECIPES[NAME].pooling,
            query_prefix=QUERY_PREFIX,
            passage_prefix="",
            window=WINDOW,
            precision=precision,
            identity=identity,
        )
