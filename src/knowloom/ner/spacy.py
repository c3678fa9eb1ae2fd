"""Named entities of a spaCy pipeline, as names for automatic edges."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from threading import Lock
from typing import Any, Self
from urllib.parse import quote

import spacy
from spacy.language import Language

from knowloom.errors import Invalid, MissingExtra

# Entity labels that name nothing.
NUMERIC_LABELS = frozenset("CARDINAL DATE MONEY ORDINAL PERCENT QUANTITY TIME".split())
RULERS = ("entity_ruler", "span_ruler")
RECOGNISERS = ("ner", *RULERS)  # components that may recognise entities
STATISTICAL = ("tok2vec", "transformer", "ner")  # all that `ner` needs; a ruler may need any other


class SpacyNames:
    """A name finder that reads texts one by one.

    In a batch the entities of a text could depend on the others, and a rebuild would give other
    edges.
    """

    def __init__(self, pipeline: Language, name: str) -> None:
        names = pipeline.pipe_names
        recognisers = [component for component in names if component in RECOGNISERS]
        if not recognisers:
            raise Invalid(
                f"the spaCy pipeline {name!r} must have one of {', '.join(RECOGNISERS)}, "
                f"got {', '.join(names) or 'no components'}"
            )
        if not set(recognisers) & set(RULERS):
            pipeline.select_pipes(enable=[part for part in names if part in STATISTICAL])
        self._pipeline, self._lock = pipeline, Lock()
        self.fingerprint = f"spacy:{quote(name)}@{_digest(pipeline)}"

    @classmethod
    def open(cls, model: str) -> Self:
        """Open a pipeline that is installed as a package, or stored in a folder."""
        if not model:
            raise Invalid(
                "a spaCy pipeline must be a package or a folder, "
                "such as spacy:en_core_web_sm or spacy:models/mine"
            )
        is_package = model.isidentifier() and importlib.util.find_spec(model) is not None
        if not Path(model).is_dir() and not is_package:
            raise MissingExtra(
                f"no spaCy pipeline {model!r}, neither installed nor as a folder: "
                f"python -m spacy download {model}"
            )
        try:
            return cls(spacy.load(model), model)
        except (OSError, ValueError, ImportError) as error:
            reason = " ".join(str(error).split())[:300]
            raise Invalid(f"cannot load the spaCy pipeline {model!r}: {reason}") from error

    def find(self, text: str) -> list[tuple[int, str]]:
        with self._lock:
            entities = self._pipeline(text).ents
            return [
                (entity.start_char, entity.text)
                for entity in entities
                if entity.label_ not in NUMERIC_LABELS
            ]


def _digest(pipeline: Language) -> str:
    """Return a digest of all that entities depend on: versions, components, ruler patterns."""
    meta = {name: pipeline.meta.get(name) for name in ("lang", "name", "version")}
    rulers: list[Any] = [pipeline.get_pipe(name) for name in pipeline.pipe_names if name in RULERS]
    patterns = [
        sorted(json.dumps(pattern, sort_keys=True, default=str) for pattern in ruler.patterns)
        for ruler in rulers
    ]
    parts = [spacy.about.__version__, meta, pipeline.pipe_names, patterns]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
