"""The retriever in LangChain: alone and in a chain, sync and async, on an engine and a server."""

from __future__ import annotations

import asyncio
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from pydantic import ValidationError

import knowloom
from knowloom import Client, Engine, NotFound
from knowloom.integrations.langchain import KnowloomRetriever
from live_server import BOTH, HARBOR, NOW, serving
from paths import ROOT

ASK = "How do I process a refund request?"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        kb.load(HARBOR)
        yield kb


@pytest.fixture(scope="module", params=["engine", "client"])
def kb(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Engine | Client]:
    if request.param == "engine":
        yield engine
    else:
        with serving(engine) as url, Client(url) as client:
            yield client


def retriever(kb: Any, **fields: Any) -> KnowloomRetriever:
    return KnowloomRetriever(kb=kb, **({"spaces": BOTH} | fields))


def test_a_search_returns_the_best_items_with_title_and_text(kb: Engine | Client) -> None:
    filters = {"types": ["faq", "playbook"], "mode": "bm25"}
    documents = retriever(kb, k=3, whole=True, **filters).invoke(ASK)
    hits = kb.search(ASK, spaces=BOTH, limit=3, types=["faq", "playbook"], mode="bm25")
    assert [document.metadata["id"] for document in documents] == [hit.item.id for hit in hits]
    assert documents[0].page_content == f"{hits[0].item.title}\n\n{hits[0].item.text}"
    assert (
        documents[0].metadata.items()
        >= {"space": "support", "score": hits[0].score, "match_source": "bm25"}.items()
    )
    assert documents[0].metadata["path"] == [documents[0].id]


def test_a_budget_returns_the_blocks_of_one_context(kb: Engine | Client) -> None:
    documents = retriever(kb, max_tokens=1500, now=NOW).invoke(ASK)
    context = kb.context(ASK, spaces=BOTH, max_tokens=1500, format="plain", now=NOW, citations=True)
    chosen = [block for fragment in context.fragments for block in fragment.chosen]
    assert [document.page_content for document in documents] == [
        block.text.strip() for block in chosen
    ]
    assert sum(document.metadata["tokens"] for document in documents) <= 1500
    assert {document.metadata["digest"] for document in documents} == {context.digest}
    linked = next(document for document in documents if document.metadata["part"] == "context")
    assert linked.metadata["path"][-1] == linked.id


def test_asynchronous_calls_return_the_same_documents(kb: Engine | Client) -> None:
    for fields in ({"k": 4}, {"max_tokens": 300, "k": 5, "now": NOW}):
        assert asyncio.run(retriever(kb, **fields).ainvoke(ASK)) == retriever(kb, **fields).invoke(
            ASK
        )


def test_the_retriever_works_in_a_chain(kb: Engine | Client) -> None:
    def join(documents: list[Document]) -> str:
        return "\n\n".join(document.page_content for document in documents)

    prompt = ChatPromptTemplate.from_messages([("system", "{context}"), ("user", "{question}")])
    model = RunnableLambda(lambda value: value.to_messages()[0].content)
    chain = (
        {"context": retriever(kb, max_tokens=400) | join, "question": RunnablePassthrough()}
        | prompt
        | model
    )
    answer = chain.invoke(ASK)
    assert "refund" in answer
    assert asyncio.run(chain.ainvoke(ASK)) == answer


def test_errors_are_those_of_knowloom(kb: Engine | Client) -> None:
    with pytest.raises(NotFound):
        retriever(kb, spaces=["nowhere"]).invoke(ASK)
    with pytest.raises(ValidationError, match="Knowledge"):
        KnowloomRetriever(kb="knowledge.db", spaces=BOTH)  # type: ignore[arg-type]


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "langchain_retriever.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert "How do I process a refund request?" in output
    assert "process-a-refund" in output


def test_a_missing_package_names_the_extra_to_install() -> None:
    script = (
        "import sys; sys.modules['langchain_core'] = None\nimport knowloom\n"
        "try: import knowloom.integrations.langchain\n"
        "except knowloom.MissingExtra as error: print(error)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(Path(knowloom.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.endswith("pip install 'knowloom[langchain]'\n")
