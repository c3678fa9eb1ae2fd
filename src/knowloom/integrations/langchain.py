"""knowloom as a LangChain retriever: what a chain gets is what fits the budget, each piece with the reason why."""

from __future__ import annotations

import asyncio
from datetime import datetime

from knowloom.integrations.lookup import OPTIONS, Knowledge, Lookup, missing
from knowloom.recipes import Mode

try:
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise missing("langchain", error) from error


class KnowloomRetriever(BaseRetriever):
    """Without `max_tokens`: the `k` best items, each as its title and text. With it: the blocks of one context, which together fit
    the budget; `recipe`, `format`, `model`, `entity` and `paths` are those of the context, and `k` is the most candidates to look at."""

    kb: Knowledge
    spaces: list[str]
    max_tokens: int | None = None
    k: int | None = None
    mode: Mode | None = None
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
    paths: bool = False

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return self._found(query)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return await asyncio.to_thread(self._found, query)

    def _found(self, query: str) -> list[Document]:
        lookup = Lookup(
            self.kb, self.spaces, limit=self.k, **{name: getattr(self, name) for name in OPTIONS}
        )
        return [
            Document(page_content=one.text, id=one.key, metadata=one.metadata)
            for one in lookup.passages(query)
        ]
