"""The way to an item in words: which links led to it, by the titles of the items on the way."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from knowloom.context.packing import SectionCandidates
from knowloom.model import Context, Edge, Hit, Item, Key
from knowloom.ports import Stores
from knowloom.text.normalisation import collapse_whitespace

MAX_TITLE = (
    100  # characters of a title; longer ones end behind a word, with a sign that there is more
)
EDGE_PHRASES = {  # by the type of a link, what stands between the titles of its source and its target
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

_PLAIN = re.compile(r"[^\W_][\w .-]*")
_HIDDEN = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_quoted = json.JSONEncoder(
    ensure_ascii=False
).encode  # a quotation mark inside cannot be taken for the end


def annotate_paths(parts: Sequence[SectionCandidates], stores: Stores) -> list[SectionCandidates]:
    """The same candidates; those that links led to say by which."""
    hits = iter(annotate_hits([hit for part in parts for hit in part.hits], stores))
    return [replace(part, hits=tuple(next(hits) for _ in part.hits)) for part in parts]


def annotate_context(context: Context, stores: Stores) -> Context:
    """The same context, whose text stays as it is: what links led to says by which, shown or left out."""
    hits = iter(annotate_hits([*context.hits, *(one.hit for one in context.left_out)], stores))
    fragments = [
        replace(fragment, chosen=tuple(replace(one, hit=next(hits)) for one in fragment.chosen))
        if fragment.chosen
        else fragment
        for fragment in context.fragments
    ]
    return replace(
        context,
        fragments=tuple(fragments),
        left_out=tuple(replace(one, hit=next(hits)) for one in context.left_out),
    )


def annotate_hits(hits: Sequence[Hit], stores: Stores) -> list[Hit]:
    """The hits in the same order, each with its path in words. Items on the way that are not among them are read in one call."""
    items = {hit.item.key: hit.item for hit in hits}
    absent = sorted({key for hit in hits if hit.links for key in hit.path if key not in items})
    items |= {item.key: item for item in (stores.items.get(absent) if absent else ())}
    return [replace(hit, via=describe_path(hit.links, items)) if hit.links else hit for hit in hits]


def describe_path(links: Sequence[Edge], items: Mapping[Key, Item]) -> str:
    """`"Refund playbook" mentions "Chargeback"`; each link as it is stored, whichever way it was followed."""
    return "; ".join(
        f"{_name(edge.source_key, items)} {_verb(edge.type)} {_name(edge.target_key, items)}"
        for edge in links
    )


def _name(key: Key, items: Mapping[Key, Item]) -> str:
    title = collapse_whitespace(items[key].name if key in items else key[1]) or collapse_whitespace(
        key[1]
    )
    return _HIDDEN.sub(_escape, _quoted(title if len(title) <= MAX_TITLE else _shorten(title)))


def _shorten(title: str) -> str:
    start = title[: MAX_TITLE + 1]
    return f"{start.rpartition(' ')[0] or start[:MAX_TITLE]} …"


def _verb(type: str) -> str:
    return EDGE_PHRASES.get(type) or (
        type.replace("_", " ")
        if _PLAIN.fullmatch(type)
        else _HIDDEN.sub(_escape, _quoted(collapse_whitespace(type)))
    )


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
