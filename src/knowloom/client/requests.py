"""What a client sends: the arguments of a call as plain dicts, and the rows of files in parts that a server accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from knowloom import codec, tiers, validation
from knowloom.errors import Invalid
from knowloom.loading import readers
from knowloom.model import Edge, Key
from knowloom.options import (
    CONTEXT_OPTIONS,
    SEARCH_OPTIONS,
    check_option_names,
    parse_search_options,
)
from knowloom.recipes import RECIPES, Agent, Recipe
from knowloom.report import Skipped
from knowloom.wire.knowledge import edge_to_json, item_to_json

PART_ROWS, PART_BYTES = 500, 4_000_000  # of one request while loading
TIMES = ("as_of", "created_from", "created_to", "now")
NAME_LISTS = ("kinds", "types", "exclude_types", "tags")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Placed:
    """A row to send, and where it stood."""

    where: str
    row: Row
    layered: bool = False


class Rows:
    """What a source holds: `items` while they are read, then `edges`, both in parts; `skipped` is what cannot be sent."""

    def __init__(self, source: str | Path | Mapping[str, Any], space: str | None) -> None:
        self._rows = readers.rows(source, space)
        self._edges: list[Placed] = []
        self.skipped: list[Skipped] = []

    def items(self) -> Iterator[list[Placed]]:
        return _parts(self._items())

    def edges(self) -> Iterator[list[Placed]]:
        return _parts(self._edges)

    def _items(self) -> Iterator[Placed]:
        seen = readers.Seen()
        for row in self._rows:
            if isinstance(row, Skipped):
                self.skipped.append(row)
                continue
            found = readers.parsed(row)
            if isinstance(found, Skipped):
                self.skipped.append(found)
            elif isinstance(found, Edge):
                self._edges.append(Placed(row.where, edge_to_json(found), row.layered))
            elif seen.again(row, found):
                self.skipped.append(
                    Skipped(
                        row.where,
                        found.id,
                        f"the id {found.id!r} stands twice in space {found.space!r}",
                    )
                )
            else:
                yield Placed(row.where, item_to_json(found), row.layered)


def _parts(rows: Iterable[Placed]) -> Iterator[list[Placed]]:
    """Rows in parts that a server accepts in one request, those of layers apart from others."""
    part: list[Placed] = []
    size = 0
    for one in rows:
        if part and part[0].layered != one.layered:
            yield part
            part, size = [], 0
        part.append(one)
        size += len(codec.to_json(one.row).encode())
        if len(part) == PART_ROWS or size > PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def placed(skipped: Skipped, part: Sequence[Placed]) -> Skipped:
    """The server knows a row by its number in the request, the user by its place in a file."""
    found = re.search(r"\[([0-9]+)\]$", skipped.where)
    return replace(skipped, where=part[int(found[1])].where) if found else skipped


def options(options: Mapping[str, Any]) -> Row:
    check_option_names(options, CONTEXT_OPTIONS)
    if isinstance(options.get("agent"), Agent):
        options = {name: value for name, value in options.items() if name != "agent"} | _agent(
            options
        )
    given = {
        name: value
        for name, value in options.items()
        if name != "tier" and (name != "agent" or value is not None)
    }
    return (
        sendable(given)
        | tier(options.get("tier"))
        | ({"recipe": _recipes(options["recipe"])} if "recipe" in options else {})
    )


def search_options(arguments: Mapping[str, Any]) -> Row:
    parsed = parse_search_options(arguments)
    values = {name: getattr(parsed, name) for name in SEARCH_OPTIONS if name != "tier"}
    values |= {name: names(name, values[name]) for name in NAME_LISTS}
    return sendable(values) | tier(parsed.tier)


def tier(given: tiers.TierArgument) -> Row:
    """The tier a request asks for: found out here, held against that of the key there."""
    return {} if given is None else {"tier": tiers.resolve_tier(given).name}


def _agent(options: Mapping[str, Any]) -> Row:
    """An agent of the caller's own, as what it stands for."""
    if "recipe" in options:
        raise Invalid("give an agent or a recipe, not both: an agent has its recipes")
    agent: Agent = options["agent"]
    own: Row = {
        "recipe": list(agent.recipes),
        "max_tokens": agent.max_tokens,
        "format": agent.format,
    }
    return {name: options.get(name, value) for name, value in own.items()}


def _recipes(given: object) -> object:
    """A name, or recipes as plain dicts."""
    if isinstance(given, str):
        return given
    if (
        not given
        or not isinstance(given, list | tuple)
        or not all(isinstance(recipe, Recipe) for recipe in given)
    ):
        raise Invalid(
            f"a recipe is one of {', '.join(sorted(RECIPES))} or a list of Recipe values, not {given!r}"
        )
    return [asdict(recipe) for recipe in given]


def route(usual: str, more: str, asked: Row) -> str:
    """Where to ask: the usual route does not take what only programs send."""
    unusual = {"bm25_weight", "vector_weight", "vector"} & set(asked)
    return more if unusual or not isinstance(asked.get("recipe", ""), str) else usual


def sendable(options: Mapping[str, Any]) -> Row:
    """Times as text and a vector as plain numbers, each only if there is one."""
    plain = {name: value for name, value in options.items() if name not in (*TIMES, "vector")}
    times = {
        name: codec.time_to_text(validation.validate_time(name, options[name]))
        for name in TIMES
        if options.get(name) is not None
    }
    vector = options.get("vector")
    return plain | times | ({} if vector is None else {"vector": numbers(vector)})


def time(name: str, value: object) -> str | None:
    return None if value is None else codec.time_to_text(validation.validate_time(name, value))


def numbers(vector: Sequence[float]) -> list[float]:
    validation.validate_vector(vector)
    return [float(number) for number in vector]


def names(field: str, values: Sequence[str]) -> list[str]:
    return list(validation.validate_names(field, values))


def ids(given: str | Sequence[str]) -> list[str]:
    return names("ids", [given] if isinstance(given, str) else given)


def expected(expected: Mapping[Key, str] | None) -> list[Row]:
    return [
        {"space": space, "id": id, "version": version}
        for (space, id), version in (expected or {}).items()
    ]


def link(edge: Edge) -> Row:
    return {
        "source": edge.source,
        "target": edge.target,
        "type": edge.type,
        "space": edge.space,
        "target_space": edge.target_space,
    }
