"""knowloom as a tool for Pydantic AI: the model asks in its own words and gets what fits the budget, the program gets the sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

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
    from pydantic_ai import Tool, ToolReturn
except ImportError as error:
    raise missing("pydantic-ai", error) from error


def pydantic_ai_tool(
    kb: Knowledge,
    *,
    spaces: Sequence[str],
    limit: int | None = None,
    name: str = NAME,
    description: str = DESCRIPTION,
    settings: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Tool[Any]:
    """A tool with one argument, the query. It gives a context of at most 2,000 tokens in Markdown, unless `max_tokens` and `format` say
    otherwise; its metadata, which the model does not see, are `sources`, `tokens`, `digest` and `degraded`. `settings` are those of `Tool`,
    such as `timeout` or `requires_approval`. An error of knowloom ends the run."""
    lookup = Lookup.of(kb, spaces, limit, TOOL | options)

    def asked(query: str) -> ToolReturn[str]:
        context = lookup.context(query)
        return ToolReturn(context.text, metadata=provenance(context))

    asked.__doc__ = (
        f"{description}\n\nArgs:\n    query: {QUERY}"  # Pydantic AI reads it, and tells the model
    )
    how: dict[str, Any] = {"takes_ctx": False, "docstring_format": "google"} | dict(settings or {})
    return Tool(asked, name=name, description=description, **how)
