"""Paths in words: the edges that led to an item, with the titles of the items along them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from knowloom.context.packing import SectionCandidates
from knowloom.formats.fields import encode_printable
from knowloom.model import Context, Edge, Hit, Item, Key
from knowloom.ports import Stores
from knowloom.text.normalisation import collapse_whitespace

MAX_TITLE = 100  # characters; longer titles are cut after a word and end with an ellipsis
# By edge type: the phrase between the titles of source and target.
EDGE_PHRASES = {
    "bridge": "names what is in",
    "example_of": "is an example of",
    "foreign_key": "has a foreign key to",
    "mentions": "mentions",
    "parent": "has the parent",
    "refers_to": "refers to",
    "related": "is related to",
    "shared_tag": "shares tags with",
    "shares": "shares a rare name with",
    "similar": "is similar to",
}

_PLAIN_TYPE = re.compile(r"[^\W_][\w .-]*")


def annotate_paths(
    sections: Sequence[SectionCandidates], stores: Stores
) -> list[SectionCandidates]:
    """Set `via` on the candidates that edges led to."""
    hits = iter(annotate_hits([hit for section in sections for hit in section.hits], stores))
    return [replace(section, hits=tuple(next(hits) for _ in section.hits)) for section in sections]


def annotate_context(context: Context, stores: Stores) -> Context:
    """Set `via` on the hits of a context, shown or left out, without changing its text."""
    omitted = [entry.hit for entry in context.left_out]
    hits = iter(annotate_hits([*context.hits, *omitted], stores))
    fragments = [
        replace(fragment, chosen=tuple(replace(block, hit=next(hits)) for block in fragment.chosen))
        if fragment.chosen
        else fragment
        for fragment in context.fragments
    ]
    left_out = tuple(replace(entry, hit=next(hits)) for entry in context.left_out)
    return replace(context, fragments=tuple(fragments), left_out=left_out)


def annotate_hits(hits: Sequence[Hit], stores: Stores) -> list[Hit]:
    """Return the hits with their paths in words; items missing among them are read in one call."""
    items = {hit.item.key: hit.item for hit in hits}
    missing = sorted({key for hit in hits if hit.links for key in hit.path if key not in items})
    if missing:
        items |= {item.key: item for item in stores.items.get(missing)}
    return [replace(hit, via=describe_path(hit.links, items)) if hit.links else hit for hit in hits]


def describe_path(edges: Sequence[Edge], items: Mapping[Key, Item]) -> str:
    """Return `"Refund playbook" mentions "Chargeback"`.

    Each edge reads from source to target, in whichever direction it was followed.
    """
    return "; ".join(
        f"{_quote_title(edge.source_key, items)} {_phrase(edge.type)} "
        f"{_quote_title(edge.target_key, items)}"
        for edge in edges
    )


def _quote_title(key: Key, items: Mapping[Key, Item]) -> str:
    """Return the title as a JSON string: a quotation mark inside cannot be taken for its end."""
    title = collapse_whitespace(items[key].name) if key in items else ""
    title = title or collapse_whitespace(key[1])
    return encode_printable(title if len(title) <= MAX_TITLE else _shorten(title))


def _shorten(title: str) -> str:
    start = title[: MAX_TITLE + 1]
    return f"{start.rpartition(' ')[0] or start[:MAX_TITLE]} …"


def _phrase(type: str) -> str:
    if type in EDGE_PHRASES:
        return EDGE_PHRASES[type]
    if _PLAIN_TYPE.fullmatch(type):
        return type.replace("_", " ")
    return encode_printable(collapse_whitespace(type))
