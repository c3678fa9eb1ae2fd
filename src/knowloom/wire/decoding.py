"""Answers back from plain dicts to values: the inverse of `wire`. The dicts are trusted to be what `wire` made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from knowloom import codec, validation
from knowloom.engine import Statistics
from knowloom.errors import Invalid, unknown
from knowloom.history import Rollback, State, Step
from knowloom.model import (
    Chosen,
    Context,
    Edge,
    Form,
    Fragment,
    Hit,
    Item,
    Key,
    LeftOut,
    Problem,
    Query,
    SpaceInfo,
    Stats,
)
from knowloom.recipes import Recipe, Walk, Weights
from knowloom.report import Report, Skipped
from knowloom.wire.encoding import lone_link

Row = Mapping[str, Any]
Items = Mapping[Key, Item]


def item(row: Row) -> Item:
    """A whole number as the id is how `wire` says that an item is numbered."""
    values = {name: value for name, value in row.items() if name != "version"}
    return codec.item_from_dict(
        values | {"id": str(row["id"]), "numbered": isinstance(row["id"], int)}
    )


def edge(row: Row) -> Edge:
    return codec.edge_from_dict(row)


def hits(row: Row) -> list[Hit]:
    return [hit(one, item(one["item"])) for one in row["hits"]]


def context(row: Row) -> Context:
    """The whole context; `timings_ms`, which a server adds, become its timings."""
    items = {one.key: one for one in map(item, row["items"])}
    return Context(
        text=row["text"],
        tokens=row["tokens"],
        query=_query(row["query"]),
        fragments=tuple(fragment(one, items) for one in row["fragments"]),
        left_out=tuple(_left_out(one, items) for one in row["left_out"]),
        degraded=tuple(Problem(one["part"], one["reason"], one["code"]) for one in row["degraded"]),
        digest=row["digest"],
        stats=Stats(**row["stats"], timings=dict(row.get("timings_ms", {}))),
    )


def report(row: Row) -> Report:
    return Report(
        row["added"],
        row["updated"],
        row["unchanged"],
        row["edges"],
        _skipped(row),
        tuple(row["problems"]),
        row["removed"],
    )


def history(row: Row) -> list[State]:
    return [_state(one) for one in row["history"]]


def _state(row: Row) -> State:
    said = (
        None if row["item"] is None else item(row["item"]),
        None if row["edge"] is None else edge(row["edge"]),
    )
    return State(row["number"], codec.text_to_time(row["at"]), row["action"], *said, row["version"])


def rollback(row: Row) -> Rollback:
    steps = (
        Step(one["action"], one["space"], one["id"], edge(one["edge"]) if "edge" in one else None)
        for one in row["steps"]
    )
    return Rollback(
        codec.text_to_time(row["to"]),
        row["dry_run"],
        tuple(steps),
        _skipped(row),
        tuple(row["problems"]),
    )


def _skipped(row: Row) -> tuple[Skipped, ...]:
    return tuple(Skipped(one["where"], one["what"], one["why"]) for one in row["skipped"])


def statistics(row: Row) -> Statistics:
    spaces = tuple(SpaceInfo(**_known(one, SpaceInfo)) for one in row["spaces"])
    cache = (
        row["cache_hits"],
        row["cache_misses"],
        row.get("disk_vectors", 0),
        row.get("disk_hits", 0),
        row.get("cache_problem", ""),
    )
    return Statistics(spaces, row["embedder"], row["without_vector"], *cache)


def recipe(row: Row) -> Recipe:
    """The one that `wire` does not write as it is: programs send it, so it is not trusted. The engine checks its numbers and names."""
    values = _known(row, Recipe) | {
        "weights": Weights(**_known(row.get("weights", {}), Weights)),
        "walk": Walk(**_known(row.get("walk", {}), Walk)),
    }
    if "name" not in values:
        raise Invalid("a recipe needs a name")
    for name in ("kinds", "types", "exclude_types", "tags", "edge_types", "forms"):
        if name in values:
            values[name] = validation.names(name, values[name])
    for form in values.get("forms", ()):
        if form not in [known.value for known in Form]:
            raise unknown("form", form, [known.value for known in Form])
    return Recipe(
        **values
        | ({"forms": tuple(Form(one) for one in values["forms"])} if "forms" in values else {})
    )


def _known(
    row: object, kind: type[Recipe] | type[Weights] | type[Walk] | type[SpaceInfo]
) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise Invalid(f"{kind.__name__.lower()} must be an object, not {type(row).__name__}")
    names = [one.name for one in fields(kind)]
    for name in row:
        if name not in names:
            raise unknown(f"field of a {kind.__name__}", name, names)
    return dict(row)


def fragment(row: Row, items: Items) -> Fragment:
    chosen = tuple(
        Chosen(_named(one, items), Form(one["form"]), one["tokens"], one["text"])
        for one in row["chosen"]
    )
    return Fragment(row["name"], chosen, row["tokens"], row["text"], row["problem"])


def _left_out(row: Row, items: Items) -> LeftOut:
    return LeftOut(_named(row, items), row["fragment"], row["reason"], row["tokens"], row["remedy"])


def _named(row: Row, items: Items) -> Hit:
    return hit(row, items[_key(row)])


def hit(row: Row, item: Item) -> Hit:
    path: Sequence[Row] = row["path"]
    last = None if row["edge"] is None else edge(row["edge"])
    return Hit(
        item=item,
        score=row["score"],
        signals=dict(row["signals"]),
        found_by=tuple(row["found_by"]),
        path=tuple(_key(one) for one in path),
        edge=last,
        links=tuple(edge(one) for one in row["links"]) if "links" in row else lone_link(path, last),
        via=row.get("via", ""),
    )


def _query(row: Row) -> Query:
    return Query(
        text=row["text"],
        spaces=tuple(row["spaces"]),
        now=codec.text_to_time(row["now"]),
        max_tokens=row["max_tokens"],
        format=row["format"],
        model=row["model"],
        entity=row["entity"],
        as_of=None if row["as_of"] is None else codec.text_to_time(row["as_of"]),
        vector=tuple(row["vector"]),
        paths=row.get("paths", False),
    )


def _key(row: Row) -> Key:
    return (row["space"], row["id"])
