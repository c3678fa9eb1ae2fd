"""A tool for Pydantic AI: contexts for the model, their sources for the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from knowloom.integrations.lookup import (
    DESCRIPTION,
    ITEM,
    NAME,
    PAGE,
    QUERY,
    READ_DESCRIPTION,
    READ_NAME,
    TOOL_DEFAULTS,
    ItemReader,
    KnowledgeBase,
    Lookup,
    LookupArguments,
    ReadableKnowledge,
    describe_sources,
    missing_extra,
)

try:
    from pydantic_ai import Tool, ToolReturn
except ImportError as error:
    raise missing_extra("pydantic-ai", error) from error


def pydantic_ai_tool(
    kb: KnowledgeBase,
    *,
    spaces: Sequence[str],
    limit: int | None = None,
    name: str = NAME,
    description: str = DESCRIPTION,
    settings: Mapping[str, Any] | None = None,
    **options: Unpack[LookupArguments],
) -> Tool[Any]:
    """Return a tool whose only argument is the query.

    It returns a context of at most 2,000 tokens in Markdown, unless `max_tokens` and `format` are
    set. Its metadata, which the model does not see, are `sources`, `tokens`, `digest` and
    `degraded`. `settings` are those of `Tool`, such as `timeout` or `requires_approval`. Errors end
    the run.
    """
    lookup = Lookup.create(kb, spaces, limit, TOOL_DEFAULTS | options)

    def look_up(query: str) -> ToolReturn[str]:
        context = lookup.context(query)
        return ToolReturn(context.text, metadata=describe_sources(context))

    # Pydantic AI passes it on to the model.
    look_up.__doc__ = f"{description}\n\nArgs:\n    query: {QUERY}"
    arguments: dict[str, Any] = {"takes_ctx": False, "docstring_format": "google"} | dict(
        settings or {}
    )
    return Tool(look_up, name=name, description=description, **arguments)


def pydantic_ai_read_tool(
    kb: ReadableKnowledge,
    *,
    spaces: Sequence[str],
    max_tokens: int = 2000,
    model: str = "gpt-4",
    name: str = READ_NAME,
    description: str = READ_DESCRIPTION,
    settings: Mapping[str, Any] | None = None,
) -> Tool[Any]:
    """Return a tool that reads an item by id, page by page.

    It goes with `pydantic_ai_tool`, whose contexts may show only a part of an item. A page has at
    most `max_tokens`, with a line about its place. The model gets a message about an unknown id.
    """
    reader = ItemReader(kb, spaces, max_tokens, model)

    def read_item(item: str, page: int = 1) -> str:
        return reader.read(item, page)

    # Pydantic AI passes it on to the model.
    read_item.__doc__ = f"{description}\n\nArgs:\n    item: {ITEM}\n    page: {PAGE}"
    arguments: dict[str, Any] = {"takes_ctx": False, "docstring_format": "google"}
    arguments |= dict(settings or {})
    return Tool(read_item, name=name, description=description, **arguments)
