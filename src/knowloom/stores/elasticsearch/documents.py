"""Documents of the index: an item with the classes of its terms, and its vectors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from knowloom.model import Filter, Item, Key
from knowloom.ports import IndexEntry
from knowloom.stores.elasticsearch.connection import Json
from knowloom.text.impact_classes import classify_terms
from knowloom.text.words import count_passage_terms


def document_id(key: Key) -> str:
    """Return the id of an item's document; those of the engine have at most 512 bytes."""
    return sha256(json.dumps(key).encode()).hexdigest()


def encode_entry(entry: IndexEntry) -> Json:
    """Return the document of an entry. An item of one passage has no nested one for its terms."""
    terms = classify_terms(count_passage_terms(entry.item, entry.passage_size))
    rows = [encode_terms(row) for row in terms.passages]
    is_short = len(rows) == 1
    return {
        **_filtered_fields(entry.item),
        "version": entry.version,
        "passage_count": len(rows),
        "length": terms.length,
        "terms": rows[0] if is_short else [],
        "whole": [] if is_short else encode_terms(terms.whole),
        "passages": [] if is_short else [{"terms": row} for row in rows],
    }


def encode_vectors(entry: IndexEntry) -> Json | None:
    """Return the document of an item's vectors; None if it has none."""
    if entry.vectors is None:
        return None
    rows = entry.vectors.astype(float).tolist()
    return {**_filtered_fields(entry.item), "vectors": [{"vector": row} for row in rows]}


def _filtered_fields(item: Item) -> Json:
    return {
        "space": item.space,
        "id": item.id,
        "kind": item.kind.value,
        "type": item.type,
        "tags": list(item.tags),
        "subject": [] if item.subject is None else [item.subject],
    }


def encode_terms(classes: Mapping[str, str]) -> list[str]:
    """Return each term alone, which counts texts, and with its class, which bounds its impact."""
    return [*classes, *(f"{term} {name}" for term, name in classes.items())]


def encode_filter(only: Filter) -> list[Json]:
    """Return the clauses of a filter that the index can apply; the truth applies the others."""
    clauses: list[Json] = [{"terms": {"space": list(only.spaces)}}]
    fields: Mapping[str, Sequence[str]] = {
        "kind": [kind.value for kind in only.kinds],
        "type": only.types,
        "tags": only.tags,
        "subject": only.subjects,
    }
    clauses += [{"terms": {name: list(values)}} for name, values in fields.items() if values]
    if only.exclude_types:
        excluded = {"terms": {"type": list(only.exclude_types)}}
        clauses.append({"bool": {"must_not": [excluded]}})
    return clauses


def decode_keys(hits: Iterable[Json]) -> tuple[Key, ...]:
    fields = (hit["fields"] for hit in hits)
    return tuple((field["space"][0], field["id"][0]) for field in fields)
