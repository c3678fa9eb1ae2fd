"""Use knowloom in a LlamaIndex query engine, and print the prompt: 500 tokens of knowledge."""

from __future__ import annotations

from pathlib import Path

from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine

import knowloom

EXAMPLE = Path(__file__).resolve().parent / "harbor"
QUESTION = "How do I process a refund request?"


def main() -> None:
    # To use a server: knowloom.Client("http://localhost:8765", key="knowloom_…")
    with knowloom.open("memory:", embedder=None) as kb:
        kb.load(EXAMPLE)
        retriever = knowloom.LlamaIndexRetriever(kb, spaces=["support", "shared"], max_tokens=500)
        # MockLLM returns its prompt; put a model here.
        engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
        answer = engine.query(QUESTION)

    print(answer)
    print("\nwhere it came from:")
    for node in answer.source_nodes:
        metadata = node.metadata
        place = f"{metadata['tokens']:>4} tokens  {metadata['part']:<12}"
        print(f"  {place}  {node.node_id}: {metadata['why']}")


if __name__ == "__main__":
    main()
