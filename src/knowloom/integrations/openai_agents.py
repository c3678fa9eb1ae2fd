"""knowloom as a tool for the OpenAI Agents SDK: the model asks in its own words and gets what fits the budget, the program gets the sources."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Unpack

from knowloom.integrations.lookup import (
    DESCRIPTION,
    NAME,
    QUERY,
    TOOL,
    Knowledge,
    Lookup,
    Options,
    missing,
    provenance,
)

try:
    from agents import FunctionTool, function_tool
    from agents.tool import FunctionToolCustomDataContext
except ImportError as error:
    raise missing("openai-agents", error) from error


class _Text(str):
    """The text that the model gets, with what the program may know about it."""

    provenance: Mapping[str, Any]


def openai_agents_tool(
    kb: Knowledge,
    *,
    spaces: Sequence[str],
    limit: int | None = None,
    name: str = NAME,
    description: str = DESCRIPTION,
    settings: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> FunctionTool:
    """A function tool with one argument, the query. It gives a context of at most 2,000 tokens in Markdown, unless `max_tokens` and
    `format` say otherwise; the `custom_data` of its output, which the model does not see, are `sources`, `tokens`, `digest` and `degraded`. `settings`
    are those of `function_tool`, such as `timeout` or `needs_approval`. An error of knowloom ends the run; with a `failure_error_function` among the
    settings the model is told instead."""
    lookup = Lookup.of(kb, spaces, limit, TOOL | options)

    async def asked(query: Annotated[str, QUERY]) -> str:
        context = await asyncio.to_thread(lookup.context, query)
        text = _Text(context.text)
        text.provenance = provenance(context)
        return text

    how: dict[str, Any] = {
        "failure_error_function": None,
        "use_docstring_info": False,
        "custom_data_extractor": _custom_data,
    } | dict(settings or {})
    made: FunctionTool = function_tool(
        asked, name_override=name, description_override=description, **how
    )
    return made


def _custom_data(call: FunctionToolCustomDataContext) -> Mapping[str, Any] | None:
    """Nothing for what is not a context: a message about an error, or what a guardrail put in its place."""
    return call.output.provenance if isinstance(call.output, _Text) else None
