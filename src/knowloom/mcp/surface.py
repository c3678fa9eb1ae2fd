"""The standing surface: what a client reads before the first question, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from knowloom import codec
from knowloom.errors import Invalid
from knowloom.tokens import get_counter
from knowloom.wire import JsonObject

MAX_SURFACE = 700  # tokens of cl100k_base
COUNTED_MODEL = "gpt-4"  # whose tokens are cl100k_base
MIN_BUDGET, MAX_BUDGET = 100, 100_000
MAX_RESULTS = 50
INSTRUCTIONS = "Stored knowledge. Call context first; read what it cites or points to."
PRIMER_URI = "knowloom://primer"
ITEM_URI = "knowloom://item/{space}/{id}"
PROMPT = "answer"
AGAIN = "again"  # the argument of `context` for connections that remember what they showed


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a tool. Numbers have bounds; the default is that of the tool."""

    type: str
    description: str = ""
    required: bool = False
    minimum: int = 0
    maximum: int = 0

    def to_schema(self) -> JsonObject:
        note = {"description": self.description} if self.description else {}
        return {"type": self.type} | note


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool: its description, its arguments, and what calling it does to the knowledge."""

    name: str
    description: str
    arguments: Mapping[str, Argument]
    writes: bool = False
    destroys: bool = False
    hints: JsonObject = field(default_factory=dict)

    def with_space(self, spaces: Sequence[str]) -> ToolSpec:
        """Return the tool with an argument `space`, unless there is only one to name."""
        if len(spaces) == 1:
            return self
        return replace(self, arguments={**self.arguments, "space": Argument("string")})

    def without(self, name: str) -> ToolSpec:
        """Return the tool without an argument."""
        rest = {key: value for key, value in self.arguments.items() if key != name}
        return replace(self, arguments=rest)

    def to_json(self) -> JsonObject:
        """Return the tool as the protocol lists it."""
        required = [name for name, argument in self.arguments.items() if argument.required]
        properties = {name: argument.to_schema() for name, argument in self.arguments.items()}
        schema = {"type": "object", "properties": properties, "required": required}
        row = {"name": self.name, "description": self.description, "inputSchema": schema}
        return row | {"annotations": self.annotations()}

    def annotations(self) -> JsonObject:
        """Return the hints; destructive and idempotent ones only mean something for writes."""
        if not self.writes:
            return {"readOnlyHint": True, "openWorldHint": False}
        # Storing the same memory again, and deleting it again, changes nothing.
        hints = {"destructiveHint": self.destroys, "idempotentHint": True}
        return {"readOnlyHint": False, **hints, "openWorldHint": False}

    def parse(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Validate the arguments of a call; raise Invalid for the first that is wrong."""
        for name in arguments:
            if name not in self.arguments:
                raise Invalid(f"unknown argument {name!r}; available: {', '.join(self.arguments)}")
        values: dict[str, Any] = {}
        for name, argument in self.arguments.items():
            value = arguments.get(name)
            if value is None and argument.required:
                raise Invalid(f"argument {name!r} is missing: it must be a {argument.type}")
            if value is not None:
                values[name] = _validate_value(name, value, argument)
        return values


TYPES: dict[str, type[Any]] = {"string": str, "integer": int, "boolean": bool, "array": list}


def _validate_value(name: str, value: Any, argument: Argument) -> Any:
    expected = TYPES[argument.type]
    if isinstance(value, float) and expected is int and value.is_integer():
        value = int(value)  # JSON does not distinguish 5 and 5.0
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is int):
        raise Invalid(f"{name} must be of type {argument.type}, got {_shorten(value)}")
    if expected is list and not all(isinstance(entry, str) for entry in value):
        raise Invalid(f"{name} must be a list of strings, got {_shorten(value)}")
    if argument.maximum and not argument.minimum <= value <= argument.maximum:
        low, high = argument.minimum, argument.maximum
        raise Invalid(f"{name} must be from {low} to {high}, got {_shorten(value)}")
    return value


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


_ID = Argument("string", required=True)
_BUDGET = Argument("integer", "max tokens, default 2000", minimum=MIN_BUDGET, maximum=MAX_BUDGET)
_LIMIT = Argument("integer", minimum=1, maximum=MAX_RESULTS)

TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        "context",
        "The knowledge that answers a question, with cited sources.",
        {
            "question": Argument("string", required=True),
            "budget": _BUDGET,
            AGAIN: Argument("boolean", "repeat what was shown before"),
        },
    ),
    ToolSpec(
        "search",
        "Find items by words and meaning: ids, titles, best passages.",
        {"query": Argument("string", required=True), "limit": _LIMIT},
    ),
    ToolSpec(
        "read",
        "Read an item by id or title, page by page.",
        {"id": _ID, "page": Argument("integer", minimum=1, maximum=1_000_000)},
    ),
    ToolSpec("related", "Items linked with an item, and why.", {"id": _ID, "limit": _LIMIT}),
    ToolSpec(
        "remember",
        "Store one fact, decision or preference for later conversations.",
        {
            "text": Argument("string", required=True),
            "replaces": Argument("string", "id of a memory that is outdated"),
            "pinned": Argument("boolean", "show it at the start of conversations"),
        },
        writes=True,
    ),
    ToolSpec("forget", "Delete a memory by id.", {"id": _ID}, writes=True, destroys=True),
)
_BY_NAME = {tool.name: tool for tool in TOOLS}


def list_tools(spaces: Sequence[str], *, read_only: bool, remembers: bool = True) -> list[ToolSpec]:
    """Return the tools of a connection that serves these spaces.

    One that does not remember what it showed cannot be asked to repeat it.
    """
    tools = [tool.with_space(spaces) for tool in TOOLS if not (tool.writes and read_only)]
    return tools if remembers else [tool.without(AGAIN) for tool in tools]


def describe_resources() -> list[JsonObject]:
    text = "profile, pinned memories and spaces, for the start of a conversation"
    return [{"uri": PRIMER_URI, "name": "primer", "description": text}]


def describe_templates() -> list[JsonObject]:
    return [{"uriTemplate": ITEM_URI, "name": "item"}]


def describe_prompts() -> list[JsonObject]:
    arguments = [{"name": "question", "required": True}]
    return [{"name": PROMPT, "description": "A question with its context", "arguments": arguments}]


@dataclass(frozen=True, slots=True)
class SurfaceCost:
    """Tokens of the surface by part, as compact JSON in cl100k_base."""

    parts: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.parts.values())


def measure_surface(spaces: Sequence[str], *, read_only: bool) -> SurfaceCost:
    """Count every name, description and schema that a client lists, annotations included."""
    count = get_counter(COUNTED_MODEL).count
    tools = list_tools(spaces, read_only=read_only)
    parts = {f"tool {tool.name}": count(codec.to_json(tool.to_json())) for tool in tools}
    parts["instructions"] = count(INSTRUCTIONS)
    rows = {
        "resources": [*describe_resources(), *describe_templates()],
        "prompts": describe_prompts(),
    }
    return SurfaceCost(parts | {name: count(codec.to_json(row)) for name, row in rows.items()})
