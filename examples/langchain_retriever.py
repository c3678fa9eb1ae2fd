"""Use knowloom in a LangChain chain, and print the prompt: 500 tokens of knowledge."""

from __future__ import annotations

from pathlib import Path

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

import knowloom
from knowloom.integrations.langchain import KnowloomRetriever

EXAMPLE = Path(__file__).resolve().parent / "harbor"
PROMPT = ChatPromptTemplate.from_messages(
    [("system", "Answer from this knowledge:\n\n{context}"), ("user", "{question}")]
)


def join_texts(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def main() -> None:
    # To use a server: knowloom.Client("http://localhost:8765", key="knowloom_…")
    with knowloom.open("memory:", embedder=None) as kb:
        kb.load(EXAMPLE)
        retriever = KnowloomRetriever(kb=kb, spaces=["support", "shared"], max_tokens=500)
        model = RunnableLambda(lambda prompt: prompt.to_string())  # put a chat model here
        chain = (
            {"context": retriever | join_texts, "question": RunnablePassthrough()} | PROMPT | model
        )
        print(chain.invoke("How do I process a refund request?"))
        print("\nwhere it came from:")
        for document in retriever.invoke("How do I process a refund request?"):
            metadata = document.metadata
            print(f"  {metadata['tokens']:>4} tokens  {metadata['part']:<12}  {document.id}")


if __name__ == "__main__":
    main()
