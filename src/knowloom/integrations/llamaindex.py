"""A LlamaIndex retriever: nodes within a token budget, each with the reason for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Unpack

from knowloom.integrations.lookup import (
    KnowledgeBase,
    Lookup,
    LookupArguments,
    LookupResult,
    missing_extra,
)

try:
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise missing_extra("llamaindex", error) from error


class LlamaIndexRetriever(BaseRetriever):
    """Retrieves the `similarity_top_k` best items (default: 10) or the blocks of one context.

    With `max_tokens` it retrieves the blocks, which fit the budget together; `similarity_top_k` is
    then the maximum number of candidates.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        *,
        spaces: Sequence[str],
        similarity_top_k: int | None = None,
        callback_manager: CallbackManager | None = None,
        **options: Unpack[LookupArguments],
    ) -> None:
        super().__init__(callback_manager)
        self._lookup = Lookup.create(kb, spaces, similarity_top_k, options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_build_node(result) for result in self._lookup.retrieve(query_bundle.query_str)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _build_node(result: LookupResult) -> NodeWithScore:
    """Return a node without metadata in the prompt, which LlamaIndex would add to the budget."""
    hidden = list(result.metadata)
    node = TextNode(
        id_=result.key,
        text=result.text,
        metadata=result.metadata,
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
    )
    return NodeWithScore(node=node, score=result.score)
