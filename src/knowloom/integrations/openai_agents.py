"""A tool for the OpenAI Agents SDK: contexts for the model, their sources for the program."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Unpack

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
    from agents import FunctionTool, function_tool
    from agents.tool import FunctionToolCustomDataContext
except ImportError as error:
    raise missing_extra("openai-agents", error) from error


class _Text(str):
    """The text for the model, with its sources for the program."""

    sources: Mapping[str, Any]


def openai_agents_tool(
    kb: KnowledgeBase,
    *,
    spaces: Sequence[str],
    limit: int | None = None,
    name: str = NAME,
    description: str = DESCRIPTION,
    settings: Mapping[str, Any] | None = None,
    **options: Unpack[LookupArguments],
) -> FunctionTool:
    """Return a function tool whose only argument is the query.

    It returns a context of at most 2,000 tokens in Markdown, unless `max_tokens` and `format` are
    set. The `custom_data` of its output, which the model does not see, are `sources`, `tokens`,
    `digest` and `degraded`. `settings` are those of `function_tool`, such as `timeout` or
    `needs_approval`. Errors end the run, unless the settings have a `failure_error_function`.
    """
    lookup = Lookup.create(kb, spaces, limit, TOOL_DEFAULTS | options)

    async def look_up(query: Annotated[str, QUERY]) -> str:
        context = await asyncio.to_thread(lookup.context, query)
        text = _Text(context.text)
        text.sources = describe_sources(context)
        return text

    arguments: dict[str, Any] = {
        "failure_error_function": None,
        "use_docstring_info": False,
        "custom_data_extractor": _custom_data,
    } | dict(settings or {})
    tool: FunctionTool = function_tool(
        look_up, name_override=name, description_override=description, **arguments
    )
    return tool


def openai_agents_read_tool(
    kb: ReadableKnowledge,
    *,
    spaces: Sequence[str],
    max_tokens: int = 2000,
    model: str = "gpt-4",
    name: str = READ_NAME,
    description: str = READ_DESCRIPTION,
    settings: Mapping[str, Any] | None = None,
) -> FunctionTool:
    """Return a function tool that reads an item by id, page by page.

    It goes with `openai_agents_tool`, whose contexts may show only a part of an item. A page has at
    most `max_tokens`, with a line about its place. The model gets a message about an unknown id.
    """
    reader = ItemReader(kb, spaces, max_tokens, model)

    async def read_item(item: Annotated[str, ITEM], page: Annotated[int, PAGE] = 1) -> str:
        return await asyncio.to_thread(reader.read, item, page)

    arguments: dict[str, Any] = {"failure_error_function": None, "use_docstring_info": False}
    tool: FunctionTool = function_tool(
        read_item,
        name_override=name,
        description_override=description,
        **arguments | dict(settings or {}),
    )
    return tool


def _custom_data(call: FunctionToolCustomDataContext) -> Mapping[str, Any] | None:
    """Return the sources of a context; None for an error message or a guardrail's output."""
    return call.output.sources if isinstance(call.output, _Text) else None
