"""The digest of a graph context: it names an answer by all that it depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from weft import tokens
from weft.capabilities.graph.documents import Reading
from weft.capabilities.graph.options import GraphOptions
from weft.engine import Asked
from weft.model import LeftOut, Problem
from weft.stages import answer

RENDERER = 1  # raised whenever the same choice would be written differently


def digest(
    asked: Asked,
    options: GraphOptions,
    reading: Reading,
    wanted: Sequence[tuple[str, float]],
    left_out: Sequence[LeftOut],
    problems: Sequence[Problem],
) -> str:
    """Knowledge, request with its clock, options, and what could not be reached: equal digests, equal bytes. A ranker of one's own is
    named by how it shows itself, so that one without a `repr` is the same only in its process."""
    about = answer.digest(
        asked.query, (), asked.vector, asked.stores, tokens.counter(options.model), problems
    )
    refused = [(one.hit.item.id, one.hit.item.title, one.reason) for one in left_out]
    return hashlib.sha256(
        repr((RENDERER, about, options, reading, list(wanted), refused)).encode()
    ).hexdigest()
