"""What the adapters for agent frameworks share: one way to ask an engine or a client, and passages that say where they come from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, Self, TypedDict, runtime_checkable

from knowloom import validation
from knowloom.errors import Invalid, MissingExtra, unknown
from knowloom.model import Chosen, Context, Hit
from knowloom.recipes import Mode, Recipe
from knowloom.wire import encoding

log = logging.getLogger(__name__)

LIMIT = 10  # passages of a search that does not say how many

# What a model is told about a tool, and what a tool gives unless told otherwise.
NAME = "search_knowledge"
DESCRIPTION = "Look up what the organisation knows. Use it before answering a question about its rules, people, products, systems or data."
QUERY = "What you need to know, as a full question."
TOOL: dict[str, Any] = {"max_tokens": 2000, "format": "markdown"}


@runtime_checkable
class Knowledge(Protocol):
    """What an Engine and a Client have in common here."""

    @property
    def search(self) -> Callable[..., list[Hit]]: ...

    @property
    def context(self) -> Callable[..., Context]: ...


class Options(TypedDict, total=False):
    """What every adapter takes by these names; how many to look at has a name of its own in each framework."""

    max_tokens: int | None
    mode: Mode | None
    kinds: Sequence[str]
    types: Sequence[str]
    exclude_types: Sequence[str]
    tags: Sequence[str]
    min_score: float
    recipe: str | Sequence[Recipe]
    format: str
    model: str
    entity: str | None
    as_of: datetime | None
    now: datetime | None
    paths: bool


OPTIONS = tuple(Options.__annotations__)


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text for a framework. `key` is "space/id"; the metadata are plain values."""

    key: str
    text: str
    score: float
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lookup:
    """What an adapter remembers between questions. What does not restrict is not sent, so that the recipe decides."""

    kb: Knowledge
    spaces: Sequence[str]
    max_tokens: int | None = None
    limit: int | None = None
    mode: Mode | None = None
    kinds: Sequence[str] = ()
    types: Sequence[str] = ()
    exclude_types: Sequence[str] = ()
    tags: Sequence[str] = ()
    min_score: float = 0.0
    recipe: str | Sequence[Recipe] = "knowledge"
    format: str = "plain"
    model: str = "gpt-4"
    entity: str | None = None
    as_of: datetime | None = None
    now: datetime | None = None
    paths: bool = False

    def __post_init__(self) -> None:
        """What can be known to be wrong before the first question is refused at once."""
        if not isinstance(self.kb, Knowledge):
            raise Invalid(
                f"kb must be an engine (knowloom.open) or a knowloom.Client, not {self.kb!r}"
            )
        if not validation.names("spaces", self.spaces):
            raise Invalid("spaces must name at least one space, not []")

    @classmethod
    def of(
        cls, kb: Knowledge, spaces: Sequence[str], limit: int | None, options: Mapping[str, Any]
    ) -> Self:
        for name in options:
            if name not in OPTIONS:
                raise unknown("option", name, OPTIONS)
        return cls(kb, spaces, limit=limit, **options)

    def passages(self, query: str) -> list[Passage]:
        """Without `max_tokens` the best items, each as its title and text; with it the blocks of one context, which together fit the budget."""
        if self.max_tokens is None:
            hits = self.kb.search(
                query,
                limit=LIMIT if self.limit is None else self.limit,
                kinds=self.kinds,
                **self._filters(),
            )
            return [_passage(hit, _text(hit)) for hit in hits]
        context = self.context(query)
        return [
            _block(one, fragment.name, context)
            for fragment in context.fragments
            for one in fragment.chosen
        ]

    def context(self, query: str) -> Context:
        how = {
            "max_tokens": self.max_tokens,
            "recipe": self.recipe,
            "format": self.format,
            "model": self.model,
            "entity": self.entity,
        }
        narrower = {"limit": self.limit, "kinds": self.kinds or None, "paths": self.paths or None}
        context = self.kb.context(
            query,
            **how,
            **self._filters(),
            **{name: value for name, value in narrower.items() if value is not None},
        )
        for problem in context.degraded:
            log.warning("context %s: %s", problem.part, problem.reason)
        return context

    def _filters(self) -> dict[str, Any]:
        """What a search and a context both take."""
        given = {
            name: getattr(self, name)
            for name in ("mode", "types", "exclude_types", "tags", "min_score", "as_of", "now")
        }
        return {"spaces": self.spaces} | {name: value for name, value in given.items() if value}


def provenance(context: Context) -> dict[str, Any]:
    """What a context is made of, block by block, for the program that shows or logs where an answer came from."""
    sources = [
        _block(one, fragment.name, context).metadata
        for fragment in context.fragments
        for one in fragment.chosen
    ]
    return {
        "sources": sources,
        "tokens": context.tokens,
        "digest": context.digest,
        "degraded": [encoding.problem(one) for one in context.degraded],
    }


def missing(extra: str, error: ImportError) -> MissingExtra:
    return MissingExtra(
        f"a package that is not installed is needed ({error.name}): pip install 'knowloom[{extra}]'"
    )


def _block(one: Chosen, part: str, context: Context) -> Passage:
    return _passage(
        one.hit,
        one.text.strip("\n"),
        part=part,
        form=one.form.value,
        tokens=one.tokens,
        digest=context.digest,
    )


def _passage(hit: Hit, text: str, **more: object) -> Passage:
    item = hit.item
    said = {
        "id": item.id,
        "space": item.space,
        "kind": item.kind.value,
        "type": item.type,
        "title": item.title,
        "tags": list(item.tags),
        "source": item.source,
    }
    match = {
        "score": hit.score,
        "match_source": hit.match_source,
        "why": encoding.why(hit),
        "path": [f"{space}/{id}" for space, id in hit.path],
    }
    return Passage(f"{item.space}/{item.id}", text, hit.score, said | match | more)


def _text(hit: Hit) -> str:
    """What the item says; one that has only properties says those."""
    item = hit.item
    said = (
        item.text
        or item.summary
        or "\n".join(f"{name}: {value}" for name, value in item.properties.items())
    )
    return "\n\n".join(part for part in (item.title, said) if part)
