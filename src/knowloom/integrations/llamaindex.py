"""knowloom as a LlamaIndex retriever: what a query engine gets is what fits the budget, each node with the reason why."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Unpack

from knowloom.integrations.lookup import Knowledge, Lookup, Options, Passage, missing

try:
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise missing("llamaindex", error) from error


class LlamaIndexRetriever(BaseRetriever):
    """Without `max_tokens`: the `similarity_top_k` best items, 10 unless told. With it: the blocks of one context, which together fit
    the budget, and `similarity_top_k` is the most candidates to look at."""

    def __init__(
        self,
        kb: Knowledge,
        *,
        spaces: Sequence[str],
        similarity_top_k: int | None = None,
        callback_manager: CallbackManager | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(callback_manager)
        self._lookup = Lookup.of(kb, spaces, similarity_top_k, options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(one) for one in self._lookup.passages(query_bundle.query_str)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(passage: Passage) -> NodeWithScore:
    """Metadata stay out of the prompt: LlamaIndex would write them before the text, beyond the budget."""
    hidden = list(passage.metadata)
    node = TextNode(
        id_=passage.key,
        text=passage.text,
        metadata=passage.metadata,
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
    )
    return NodeWithScore(node=node, score=passage.score)
