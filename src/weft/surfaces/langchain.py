"""weft as a LangChain retriever: what a chain gets is what fits the budget, each piece with the reason why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from weft.errors import MissingExtra
from weft.model import Chosen, Context, Hit
from weft.recipes import Mode

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise MissingExtra(f"a package that is not installed is needed ({error.name}): pip install 'weft[langchain]'") from error

K = 10  # documents of a search that does not say how many


@runtime_checkable
class Knowledge(Protocol):
    """What an Engine and a Client have in common here."""

    @property
    def search(self) -> Callable[..., list[Hit]]: ...

    @property
    def context(self) -> Callable[..., Context]: ...


class WeftRetriever(BaseRetriever):
    """Without `max_tokens`: the `k` best items, each as its title and text. With it: the blocks of one context, which together fit
    the budget; `recipe`, `format`, `model` and `entity` are those of the context, and `k` is the most candidates to look at."""

    kb: Knowledge
    spaces: list[str]
    max_tokens: int | None = None
    k: int | None = None
    mode: Mode = "hybrid"
    kinds: list[str] = []  # noqa: RUF012 (a field of Pydantic, copied for each instance)
    types: list[str] = []  # noqa: RUF012
    exclude_types: list[str] = []  # noqa: RUF012
    tags: list[str] = []  # noqa: RUF012
    min_score: float = 0.0
    recipe: str = "knowledge"
    format: str = "plain"
    model: str = "gpt-4"
    entity: str | None = None
    as_of: datetime | None = None
    now: datetime | None = None

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self._found(query)

    async def _aget_relevant_documents(self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun) -> list[Document]:
        return await asyncio.to_thread(self._found, query)

    def _found(self, query: str) -> list[Document]:
        if self.max_tokens is None:
            return [_document(hit, _text(hit)) for hit in self.kb.search(query, limit=self.k or K, kinds=self.kinds, **self._filters())]
        budget = {"max_tokens": self.max_tokens, "recipe": self.recipe, "format": self.format, "model": self.model, "entity": self.entity}
        narrower = {"limit": self.k, "kinds": self.kinds or None}
        context = self.kb.context(query, **budget, **self._filters(), **{name: value for name, value in narrower.items() if value is not None})
        return [_block(one, fragment.name, context) for fragment in context.fragments for one in fragment.chosen]

    def _filters(self) -> dict[str, Any]:
        """What a search and a context both take; what does not restrict is left out, so that the recipe decides."""
        given = {name: getattr(self, name) for name in ("types", "exclude_types", "tags", "min_score", "as_of", "now")}
        return {"spaces": self.spaces, "mode": self.mode} | {name: value for name, value in given.items() if value}


def _block(one: Chosen, part: str, context: Context) -> Document:
    return _document(one.hit, one.text.strip("\n"), part=part, form=one.form.value, tokens=one.tokens, digest=context.digest)


def _document(hit: Hit, text: str, **more: object) -> Document:
    item = hit.item
    said = {"id": item.id, "space": item.space, "kind": item.kind.value, "type": item.type, "title": item.title, "source": item.source}
    match = {"score": hit.score, "match_source": hit.match_source, "path": [f"{space}/{id}" for space, id in hit.path]}
    return Document(page_content=text, id=f"{item.space}/{item.id}", metadata=said | match | more)


def _text(hit: Hit) -> str:
    """What the item says; one that has only properties says those."""
    item = hit.item
    said = item.text or item.summary or "\n".join(f"{name}: {value}" for name, value in item.properties.items())
    return "\n\n".join(part for part in (item.title, said) if part)
