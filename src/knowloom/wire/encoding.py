"""Answers as plain dicts, the same for every surface: keys in snake_case, times in ISO 8601 with a Z, always in the same order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from knowloom import codec
from knowloom.model import (
    LINK,
    Chosen,
    Context,
    Edge,
    Fragment,
    Hit,
    Item,
    Key,
    LeftOut,
    Problem,
    Query,
    Stats,
)

if TYPE_CHECKING:
    from datetime import datetime

    from knowloom.engine import Statistics
    from knowloom.errors import KnowloomError
    from knowloom.history import Rollback, State
    from knowloom.recipes import Recipe
    from knowloom.report import Report, Skipped

Row = dict[str, Any]

INDEXES = {"bm25": "words", "vector": "meaning"}


def item(item: Item) -> Row:
    """Every field that says something; `kind` always."""
    row = codec.item_to_dict(item)
    if row.pop("numbered", False):
        row["id"] = int(item.id)
    return {"id": row.pop("id"), "space": row.pop("space"), "kind": item.kind.value} | {
        name: row[name] for name in row if name != "kind"
    }


def edge(edge: Edge) -> Row:
    return codec.edge_to_dict(edge)


def history(found: Sequence[State]) -> Row:
    return {"history": [_state(one) for one in found]}


def _state(state: State) -> Row:
    said = {
        "item": None if state.item is None else item(state.item),
        "edge": None if state.edge is None else edge(state.edge),
    }
    return {
        "number": state.number,
        "at": codec.time_to_text(state.at),
        "action": state.action,
        "version": state.version,
    } | said


def rollback(told: Rollback) -> Row:
    rows = [
        {"action": step.action, "space": step.space, "id": step.id}
        | ({} if step.edge is None else {"edge": edge(step.edge)})
        for step in told.steps
    ]
    done = {
        "to": codec.time_to_text(told.to),
        "dry_run": told.dry_run,
        "counts": steps(told),
        "steps": rows,
    }
    return done | {"skipped": [_skip(one) for one in told.skipped], "problems": list(told.problems)}


def steps(told: Rollback) -> dict[str, int]:
    """How many of each action."""
    return {action: told.count(action) for action in ("add", "update", "delete", "link", "unlink")}


def items(found: Sequence[Item], missing: Sequence[str]) -> Row:
    return {"items": [item(one) for one in found], "missing": list(missing)}


def hits(found: Sequence[Hit], notes: Sequence[str] = ()) -> Row:
    return {"hits": [{"item": item(one.item)} | match(one) for one in found], "notes": list(notes)}


def chosen(chosen: Chosen) -> Row:
    return (
        _named(chosen.hit.item)
        | {"form": chosen.form.value, "tokens": chosen.tokens, "text": chosen.text}
        | match(chosen.hit)
    )


def left_out(one: LeftOut) -> Row:
    said = {
        "fragment": one.fragment,
        "reason": one.reason,
        "remedy": one.remedy,
        "tokens": one.tokens,
    }
    return _named(one.hit.item) | said | match(one.hit)


def problem(problem: Problem) -> Row:
    return {"part": problem.part, "code": problem.code, "reason": problem.reason}


def stats(stats: Stats) -> Row:
    """What was counted. Timings are left out: they would make equal answers differ."""
    return {
        "searched": stats.searched,
        "expanded": stats.expanded,
        "max_depth": stats.max_depth,
        "candidates": stats.candidates,
        "token_counter": stats.token_counter,
        "optimality_gap": stats.optimality_gap,
    }


def context(context: Context) -> Row:
    return {
        "text": context.text,
        "tokens": context.tokens,
        "query": _query(context.query),
        "fragments": [fragment(one) for one in context.fragments],
        "left_out": [left_out(one) for one in context.left_out],
        "degraded": [problem(one) for one in context.degraded],
        "stats": stats(context.stats),
        "digest": context.digest,
        "items": [item(one) for one in _items(context)],
    }


def report(report: Report) -> Row:
    return {
        "added": report.added,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "removed": report.removed,
        "edges": report.edges,
        "skipped": [_skip(one) for one in report.skipped],
        "problems": list(report.problems),
    }


def _skip(one: Skipped) -> Row:
    return {"where": one.where, "what": one.what, "why": one.why}


def statistics(statistics: Statistics) -> Row:
    return {
        "spaces": [
            {one.name: getattr(space, one.name) for one in fields(space)}
            for space in statistics.spaces
        ],
        "embedder": statistics.embedder,
        "without_vector": statistics.without_vector,
        "cache_hits": statistics.cache_hits,
        "cache_misses": statistics.cache_misses,
        "disk_vectors": statistics.disk_vectors,
        "disk_hits": statistics.disk_hits,
        "cache_problem": statistics.cache_problem,
    }


def recipes(table: Mapping[str, Sequence[Recipe]]) -> Row:
    return {"recipes": [{"name": name, "parts": parts(table[name])} for name in sorted(table)]}


def parts(recipes: Sequence[Recipe]) -> list[Row]:
    return [_part(one) for one in recipes]


def error(error: KnowloomError) -> Row:
    return {"error": {"code": error.code, "message": str(error), "status": error.status}}


def why(hit: Hit) -> str:
    """What led to an item, in words: "found by words and meaning (bm25 .41, vector .63)"."""
    if hit.edge is not None and hit.found_by == LINK:
        return f"links {hit.edge.source} to {hit.edge.target} (weight {short(hit.edge.weight)})"
    if hit.via and hit.edge is not None:
        return f"{hit.via} (weight {short(hit.edge.weight)})"
    if hit.edge is not None and len(hit.path) > 1:
        verb = "linked from" if hit.item.key == hit.edge.target_key else "links to"
        return f"{verb} {hit.path[-2][1]} by {hit.edge.type} (weight {short(hit.edge.weight)})"
    if "key" in hit.found_by:
        return "its profile was asked for by id"
    if "name" in hit.found_by:
        return "called by its name"
    if "subject" in hit.found_by:
        return f"is about {hit.item.subject}"
    by = " and ".join(INDEXES.get(name, name) for name in hit.found_by)
    numbers = ", ".join(f"{name} {short(value)}" for name, value in hit.signals.items())
    return f"found by {by} ({numbers})" if by else ""


def short(number: float) -> str:
    """A number from 0 to 1 in three characters where possible: .41, 1.0."""
    return "1.0" if round(number, 2) >= 1 else f"{number:.2f}"[1:]


def match(hit: Hit) -> Row:
    return {
        "score": hit.score,
        "why": why(hit),
        "match_source": hit.match_source,
        "found_by": list(hit.found_by),
        "signals": dict(sorted(hit.signals.items())),
        "distance": hit.distance,
        "path": [_key(one) for one in hit.path],
        "edge": None if hit.edge is None else edge(hit.edge),
        **(
            {"links": [edge(one) for one in hit.links]}
            if hit.links != lone_link(hit.path, hit.edge)
            else {}
        ),
        **({"via": hit.via} if hit.via else {}),
    }


def lone_link(path: Sequence[object], edge: Edge | None) -> tuple[Edge, ...]:
    """The links of a path that has one: these are not told twice."""
    return (edge,) if edge is not None and len(path) > 1 else ()


def _named(item: Item) -> Row:
    return {
        "id": item.id,
        "space": item.space,
        "kind": item.kind.value,
        "type": item.type,
        "title": item.title,
        "section": item.section,
    }


def fragment(fragment: Fragment) -> Row:
    said = {
        "name": fragment.name,
        "tokens": fragment.tokens,
        "problem": fragment.problem,
        "text": fragment.text,
    }
    return said | {"chosen": [chosen(one) for one in fragment.chosen]}


def _items(context: Context) -> list[Item]:
    """Every item that is shown or left out, once, ordered by (space, id): the rest of the answer only names them."""
    found = {
        hit.item.key: hit.item for hit in (*context.hits, *(one.hit for one in context.left_out))
    }
    return [found[key] for key in sorted(found)]


def _query(query: Query) -> Row:
    return {
        "text": query.text,
        "spaces": list(query.spaces),
        "now": codec.time_to_text(query.now),
        "as_of": _time(query.as_of),
        "max_tokens": query.max_tokens,
        "format": query.format,
        "model": query.model,
        "entity": query.entity,
        "vector": list(query.vector),
        **({"paths": True} if query.paths else {}),
    }


def _part(recipe: Recipe) -> Row:
    return {
        "name": recipe.name,
        "source": recipe.source,
        "kinds": [kind.value for kind in recipe.kinds],
        "mode": recipe.mode,
        "limit": recipe.limit,
        "depth": recipe.depth,
        "share": recipe.share,
        "required": recipe.required,
    }


def _key(key: Key) -> Row:
    return {"space": key[0], "id": key[1]}


def _time(time: datetime | None) -> str | None:
    return None if time is None else codec.time_to_text(time)
