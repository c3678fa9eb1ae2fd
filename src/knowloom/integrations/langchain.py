"""A LangChain retriever: documents within a token budget, each with the reason for it."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from knowloom.integrations.lookup import ARGUMENTS, KnowledgeBase, Lookup, missing_extra
from knowloom.recipes import Mode

try:
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise missing_extra("langchain", error) from error


class KnowloomRetriever(BaseRetriever):
    """Retrieves the `k` best items or, with `max_tokens`, the blocks of one context.

    The blocks fit the budget together; `k` is then the maximum number of candidates, and `recipe`,
    `format`, `model`, `entity`, `paths`, `citations` and `seen` are its options. Of a long
    item a search returns the passage that matched, unless `whole` is set.
    """

    kb: KnowledgeBase
    spaces: list[str]
    max_tokens: int | None = None
    k: int | None = None
    mode: Mode | None = None
    kinds: list[str] = []  # noqa: RUF012 (a field of Pydantic, copied for each instance)
    types: list[str] = []  # noqa: RUF012
    exclude_types: list[str] = []  # noqa: RUF012
    tags: list[str] = []  # noqa: RUF012
    where: dict[str, Any] | None = None
    min_score: float = 0.0
    min_answer_confidence: float = 0.0
    recipe: str = "knowledge"
    format: str = "plain"
    model: str = "gpt-4"
    entity: str | None = None
    as_of: datetime | None = None
    now: datetime | None = None
    paths: bool = False
    citations: bool = True
    rerank: bool | None = None
    whole: bool = False
    seen: Any = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return self._retrieve(query)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return await asyncio.to_thread(self._retrieve, query)

    def _retrieve(self, query: str) -> list[Document]:
        options = {name: getattr(self, name) for name in ARGUMENTS}
        lookup = Lookup(self.kb, self.spaces, limit=self.k, **options)
        return [
            Document(page_content=result.text, id=result.key, metadata=result.metadata)
            for result in lookup.retrieve(query)
        ]
