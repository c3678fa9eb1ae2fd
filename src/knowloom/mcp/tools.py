"""Tools: from the arguments of a call to a text for the model, within its budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from knowloom.context.item_pages import ItemPage
from knowloom.errors import Invalid
from knowloom.formats.runs import excerpt_runs
from knowloom.mcp.access import KnowledgeAccess
from knowloom.model import SHOWN_BEFORE, Context, Hit, Key, Problem
from knowloom.text.normalisation import collapse_whitespace
from knowloom.tokens import get_counter
from knowloom.wire import JsonObject

BUDGET = 2000  # tokens of an answer, unless the call names another
RESULTS = 10
PAGE_FRAME = 150  # tokens of a page's budget for its place, headings and notes
MAX_TITLE = 100  # characters
MAX_PASSAGE = 300
MAX_ATTEMPTS = 4
EMPTY = "Nothing stored answers this. Ask in other words, or try search."
CUT = "\n[…]"


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The text for the model, and ids, citations and counts for the program."""

    text: str
    data: JsonObject = field(default_factory=dict)


def build_context(access: KnowledgeAccess, arguments: Mapping[str, Any]) -> ToolAnswer:
    """Return the context of a question; notes about its quality count towards the budget."""
    budget = arguments.get("budget", BUDGET)
    spaces = access.choose(arguments.get("space"))
    count, room = get_counter(access.model).count, budget
    if access.shown is not None and arguments.get("again"):
        access.shown.clear()
    for _ in range(MAX_ATTEMPTS):
        context = access.context(arguments["question"], spaces, max_tokens=room)
        text = _frame_context(context)
        overrun = count(text) - budget
        if overrun <= 0:
            break
        room = max(0, room - overrun)
    if access.shown is not None:
        access.shown.add(context)
    return ToolAnswer(fit(text, budget, access.model), _describe_context(context, count(text)))


def _frame_context(context: Context) -> str:
    notes = [_format_problem(problem) for problem in context.degraded if _is_shown(problem)]
    return "\n\n".join([context.text or EMPTY, *notes])


def _is_shown(problem: Problem) -> bool:
    return problem.code not in ("no_results", "default_space") and problem.severity != "notice"


def _format_problem(problem: Problem) -> str:
    return f"(note: {problem.reason})"


def _describe_context(context: Context, tokens: int) -> JsonObject:
    citations = [
        {"number": citation.number, "id": citation.id, "space": citation.space}
        for citation in context.citations
    ]
    before = [
        chosen.hit.item.key
        for fragment in context.fragments
        if fragment.name == SHOWN_BEFORE
        for chosen in fragment.chosen
    ]
    row: JsonObject = {"citations": citations, "tokens": tokens, "digest": context.digest}
    return row | ({SHOWN_BEFORE: _keys_to_json(before)} if before else {})


def search(access: KnowledgeAccess, arguments: Mapping[str, Any]) -> ToolAnswer:
    spaces = access.choose(arguments.get("space"))
    hits = access.search(arguments["query"], spaces, arguments.get("limit", RESULTS))
    entries = [f"{_name(hit, spaces)}\n  {_excerpt(hit)}" for hit in hits]
    return _list_hits(access, hits, entries)


def related(access: KnowledgeAccess, arguments: Mapping[str, Any]) -> ToolAnswer:
    spaces = access.choose(arguments.get("space"))
    hits = access.related(arguments["id"], spaces, arguments.get("limit", RESULTS))
    entries = [f"{_name(hit, spaces)}\n  {hit.via}" for hit in hits]
    return _list_hits(access, hits, entries)


def _list_hits(access: KnowledgeAccess, hits: Sequence[Hit], entries: Sequence[str]) -> ToolAnswer:
    """Return as many entries as the budget holds, and say how many it does not."""
    count, shown = get_counter(access.model).count, len(entries)
    text = "\n".join(entries) or "No items."
    while shown and count(text) > BUDGET:
        shown -= 1
        text = "\n".join([*entries[:shown], f"({len(entries) - shown} more do not fit)"])
    keys = [hit.item.key for hit in hits[:shown]]
    return ToolAnswer(fit(text, BUDGET, access.model), {"items": _keys_to_json(keys)})


def _keys_to_json(keys: Iterable[Key]) -> list[JsonObject]:
    return [{"id": id, "space": space} for space, id in keys]


def _name(hit: Hit, spaces: Sequence[str]) -> str:
    """Return the id, with its space if there are several, and the title and type."""
    item = hit.item
    id = item.id if len(spaces) == 1 else f"{item.space}/{item.id}"
    title = shorten(collapse_whitespace(item.title), MAX_TITLE)
    type = f" ({collapse_whitespace(item.type)})" if item.type else ""
    return f"[{collapse_whitespace(id)}] {title}{type}".rstrip()


def _excerpt(hit: Hit) -> str:
    runs = excerpt_runs(hit, ()) if hit.passages else []
    text = " ".join(run.text for run in runs) or hit.item.text or hit.item.summary
    return shorten(collapse_whitespace(text), MAX_PASSAGE)


def read(access: KnowledgeAccess, arguments: Mapping[str, Any]) -> ToolAnswer:
    """Return a page of an item. Its size is constant, so that page numbers stay valid."""
    spaces = access.choose(arguments.get("space"))
    number = arguments.get("page", 1)
    page = access.read(arguments["id"], spaces, number, BUDGET - PAGE_FRAME)
    return ToolAnswer(format_page(page, access.model), describe_page(page))


def format_page(page: ItemPage, model: str, budget: int = BUDGET) -> str:
    headings = tuple(shorten(heading, MAX_TITLE) for heading in page.headings[-3:])
    title = shorten(collapse_whitespace(page.title), MAX_TITLE)
    return fit(str(replace(page, title=title, headings=headings)), budget, model)


def describe_page(page: ItemPage) -> JsonObject:
    numbers = {"page": page.page, "pages": page.pages, "tokens": page.tokens}
    return {"id": page.id, "space": page.space} | numbers


def remember(access: KnowledgeAccess, arguments: Mapping[str, Any]) -> ToolAnswer:
    if not arguments["text"].strip():
        raise Invalid("text must not be empty")
    space = access.choose_writable(arguments.get("space"))
    replaces, pinned = arguments.get("replaces"), arguments.get("pinned", False)
    id = access.remember(arguments["text"], space, replaces, pinned)
    return ToolAnswer(f"remembered as {id}", {"id": id, "space": space})


def forget(access: KnowledgeAccess, arguments: Mapping[str, Any]) -> ToolAnswer:
    space = access.choose_writable(arguments.get("space"))
    access.forget(arguments["id"], space)
    return ToolAnswer(f"forgot {shorten(arguments['id'], MAX_TITLE)}", {"id": arguments["id"]})


HANDLERS: dict[str, Callable[[KnowledgeAccess, Mapping[str, Any]], ToolAnswer]] = {
    "context": build_context,
    "search": search,
    "read": read,
    "related": related,
    "remember": remember,
    "forget": forget,
}


def shorten(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 2]} …"


def fit(text: str, budget: int, model: str) -> str:
    """Return the text, cut at a line or word where it exceeds the budget."""
    count = get_counter(model).count
    if count(text) <= budget:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle] + CUT) <= budget else (low, middle - 1)
    while low and count(text[:low].rstrip() + CUT) > budget:  # counts are not quite monotonic
        low -= 1
    return text[:low].rstrip() + CUT
