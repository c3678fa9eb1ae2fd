"""Resources: items by URI, their completion, and the primer for the start of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import parse_qs, quote, unquote, urlsplit

from knowloom.capabilities.memory.model import PINNED
from knowloom.errors import NotFound
from knowloom.mcp.access import KnowledgeAccess
from knowloom.mcp.surface import ITEM_URI, PRIMER_URI
from knowloom.mcp.tools import BUDGET, MAX_PASSAGE, PAGE_FRAME, fit, format_page, shorten
from knowloom.model import Item, Kind
from knowloom.retrieval.sources import GLOBAL_PROFILE
from knowloom.text.normalisation import collapse_whitespace
from knowloom.tokens import get_counter

PRIMER_BUDGET = 800  # tokens
MAX_PRIMER_ITEMS = 50  # pinned memories
MAX_VALUES = 100  # of a completion, by the protocol
MEDIA_TYPE = "text/markdown"


def item_uri(space: str, id: str) -> str:
    return ITEM_URI.format(space=quote(space, safe=""), id=quote(id, safe=""))


def read_resource(access: KnowledgeAccess, uri: str) -> str:
    """Return the primer, or a page of an item: `?page=2` continues it."""
    if uri == PRIMER_URI:
        return build_primer(access)
    parts = urlsplit(uri)
    names = [unquote(name) for name in parts.path.strip("/").split("/")]
    if (parts.scheme, parts.netloc) != ("knowloom", "item") or len(names) != 2:
        raise NotFound(f"no resource {shorten(uri, 200)!r}; available: {PRIMER_URI}, {ITEM_URI}")
    number = parse_qs(parts.query).get("page", ["1"])[0]
    if not number.isdecimal() or not 1 <= int(number[:9]) <= 1_000_000:
        raise NotFound(f"page must be a number from 1, got {shorten(number, 50)!r}")
    space, id = names
    page = access.read(id, access.choose(space), int(number), BUDGET - PAGE_FRAME)
    return format_page(page, access.model)


def build_primer(access: KnowledgeAccess) -> str:
    """Return profile, pinned memories and spaces; what exceeds the budget is left out by name."""
    counts = access.count_items()
    spaces = list(counts)
    sizes = [f"- {name}: {items:,} items" for name, items in counts.items()]
    sections = {
        "Spaces": sizes,
        "Pinned memories": _list_pinned(access, spaces) if spaces else [],
        "Profile": _list_profiles(access, spaces) if spaces else [],
    }
    count, lines = get_counter(access.model).count, ["# What is stored"]
    for title, entries in sections.items():
        head = [f"\n## {title}"]
        for number, entry in enumerate(entries):
            more = f"({len(entries) - number} more)"
            if count("\n".join([*lines, *head, entry, more])) > PRIMER_BUDGET:
                lines += [*head, more]
                head = []
                break
            lines += [*head, entry]
            head = []
    return fit("\n".join(lines), PRIMER_BUDGET, access.model)


def _list_pinned(access: KnowledgeAccess, spaces: Sequence[str]) -> list[str]:
    pinned = {"$tags": {"$any": [PINNED]}}
    items = access.items(spaces, kinds=[Kind.MEMORY], where=pinned, limit=MAX_PRIMER_ITEMS)
    return _format_items(items)


def _list_profiles(access: KnowledgeAccess, spaces: Sequence[str]) -> list[str]:
    """Return the profile that applies to all; those of persons are found by questions."""
    profiles = access.items(spaces, kinds=[Kind.PROFILE])
    return _format_items(item for item in profiles if item.id == GLOBAL_PROFILE)


def _format_items(items: Iterable[Item]) -> list[str]:
    """Return one line for each item: its title, its text and its properties."""
    lines = []
    for item in items:
        facts = [f"{name}: {value}" for name, value in item.shown_properties.items()]
        parts = [item.title, item.text or item.summary, ", ".join(facts)]
        text = collapse_whitespace(". ".join(part for part in parts if part))
        lines.append(f"- {shorten(text or item.id, MAX_PASSAGE)}")
    return lines


def complete_argument(
    access: KnowledgeAccess, name: str, value: str, space: str | None
) -> list[str]:
    """Return values of a template's argument that begin with the text, at most 100."""
    if name == "space":
        return [name for name in access.list_spaces() if name.startswith(value)][:MAX_VALUES]
    if name != "id" or not access.list_spaces():
        return []
    ids: list[str] = []
    for served in access.choose(space or None):
        page = access.items([served], limit=MAX_VALUES, after=(served, value))
        ids += [item.id for item in access.kb.get(value, space=served)] if value else []
        ids += [item.id for item in page if item.id.startswith(value)]
    return list(dict.fromkeys(ids))[:MAX_VALUES]
