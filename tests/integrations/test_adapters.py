"""The adapters in the real frameworks, sync and async, on an engine and on a server."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import OpenAIChatCompletionsModel, Runner, UserError
from agents.items import ToolCallOutputItem
from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.retrievers import MultiQueryTextRetriever
from haystack.core.errors import DeserializationError
from haystack.utils import Secret
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, QueryBundle
from openai import AsyncOpenAI
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import knowloom
from knowloom import Client, Engine, Invalid, Item, NotFound
from knowloom.registry import open_stores
from knowloom.server.auth import Keyring
from live_server import BOTH, HARBOR, NOW, Broken, serving
from paths import ROOT

ASK = "How do I process a refund request?"
EXAMPLES = ROOT / "examples"
METADATA = {
    "id",
    "space",
    "kind",
    "type",
    "title",
    "tags",
    "source",
    "score",
    "match_source",
    "why",
    "path",
}
FACTORIES: dict[str, Callable[..., Any]] = {
    name: getattr(knowloom, name)
    for name in (
        "HaystackRetriever",
        "LlamaIndexRetriever",
        "openai_agents_tool",
        "pydantic_ai_tool",
    )
}
Kb = Engine | Client


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        kb.load(HARBOR)
        yield kb


@pytest.fixture(scope="module", params=["engine", "client"])
def kb(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Kb]:
    if request.param == "engine":
        yield engine
    else:
        with serving(engine) as url, Client(url) as client:
            yield client


def blocks(context: knowloom.Context) -> list[str]:
    return [chosen.text.strip("\n") for fragment in context.fragments for chosen in fragment.chosen]


# LlamaIndex


def test_llamaindex_gets_the_best_items(kb: Kb) -> None:
    nodes = knowloom.LlamaIndexRetriever(
        kb, spaces=BOTH, similarity_top_k=3, types=["faq", "playbook"], mode="bm25", whole=True
    ).retrieve(ASK)
    hits = kb.search(ASK, spaces=BOTH, limit=3, types=["faq", "playbook"], mode="bm25")
    assert [(node.node_id, node.score) for node in nodes] == [
        ("/".join(hit.item.key), hit.score) for hit in hits
    ]
    assert nodes[0].text == f"{hits[0].item.title}\n\n{hits[0].item.text}"
    assert nodes[0].metadata.keys() == METADATA
    assert nodes[0].metadata["why"].startswith("found by words (bm25 ")


def test_llamaindex_with_a_budget_shows_a_model_the_blocks_of_one_context_and_no_metadata(
    kb: Kb,
) -> None:
    nodes = knowloom.LlamaIndexRetriever(kb, spaces=BOTH, max_tokens=500, now=NOW).retrieve(ASK)
    context = kb.context(ASK, spaces=BOTH, max_tokens=500, format="plain", now=NOW, citations=True)
    assert [node.node.get_content(MetadataMode.LLM) for node in nodes] == blocks(context)
    assert {node.metadata["digest"] for node in nodes} == {context.digest}
    blocks_of_contexts = METADATA | {"part", "form", "tokens", "digest"}
    optional = {"passages", "number", "citation"}
    assert all(node.metadata.keys() - optional == blocks_of_contexts for node in nodes)
    cited = [node.metadata for node in nodes if "citation" in node.metadata]
    assert [(data["number"], data["citation"]) for data in cited] == [
        (citation.number, citation.source) for citation in context.citations
    ]


def test_llamaindex_awaited_and_in_a_query_engine(kb: Kb) -> None:
    retriever = knowloom.LlamaIndexRetriever(kb, spaces=BOTH, max_tokens=300, now=NOW)
    assert asyncio.run(retriever.aretrieve(QueryBundle(ASK))) == retriever.retrieve(ASK)
    answer = RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query(ASK)
    assert "\n\n".join(node.text for node in retriever.retrieve(ASK)) in str(answer)


# Haystack


def retrieve(retriever: Any, **inputs: Any) -> list[Document]:
    pipeline = Pipeline()
    pipeline.add_component("knowloom", retriever)
    return list(pipeline.run({"knowloom": {"query": ASK} | inputs})["knowloom"]["documents"])


def where(field: str, operator: str, value: object) -> dict[str, Any]:
    return {"field": field, "operator": operator, "value": value}


def test_haystack_gets_the_best_items(kb: Kb) -> None:
    retriever = knowloom.HaystackRetriever(
        kb, spaces=BOTH, types=["faq", "playbook"], mode="bm25", whole=True
    )
    documents = retrieve(retriever, top_k=3)
    hits = kb.search(ASK, spaces=BOTH, limit=3, types=["faq", "playbook"], mode="bm25")
    assert [(document.id, document.score) for document in documents] == [
        ("/".join(hit.item.key), hit.score) for hit in hits
    ]
    assert documents[0].meta.keys() == METADATA
    assert len(retrieve(knowloom.HaystackRetriever(kb, spaces=BOTH, top_k=2))) == 2


def test_haystack_with_a_budget_gets_the_blocks_of_one_context(kb: Kb) -> None:
    documents = retrieve(knowloom.HaystackRetriever(kb, spaces=BOTH, max_tokens=500, now=NOW))
    assert [document.content for document in documents] == blocks(
        kb.context(ASK, spaces=BOTH, max_tokens=500, format="plain", now=NOW, citations=True)
    )


def test_haystack_awaited_and_inside_another_retriever(kb: Kb) -> None:
    retriever = knowloom.HaystackRetriever(kb, spaces=BOTH, top_k=4)
    assert asyncio.run(retriever.run_async(ASK)) == retriever.run(ASK)
    assert {
        document.id
        for document in MultiQueryTextRetriever(retriever=retriever).run([ASK])["documents"]
    } == {document.id for document in retriever.run(ASK)["documents"]}


@pytest.mark.parametrize(
    ("filters", "same"),
    [
        (where("meta.type", "==", "faq"), {"types": ["faq"]}),
        (where("type", "in", ["faq", "playbook"]), {"types": ["faq", "playbook"]}),
        (where("meta.type", "not in", ["faq"]), {"exclude_types": ["faq"]}),
        (where("meta.kind", "==", "entity"), {"kinds": ["entity"]}),
        (where("meta.tags", "in", ["refunds"]), {"tags": ["refunds"]}),
        (where("meta.space", "==", "shared"), {"spaces": ["shared"]}),
        (
            {
                "operator": "AND",
                "conditions": [where("meta.kind", "==", "node"), where("meta.type", "!=", "faq")],
            },
            {"kinds": ["node"], "exclude_types": ["faq"]},
        ),
    ],
)
def test_haystack_filters_are_search_filters(
    engine: Engine, filters: dict[str, Any], same: dict[str, Any]
) -> None:
    documents = retrieve(knowloom.HaystackRetriever(engine, spaces=BOTH), filters=filters)
    assert documents
    assert [document.meta["id"] for document in documents] == [
        hit.item.id for hit in engine.search(ASK, **({"spaces": BOTH} | same))
    ]


def test_haystack_filters_only_restrict_the_options(engine: Engine) -> None:
    retriever = knowloom.HaystackRetriever(engine, spaces=["support"], types=["faq"])
    assert retriever.run(ASK, where("meta.space", "in", ["support", "finance"])) == retriever.run(
        ASK
    )
    assert retriever.run(ASK, where("meta.space", "==", "finance")) == {"documents": []}
    assert retriever.run(ASK, where("meta.type", "==", "playbook")) == {"documents": []}


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (
            where("meta.type", ">", "faq"),
            "unknown operator in a filter '>'; available: !=, ==, in, not in",
        ),
        (
            where("meta.price", "==", 3),
            "unknown field to filter with '==' 'meta.price'; "
            "available: meta.kind, meta.space, meta.tags, meta.type",
        ),
        (
            where("meta.kind", "!=", "node"),
            "unknown field to filter with '!=' 'meta.kind'; available: meta.type",
        ),
        (where("meta.type", "in", "faq"), "must be a list, got 'faq'"),
        (where("meta.type", "==", ["faq"]), "must be a single value, got ['faq']"),
        (
            {"operator": "OR", "conditions": []},
            "unknown operator between filters 'OR'; available: AND",
        ),
        (
            {"operator": "AND", "conditions": [where("tags", "==", "a"), where("tags", "==", "b")]},
            "tags can be filtered only once",
        ),
        ({"operator": "AND", "conditions": ["faq"]}, "a filter must be a dict"),
        ({"operator": "AND"}, "a list of conditions"),
    ],
)
def test_unsupported_filters_are_rejected(
    engine: Engine, filters: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid) as error:
        knowloom.HaystackRetriever(engine, spaces=BOTH).run(ASK, filters)
    assert message in str(error.value)


def test_a_pipeline_is_saved_and_loaded_with_a_path(tmp_path: Path) -> None:
    path = str(tmp_path / "knowledge.db")
    with knowloom.open(path, embedder=None) as kb:
        kb.load(HARBOR)
        expected = retrieve(
            knowloom.HaystackRetriever(kb, spaces=BOTH, max_tokens=300, now=NOW, tags=["refunds"])
        )
    assert expected
    pipeline = Pipeline()
    pipeline.add_component(
        "knowloom",
        knowloom.HaystackRetriever(
            path, spaces=tuple(BOTH), embedder=None, max_tokens=300, now=NOW, tags=("refunds",)
        ),
    )
    pipeline.add_component(
        "prompt",
        PromptBuilder(
            "{% for document in documents %}{{ document.content }}{% endfor %}",
            required_variables="*",
        ),
    )
    pipeline.connect("knowloom.documents", "prompt.documents")
    with pytest.raises(DeserializationError):
        Pipeline.loads(pipeline.dumps())
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["knowloom.integrations.haystack"])
    for _ in range(2):  # it is reopened after it was closed
        assert again.run({"knowloom": {"query": ASK}})["prompt"]["prompt"] == "".join(
            str(document.content) for document in expected
        )
        again.close()
    assert again.dumps() == pipeline.dumps()


def test_a_pipeline_is_saved_with_a_server_and_never_with_its_key(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    _, secret = keyring.add("pipeline", reads=BOTH, writes=[], role="viewer", tier="teams", now=NOW)
    monkeypatch.setenv("PIPELINE_KEY", secret)
    with serving(engine, keyring) as url:
        pipeline = Pipeline()
        pipeline.add_component(
            "knowloom",
            knowloom.HaystackRetriever(
                url, key=Secret.from_env_var("PIPELINE_KEY"), spaces=BOTH, top_k=3
            ),
        )
        assert secret not in pipeline.dumps()
        again = Pipeline.loads(pipeline.dumps(), allowed_modules=["knowloom.integrations.haystack"])
        assert again.run({"knowloom": {"query": ASK}})["knowloom"]["documents"] == retrieve(
            knowloom.HaystackRetriever(engine, spaces=BOTH, top_k=3)
        )
        again.close()


def test_a_pipeline_that_cannot_be_saved_is_an_error(engine: Engine) -> None:
    with pytest.raises(Invalid, match="cannot be saved"):
        knowloom.HaystackRetriever(engine, spaces=BOTH).to_dict()
    with pytest.raises(Invalid, match="recipe must be a name"):
        knowloom.HaystackRetriever(
            "knowledge.db", spaces=BOTH, recipe=[knowloom.Recipe("search")]
        ).to_dict()


# Pydantic AI


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(str(last.content))])
    return ModelResponse(parts=[ToolCallPart(info.function_tools[0].name, {"query": ASK})])


@pytest.fixture
def loop() -> Iterator[None]:
    """An event loop for `run_sync`, which would leave its loop open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.usefixtures("loop")
def test_pydantic_ai_shows_the_model_a_context_and_the_program_its_sources(kb: Kb) -> None:
    agent = Agent(
        FunctionModel(scripted),
        tools=[knowloom.pydantic_ai_tool(kb, spaces=BOTH, max_tokens=400, now=NOW)],
    )
    context = kb.context(ASK, spaces=BOTH, max_tokens=400, now=NOW, citations=True)
    for result in (agent.run_sync("Refund?"), asyncio.run(agent.run("Refund?"))):
        part = next(
            part
            for message in result.all_messages()
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        )
        assert result.output == part.content == context.text
        assert (part.metadata["tokens"], part.metadata["digest"]) == (
            context.tokens,
            context.digest,
        )
        assert [
            (source["space"], source["id"], source["score"]) for source in part.metadata["sources"]
        ] == [(*hit.item.key, hit.score) for hit in context.hits]
        assert part.metadata["sources"][0].keys() > METADATA


def test_pydantic_ai_passes_the_description_to_the_model(engine: Engine) -> None:
    tool = knowloom.pydantic_ai_tool(
        engine,
        spaces=BOTH,
        name="handbook",
        description="Look into the handbook.",
        settings={"timeout": 9},
    )
    assert (tool.name, tool.description, tool.timeout) == ("handbook", "Look into the handbook.", 9)
    assert tool.tool_def.parameters_json_schema["properties"] == {
        "query": {"type": "string", "description": "What you need to know, as a full question."}
    }


@pytest.mark.usefixtures("loop")
def test_an_error_of_knowloom_ends_a_run_of_pydantic_ai(kb: Kb) -> None:
    with pytest.raises(NotFound):
        Agent(
            FunctionModel(scripted), tools=[knowloom.pydantic_ai_tool(kb, spaces=["nowhere"])]
        ).run_sync("Refund?")


# OpenAI Agents SDK


def openai_run(tool: Any, question: str = ASK) -> Any:
    spec = importlib.util.spec_from_file_location(
        "scripted_server", EXAMPLES / "scripted_server.py"
    )
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    async def run_agent(url: str) -> Any:
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            return await Runner.run(
                OpenAIAgent(
                    name="Support",
                    tools=[tool],
                    model=OpenAIChatCompletionsModel("scripted", client),
                ),
                question,
            )

    with script.scripted_server() as url:
        return asyncio.run(run_agent(url))


def test_openai_agents_show_the_model_a_context_and_the_program_its_sources(kb: Kb) -> None:
    result = openai_run(knowloom.openai_agents_tool(kb, spaces=BOTH, max_tokens=400, now=NOW))
    item = next(item for item in result.new_items if isinstance(item, ToolCallOutputItem))
    context = kb.context(ASK, spaces=BOTH, max_tokens=400, now=NOW, citations=True)
    assert item.raw_item["output"] == item.output == context.text
    assert result.final_output.startswith(context.hits[0].item.title)
    data = item.custom_data
    assert (data["tokens"], data["digest"]) == (context.tokens, context.digest)
    assert [(source["space"], source["id"], source["score"]) for source in data["sources"]] == [
        (*hit.item.key, hit.score) for hit in context.hits
    ]
    assert data["sources"][0].keys() > METADATA


def test_openai_agents_pass_the_description_to_the_model(engine: Engine) -> None:
    tool = knowloom.openai_agents_tool(
        engine,
        spaces=BOTH,
        name="handbook",
        description="Look into the handbook.",
        settings={"timeout": 9},
    )
    assert (tool.name, tool.description, tool.timeout_seconds) == (
        "handbook",
        "Look into the handbook.",
        9,
    )
    assert (
        tool.params_json_schema["properties"]["query"]["description"]
        == "What you need to know, as a full question."
    )


def test_an_error_ends_a_run_of_openai_agents_unless_a_handler_is_set(
    kb: Kb,
) -> None:
    with pytest.raises(UserError) as error:
        openai_run(knowloom.openai_agents_tool(kb, spaces=["nowhere"]))
    assert isinstance(error.value.__cause__, NotFound)
    tool = knowloom.openai_agents_tool(
        kb,
        spaces=["nowhere"],
        settings={"failure_error_function": lambda _, error: f"x\n### {error}"},
    )
    assert openai_run(tool).final_output.startswith("unknown space 'nowhere'")


# All adapters


@pytest.mark.usefixtures("loop")
def test_a_degraded_context_is_logged_and_reported_to_the_program(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Engine(open_stores("memory:", {}), Broken()) as kb:
        kb.add(Item("refund", "s", text="How to process a refund."), vectors=[[1.0] * 26])
        result = Agent(
            FunctionModel(scripted), tools=[knowloom.pydantic_ai_tool(kb, spaces=["s"])]
        ).run_sync("Refund?")
        part = next(
            part
            for message in result.all_messages()
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        )
        assert (
            [source["reason"] for source in part.metadata["degraded"]]
            == [source.reason for source in kb.context(ASK, spaces=["s"]).degraded]
            != []
        )
        caplog.clear()
        assert [
            node.node_id
            for node in knowloom.LlamaIndexRetriever(kb, spaces=["s"], max_tokens=100).retrieve(ASK)
        ] == ["s/refund"]
        assert "out of ink" in caplog.text


def test_a_recipe_keeps_its_mode_unless_one_is_passed(engine: Engine) -> None:
    recipe = [knowloom.Recipe("words", mode="bm25")]
    for options in ({}, {"mode": "hybrid"}):
        nodes = knowloom.LlamaIndexRetriever(
            engine, spaces=BOTH, max_tokens=300, recipe=recipe, now=NOW, **options
        ).retrieve(ASK)
        assert {node.metadata["digest"] for node in nodes} == {
            engine.context(
                ASK,
                spaces=BOTH,
                max_tokens=300,
                recipe=recipe,
                format="plain",
                now=NOW,
                citations=True,
                **options,
            ).digest
        }


@pytest.mark.parametrize("name", FACTORIES)
def test_invalid_arguments_are_rejected_at_construction(name: str, engine: Engine) -> None:
    for arguments, message in (
        ({"kb": 7}, "kb must be an engine"),
        ({"spaces": []}, "at least one space"),
        ({"spaces": "support"}, "must be a list of names, got 'support'"),
        ({"max_token": 9}, "unknown option 'max_token'; available: as_of, citations, entity, "),
    ):
        with pytest.raises(Invalid, match=message):
            FACTORIES[name](**({"kb": engine, "spaces": BOTH} | arguments))


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("HaystackRetriever", "haystack", "haystack"),
        ("LlamaIndexRetriever", "llama_index", "llamaindex"),
        ("openai_agents_tool", "agents", "openai-agents"),
        ("pydantic_ai_tool", "pydantic_ai", "pydantic-ai"),
    ],
)
def test_a_missing_package_names_the_extra_to_install(name: str, package: str, extra: str) -> None:
    script = (
        f"import sys; sys.modules['{package}'] = None\nimport knowloom\n"
        f"try: knowloom.{name}\nexcept knowloom.MissingExtra as error: print(error)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(Path(knowloom.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.endswith(f"pip install 'knowloom[{extra}]'\n")
    assert f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text("utf-8")


@pytest.mark.parametrize(
    "name", ["haystack_pipeline", "llamaindex_retriever", "openai_agents_tool", "pydantic_ai_tool"]
)
def test_each_example_runs_without_a_network(name: str) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(knowloom.__file__).parents[1]),
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }
    completed = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    assert ASK in completed.stdout
    assert "entry_points  support/process-a-refund: found by words" in completed.stdout
