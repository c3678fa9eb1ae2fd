"""Hits, fragments, contexts, citations and queries as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from knowloom import codec
from knowloom.filters.condition_json import validate_where, where_to_json
from knowloom.model import (
    LINK,
    Chosen,
    Citation,
    Context,
    ContextFormat,
    Edge,
    Form,
    Fragment,
    Hit,
    Hits,
    Item,
    Key,
    LeftOut,
    Passage,
    Problem,
    Query,
    ScoredPassage,
    Stats,
)
from knowloom.wire import JsonObject
from knowloom.wire.knowledge import edge_from_json, edge_to_json, item_from_json, item_to_json
from knowloom.wire.turns import turns_from_json, turns_to_json

INDEX_LABELS = {"bm25": "words", "vector": "vectors"}


def hits_to_json(hits: Hits, notes: Sequence[str] = ()) -> JsonObject:
    rows = [
        {"item": item_to_json(hit.item), "passage": passage_to_json(hit.passage)}
        | match_to_json(hit)
        for hit in hits
    ]
    return {
        "hits": rows,
        "confidence": hits.confidence,
        "degraded": [problem_to_json(problem) for problem in hits.degraded],
        "notes": list(notes),
    }


def hits_from_json(row: JsonObject) -> Hits:
    hits = [hit_from_json(hit, item_from_json(hit["item"])) for hit in row["hits"]]
    return Hits(hits, row["confidence"], problems_from_json(row))


def match_to_json(hit: Hit) -> JsonObject:
    """Return the score of a hit and its reasons, without the item."""
    row: JsonObject = {
        "score": hit.score,
        "why": describe_match(hit),
        "match_source": hit.match_source,
        "found_by": list(hit.found_by),
        "signals": dict(sorted(hit.signals.items())),
        "distance": hit.distance,
        "path": [_key_to_json(key) for key in hit.path],
        "edge": None if hit.edge is None else edge_to_json(hit.edge),
    }
    if hit.links != _implied_links(hit.path, hit.edge):
        row["links"] = [edge_to_json(edge) for edge in hit.links]
    if hit.via:
        row["via"] = hit.via
    if hit.passages:
        row["passages"] = [_scored_passage_to_json(entry) for entry in hit.passages]
    return row


def hit_from_json(row: JsonObject, item: Item) -> Hit:
    path: Sequence[JsonObject] = row["path"]
    edge = None if row["edge"] is None else edge_from_json(row["edge"])
    return Hit(
        item=item,
        score=row["score"],
        signals=dict(row["signals"]),
        found_by=tuple(row["found_by"]),
        path=tuple(_key_from_json(key) for key in path),
        edge=edge,
        links=tuple(map(edge_from_json, row["links"]))
        if "links" in row
        else _implied_links(path, edge),
        via=row.get("via", ""),
        passages=tuple(map(_scored_passage_from_json, row.get("passages", ()))),
    )


def passage_to_json(passage: Passage) -> JsonObject:
    """Return the range of a passage and its headings; `inner` of them are written in it."""
    row: JsonObject = {
        "number": passage.number,
        "start": passage.start,
        "end": passage.end,
        "headings": list(passage.headings),
    }
    return row | ({"inner": passage.inner} if passage.inner else {})


def passage_from_json(row: JsonObject) -> Passage:
    headings = tuple(row["headings"])
    return Passage(row["number"], row["start"], row["end"], headings, row.get("inner", 0))


def _scored_passage_to_json(entry: ScoredPassage) -> JsonObject:
    row = passage_to_json(entry.passage) | {"score": entry.score}
    return row | ({"linked": True} if entry.linked else {})


def _scored_passage_from_json(row: JsonObject) -> ScoredPassage:
    return ScoredPassage(passage_from_json(row), row["score"], row.get("linked", False))


def _implied_links(path: Sequence[object], edge: Edge | None) -> tuple[Edge, ...]:
    """Return the links of a path whose last edge is the only one: they are not written again."""
    return (edge,) if edge is not None and len(path) > 1 else ()


def describe_match(hit: Hit) -> str:
    """Return the reason for a hit: "found by words and vectors (bm25 .41, vector .63)"."""
    if hit.edge is not None and hit.found_by == LINK:
        weight = format_score(hit.edge.weight)
        return f"links {hit.edge.source} to {hit.edge.target} (weight {weight})"
    if hit.via and hit.edge is not None:
        return f"{hit.via} (weight {format_score(hit.edge.weight)})"
    if hit.edge is not None and len(hit.path) > 1:
        verb = "linked from" if hit.item.key == hit.edge.target_key else "links to"
        weight = format_score(hit.edge.weight)
        return f"{verb} {hit.path[-2][1]} by {hit.edge.type} (weight {weight})"
    if "key" in hit.found_by:
        return "profile requested by id"
    if "name" in hit.found_by:
        return "named in the query"
    if "subject" in hit.found_by:
        return f"is about {hit.item.subject}"
    by = " and ".join(INDEX_LABELS.get(name, name) for name in hit.found_by)
    numbers = ", ".join(f"{name} {format_score(value)}" for name, value in hit.signals.items())
    return f"found by {by} ({numbers})" if by else ""


def format_score(number: float) -> str:
    """Return a number from 0 to 1 in three characters where possible: .41, 1.0."""
    return "1.0" if round(number, 2) >= 1 else f"{number:.2f}"[1:]


def context_to_json(context: Context) -> JsonObject:
    """Return the whole context; items are listed once and elsewhere referred to by key."""
    cited = {"citations": [citation_to_json(citation) for citation in context.citations]}
    return (
        (cited if context.query.citations else {})
        | {
            "text": context.text,
            "tokens": context.tokens,
            "query": _query_to_json(context.query) | turns_to_json(context.query, context.prefix),
            "fragments": [fragment_to_json(fragment) for fragment in context.fragments],
            "left_out": [left_out_to_json(omission) for omission in context.left_out],
            "degraded": [problem_to_json(problem) for problem in context.degraded],
            "confidence": context.confidence,
            "truncated": context.truncated,
            "stats": stats_to_json(context.stats),
            "digest": context.digest,
            "items": [item_to_json(item) for item in _items_of(context)],
        }
        | ({"prefix": context.prefix} if context.prefix else {})
    )


def context_from_json(row: JsonObject) -> Context:
    """Return the whole context; `timings_ms`, which a server adds, becomes its timings."""
    items = {item.key: item for item in map(item_from_json, row["items"])}
    return Context(
        text=row["text"],
        tokens=row["tokens"],
        query=_query_from_json(row["query"], row["text"][: row.get("prefix", 0)]),
        fragments=tuple(fragment_from_json(fragment, items) for fragment in row["fragments"]),
        left_out=tuple(
            left_out_from_json(omission, items[_key_from_json(omission)])
            for omission in row["left_out"]
        ),
        degraded=problems_from_json(row),
        digest=row["digest"],
        stats=stats_from_json(row),
        citations=tuple(map(_citation_from_json, row.get("citations", ()))),
        confidence=row["confidence"],
        prefix=row.get("prefix", 0),
    )


def citation_to_json(citation: Citation) -> JsonObject:
    """Return a citation; the ranges of an excerpt are `passages`."""
    row: JsonObject = {
        "number": citation.number,
        "space": citation.space,
        "id": citation.id,
        "title": citation.title,
        "source": citation.source,
    }
    if citation.url:
        row["url"] = citation.url
    if citation.passages:
        row["passages"] = [passage_to_json(passage) for passage in citation.passages]
    return row


def _citation_from_json(row: JsonObject) -> Citation:
    return Citation(
        row["number"],
        row["space"],
        row["id"],
        row["title"],
        row["source"],
        row.get("url", ""),
        tuple(map(passage_from_json, row.get("passages", ()))),
    )


def _items_of(context: Context) -> list[Item]:
    """Return every item that is shown or left out, once, ordered by (space, id)."""
    hits = (*context.hits, *(omission.hit for omission in context.left_out))
    items = {hit.item.key: hit.item for hit in hits}
    return [items[key] for key in sorted(items)]


def fragment_to_json(fragment: Fragment) -> JsonObject:
    return {
        "name": fragment.name,
        "tokens": fragment.tokens,
        "problem": fragment.problem,
        "text": fragment.text,
        "chosen": [_chosen_to_json(chosen) for chosen in fragment.chosen],
    }


def fragment_from_json(row: JsonObject, items: Mapping[Key, Item]) -> Fragment:
    chosen = tuple(
        Chosen(
            hit_from_json(entry, items[_key_from_json(entry)]),
            Form(entry["form"]),
            entry["tokens"],
            entry["text"],
            tuple(map(passage_from_json, entry.get("shown", ()))),
        )
        for entry in row["chosen"]
    )
    return Fragment(row["name"], chosen, row["tokens"], row["text"], row["problem"])


def _chosen_to_json(chosen: Chosen) -> JsonObject:
    shown: JsonObject = {"form": chosen.form.value, "tokens": chosen.tokens, "text": chosen.text}
    if chosen.passages:
        shown["shown"] = [passage_to_json(passage) for passage in chosen.passages]
    return _item_reference(chosen.hit.item) | shown | match_to_json(chosen.hit)


def left_out_to_json(omission: LeftOut) -> JsonObject:
    return (
        _item_reference(omission.hit.item)
        | {
            "fragment": omission.fragment,
            "reason": omission.reason,
            "remedy": omission.remedy,
            "tokens": omission.tokens,
        }
        | match_to_json(omission.hit)
    )


def left_out_from_json(row: JsonObject, item: Item) -> LeftOut:
    return LeftOut(
        hit_from_json(row, item), row["fragment"], row["reason"], row["tokens"], row["remedy"]
    )


def _item_reference(item: Item) -> JsonObject:
    return {
        "id": item.id,
        "space": item.space,
        "kind": item.kind.value,
        "type": item.type,
        "title": item.title,
        "section": item.section,
    }


def problem_to_json(problem: Problem) -> JsonObject:
    return {
        "part": problem.part,
        "code": problem.code,
        "severity": problem.severity.value,
        "reason": problem.reason,
    }


def problems_from_json(row: JsonObject) -> tuple[Problem, ...]:
    return tuple(
        Problem(problem["part"], problem["reason"], problem["code"]) for problem in row["degraded"]
    )


def stats_to_json(stats: Stats) -> JsonObject:
    """Return the counts. Timings are left out: they would make equal contexts differ."""
    return {
        "searched": stats.searched,
        "expanded": stats.expanded,
        "max_depth": stats.max_depth,
        "matched": stats.matched,
        "candidates": stats.candidates,
        "token_counter": stats.token_counter,
        "optimality_gap": stats.optimality_gap,
    }


def stats_from_json(row: JsonObject) -> Stats:
    return Stats(**row["stats"], timings=dict(row.get("timings_ms", {})))


def timings_to_json(timings: Mapping[str, float]) -> dict[str, float]:
    """Return milliseconds by stage, rounded to microseconds."""
    return {name: round(value, 3) for name, value in timings.items()}


def _query_to_json(query: Query) -> JsonObject:
    return {
        "text": query.text,
        "spaces": list(query.spaces),
        "now": codec.time_to_text(query.now),
        "as_of": None if query.as_of is None else codec.time_to_text(query.as_of),
        "max_tokens": query.max_tokens,
        "format": format_to_json(query.format),
        "model": query.model,
        "entity": query.entity,
        "vector": list(query.vector),
        **({"paths": True} if query.paths else {}),
        **({"citations": True} if query.citations else {}),
        **({"fence": True} if query.fence else {}),
        **({"where": where_to_json(query.where)} if query.where else {}),
        **({"min_answer_confidence": minimum} if (minimum := query.min_answer_confidence) else {}),
    }


def _query_from_json(row: JsonObject, prefix: str) -> Query:
    return Query(
        text=row["text"],
        spaces=tuple(row["spaces"]),
        now=codec.text_to_time(row["now"]),
        max_tokens=row["max_tokens"],
        format=format_from_json(row["format"]),
        model=row["model"],
        entity=row["entity"],
        as_of=None if row["as_of"] is None else codec.text_to_time(row["as_of"]),
        vector=tuple(row["vector"]),
        paths=row.get("paths", False),
        citations=row.get("citations", False),
        fence=row.get("fence", False),
        min_answer_confidence=row.get("min_answer_confidence", 0.0),
        where=validate_where(row.get("where")),
        **turns_from_json(row, prefix),
    )


def format_to_json(format: str | ContextFormat) -> str | JsonObject:
    return asdict(format) if isinstance(format, ContextFormat) else format


def format_from_json(row: str | JsonObject) -> str | ContextFormat:
    return row if isinstance(row, str) else ContextFormat(**row)


def _key_to_json(key: Key) -> JsonObject:
    return {"space": key[0], "id": key[1]}


def _key_from_json(row: JsonObject) -> Key:
    return (row["space"], row["id"])
