"""The protocol server: requests of a client become calls in threads, and errors answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from knowloom import __version__
from knowloom.errors import Invalid, KnowloomError
from knowloom.mcp import surface
from knowloom.mcp.access import KnowledgeAccess
from knowloom.mcp.resources import MAX_VALUES, MEDIA_TYPE, complete_argument, read_resource
from knowloom.mcp.tools import BUDGET, HANDLERS, ToolAnswer, build_context, fit, shorten
from knowloom.tokens import get_counter

log = logging.getLogger(__name__)
T = TypeVar("T")

Request = ServerRequestContext[Any, Any]
AccessOpener = Callable[[Request], KnowledgeAccess]
PROMPT_TEXT = (
    "Answer the question from this context alone, and cite its sources as [1]. "
    "Say so if it does not hold the answer.\n\n{context}\n\nQuestion: {question}"
)
MAX_ERROR = 400  # tokens


class ThreadRunner(Protocol):
    """Runs a function in a thread, as `asyncio.to_thread` does."""

    def __call__(self, function: Callable[..., T], /, *arguments: Any) -> Awaitable[T]: ...


class KnowledgeProtocol:
    """The handlers of a server. Each request opens its access, as keys differ between requests."""

    def __init__(self, open_access: AccessOpener, run: ThreadRunner) -> None:
        self._open, self._run = open_access, run

    def create_server(self) -> Server[Any]:
        return Server(
            "knowloom",
            version=__version__,
            instructions=surface.INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
        )

    # Tools

    async def _list_tools(self, request: Request, params: object) -> types.ListToolsResult:
        tools = await self._run_guarded(lambda: _select_tools(self._open(request)))
        rows = [types.Tool.model_validate(tool.to_json()) for tool in tools.values()]
        return types.ListToolsResult(tools=rows)

    async def _call_tool(
        self, request: Request, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            answer = await self._run(self._run_tool, request, params)
        except KnowloomError as error:  # the model reads it, and can ask again
            return _tool_result(
                ToolAnswer(_describe_error(error), {"code": error.code}), is_error=True
            )
        return _tool_result(answer)

    def _run_tool(self, request: Request, params: types.CallToolRequestParams) -> ToolAnswer:
        access = self._open(request)
        tools = _select_tools(access)
        if params.name not in tools:
            names = ", ".join(tools)
            message = f"unknown tool {shorten(params.name, 100)!r}; available: {names}"
            raise MCPError(types.INVALID_PARAMS, message)
        arguments = tools[params.name].parse(params.arguments or {})
        return HANDLERS[params.name](access, arguments)

    # Resources

    async def _list_resources(self, request: Request, params: object) -> types.ListResourcesResult:
        rows = [types.Resource.model_validate(row) for row in surface.describe_resources()]
        return types.ListResourcesResult(resources=rows)

    async def _list_templates(
        self, request: Request, params: object
    ) -> types.ListResourceTemplatesResult:
        rows = [types.ResourceTemplate.model_validate(row) for row in surface.describe_templates()]
        return types.ListResourceTemplatesResult(resource_templates=rows)

    async def _read_resource(
        self, request: Request, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        text = await self._run_guarded(lambda: read_resource(self._open(request), uri))
        contents = types.TextResourceContents(uri=uri, mime_type=MEDIA_TYPE, text=text)
        return types.ReadResourceResult(contents=[contents])

    async def _complete(
        self, request: Request, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        ref, argument = params.ref, params.argument
        values: list[str] = []
        if isinstance(ref, types.ResourceTemplateReference) and ref.uri == surface.ITEM_URI:
            chosen = (params.context.arguments or {}) if params.context else {}
            values = await self._run_guarded(
                lambda: complete_argument(
                    self._open(request), argument.name, argument.value, chosen.get("space")
                )
            )
        completion = types.Completion(values=values, has_more=len(values) >= MAX_VALUES)
        return types.CompleteResult(completion=completion)

    # The prompt

    async def _list_prompts(self, request: Request, params: object) -> types.ListPromptsResult:
        rows = [types.Prompt.model_validate(row) for row in surface.describe_prompts()]
        return types.ListPromptsResult(prompts=rows)

    async def _get_prompt(
        self, request: Request, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        question = (params.arguments or {}).get("question", "")
        if params.name != surface.PROMPT or not question.strip():
            rule = f"the prompt is {surface.PROMPT!r} with a question"
            raise MCPError(types.INVALID_PARAMS, f"{rule}, got {shorten(params.name, 100)!r}")
        text = await self._run_guarded(lambda: build_prompt(self._open(request), question))
        content = types.TextContent(text=text)
        message = types.PromptMessage(role="user", content=content)
        return types.GetPromptResult(messages=[message])

    async def _run_guarded(self, function: Callable[[], T]) -> T:
        """Run a function whose errors are errors of the protocol."""
        try:
            return await self._run(function)
        except KnowloomError as error:
            code = types.INVALID_PARAMS if error.status < 500 else types.INTERNAL_ERROR
            raise MCPError(code, _describe_error(error)) from error


def build_prompt(access: KnowledgeAccess, question: str) -> str:
    """Return a question with its context, both within the budget."""
    frame = PROMPT_TEXT.format(context="", question=question)
    room = BUDGET - get_counter(access.model).count(frame)
    if room < surface.MIN_BUDGET:
        raise Invalid(f"the question is too long: it leaves {room} of {BUDGET} tokens")
    # A prompt begins a conversation: whatever was shown before is not part of it.
    fresh = replace(access, shown=None)
    answer = build_context(fresh, {"question": question, "budget": room})
    text = PROMPT_TEXT.format(context=answer.text, question=question)
    return fit(text, BUDGET, access.model)


def _select_tools(access: KnowledgeAccess) -> dict[str, surface.ToolSpec]:
    remembers = access.shown is not None
    spaces, read_only = access.list_spaces(), access.read_only
    tools = surface.list_tools(spaces, read_only=read_only, remembers=remembers)
    return {tool.name: tool for tool in tools}


def _describe_error(error: KnowloomError) -> str:
    log.info("request failed: %s", error.code)
    return fit(f"error: {error}", MAX_ERROR, surface.COUNTED_MODEL)


def _tool_result(answer: ToolAnswer, is_error: bool = False) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(text=answer.text)]
    return types.CallToolResult(content=content, structured_content=answer.data, is_error=is_error)
