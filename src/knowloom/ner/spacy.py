"""Named entities of a spaCy pipeline, as names for links."""

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

NUMBERS = frozenset(
    ("CARDINAL", "DATE", "MONEY", "ORDINAL", "PERCENT", "QUANTITY", "TIME")
)  # of entities: they name nothing
FINDING = ("ner", "entity_ruler", "span_ruler")  # components that may find entities
NEEDED = (
    "tok2vec",
    "transformer",
    "ner",
)  # all that statistical ones need; a ruler may need any component
RULES = ("entity_ruler", "span_ruler")


class SpacyNames:
    """Texts are read one by one: what a pipeline finds must not depend on the texts beside it, or a rebuild would give other links."""

    def __init__(self, pipeline: Language, name: str) -> None:
        finding = [one for one in pipeline.pipe_names if one in FINDING]
        if not finding:
            raise Invalid(
                f"the spaCy pipeline {name!r} finds no named entities: it has {', '.join(pipeline.pipe_names) or 'nothing'}, none of {FINDING}"
            )
        if not set(finding) & set(RULES):
            pipeline.select_pipes(enable=[one for one in pipeline.pipe_names if one in NEEDED])
        self._pipeline, self._lock = pipeline, Lock()
        self.fingerprint = f"spacy:{quote(name)}@{_told(pipeline)}"

    @classmethod
    def open(cls, model: str) -> Self:
        """A pipeline that is installed as a package, or lies in a folder."""
        if not model:
            raise Invalid(
                "a spaCy pipeline is named like spacy:en_core_web_sm, or by a folder: spacy:models/mine"
            )
        if not Path(model).is_dir() and (
            not model.isidentifier() or importlib.util.find_spec(model) is None
        ):
            raise MissingExtra(
                f"there is no spaCy pipeline {model!r}, installed or as a folder: python -m spacy download {model}"
            )
        try:
            return cls(spacy.load(model), model)
        except (OSError, ValueError, ImportError) as error:
            raise Invalid(
                f"the spaCy pipeline {model!r} cannot be loaded: {' '.join(str(error).split())[:300]}"
            ) from error

    def find(self, text: str) -> list[tuple[int, str]]:
        with self._lock:
            found = self._pipeline(text)
            return [(one.start_char, one.text) for one in found.ents if one.label_ not in NUMBERS]


def _told(pipeline: Language) -> str:
    """What the entities depend on: the version of spaCy and of the pipeline, its parts, and the patterns of rulers."""
    meta = {name: pipeline.meta.get(name) for name in ("lang", "name", "version")}
    rulers: list[Any] = [pipeline.get_pipe(name) for name in pipeline.pipe_names if name in RULES]
    patterns = [
        sorted(json.dumps(one, sort_keys=True, default=str) for one in ruler.patterns)
        for ruler in rulers
    ]
    said = json.dumps(
        [spacy.about.__version__, meta, pipeline.pipe_names, patterns], sort_keys=True
    )
    return hashlib.sha256(said.encode()).hexdigest()[:16]
