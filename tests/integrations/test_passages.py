"""Long items in the adapters: passages instead of whole texts, and tools that read pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agents.tool_context import ToolContext
from haystack import Pipeline
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import knowloom
from knowloom import Client, Engine, Invalid, Item, NotFound
from knowloom.integrations.langchain import KnowloomRetriever
from knowloom.integrations.lookup import READ_DESCRIPTION, READ_NAME, ItemReader
from knowloom.tokens import get_counter
from live_server import serving

SENTENCE = "Ships moor at the pier and report to the office. "
RULES = "".join(f"## Berth {n}\n\n{SENTENCE * 18}\n\n" for n in range(1, 9))
RULES = RULES.replace("## Berth 6\n\n", "## Berth 6\n\nTankers need a fire watch. ")
ASK = "Which ships need a fire watch?"
Kb = Engine | Client


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with knowloom.open("memory:", embedder=None) as kb:
        kb.add(
            [
                Item("berths", "harbor", title="Berth rules", text=RULES, source="rules.md"),
                Item("watch", "harbor", title="Fire watch", text="A fire watch has two persons."),
                Item("watch", "town", title="Night watch", text="The town has a watch, too."),
            ]
        )
        yield kb


@pytest.fixture(scope="module", params=["engine", "client"])
def kb(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Kb]:
    if request.param == "engine":
        yield engine
    else:
        with serving(engine) as url, Client(url) as client:
            yield client


def retrieve_langchain(kb: Kb, **options: Any) -> list[tuple[str, str, Any]]:
    documents = KnowloomRetriever(kb=kb, spaces=["harbor"], **options).invoke(ASK)
    return [(str(each.id), each.page_content, each.metadata) for each in documents]


def retrieve_llamaindex(kb: Kb, **options: Any) -> list[tuple[str, str, Any]]:
    nodes = knowloom.LlamaIndexRetriever(kb, spaces=["harbor"], **options).retrieve(ASK)
    return [(node.node_id, node.text, node.metadata) for node in nodes]


def retrieve_haystack(kb: Kb, **options: Any) -> list[tuple[str, str, Any]]:
    pipeline = Pipeline()
    retriever = knowloom.HaystackRetriever(kb, spaces=["harbor"], **options)
    pipeline.add_component("knowledge", retriever)
    documents = pipeline.run({"knowledge": {"query": ASK}})["knowledge"]["documents"]
    return [(each.id, each.content, each.meta) for each in documents]


RETRIEVERS = [retrieve_langchain, retrieve_llamaindex, retrieve_haystack]


@pytest.mark.parametrize("retrieve", RETRIEVERS)
def test_a_document_of_a_long_item_is_the_passage_that_matched(
    kb: Kb, retrieve: Callable[..., Any]
) -> None:
    documents = {key: (text, metadata) for key, text, metadata in retrieve(kb)}
    text, metadata = documents["harbor/berths"]
    passage = next(
        hit.passage for hit in kb.search(ASK, spaces=["harbor"]) if hit.item.id == "berths"
    )
    assert text == f"Berth rules\n\n{RULES[passage.start : passage.end]}"
    assert "Tankers need a fire watch" in text and len(text) < 1100
    place = {"passage": 5, "start": passage.start, "end": passage.end, "headings": ["Berth 6"]}
    assert metadata.items() >= place.items()
    short, metadata = documents["harbor/watch"]
    assert short == "Fire watch\n\nA fire watch has two persons."
    assert "passage" not in metadata


@pytest.mark.parametrize("retrieve", RETRIEVERS)
def test_whole_items_are_returned_on_request(kb: Kb, retrieve: Callable[..., Any]) -> None:
    documents = {key: (text, metadata) for key, text, metadata in retrieve(kb, whole=True)}
    text, metadata = documents["harbor/berths"]
    assert text == f"Berth rules\n\n{RULES}" and "passage" not in metadata


def test_whole_must_be_a_flag(engine: Engine) -> None:
    with pytest.raises(Invalid, match="whole must be true or false, got 'yes'"):
        knowloom.LlamaIndexRetriever(engine, spaces=["harbor"], whole="yes")


@pytest.mark.parametrize("retrieve", RETRIEVERS)
def test_the_blocks_of_a_context_name_the_ranges_of_an_excerpt(
    kb: Kb, retrieve: Callable[..., Any]
) -> None:
    documents = {key: (text, metadata) for key, text, metadata in retrieve(kb, max_tokens=250)}
    text, metadata = documents["harbor/berths"]
    assert metadata["form"] == "excerpt" and "Tankers need a fire watch" in text
    assert all(part.keys() >= {"number", "start", "end"} for part in metadata["passages"])
    assert any("fire watch" in RULES[p["start"] : p["end"]] for p in metadata["passages"])


def call_openai(tool: Any, **arguments: Any) -> str:
    text = json.dumps(arguments)
    context = ToolContext(None, tool_name=tool.name, tool_call_id="1", tool_arguments=text)
    return str(asyncio.run(tool.on_invoke_tool(context, text)))


def call_pydantic(tool: Any, **arguments: Any) -> str:
    def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(str(last.content))])
        return ModelResponse(parts=[ToolCallPart(info.function_tools[0].name, arguments)])

    return str(asyncio.run(Agent(FunctionModel(scripted), tools=[tool]).run("Read it.")).output)


TOOLS = [
    pytest.param(knowloom.openai_agents_read_tool, call_openai, id="openai"),
    pytest.param(knowloom.pydantic_ai_read_tool, call_pydantic, id="pydantic"),
]


@pytest.mark.parametrize(("create", "call"), TOOLS)
def test_a_model_reads_an_item_page_by_page(
    kb: Kb, create: Callable[..., Any], call: Callable[..., str]
) -> None:
    tool = create(kb, spaces=["harbor"], max_tokens=500)
    first = call(tool, item="berths")
    assert first == str(kb.read("berths", space="harbor", max_tokens=500))
    assert first.startswith("Berth rules (harbor/berths), page 1 of 4; continued on page 2\n")
    second = call(tool, item="berths", page=2)
    assert second == str(kb.read("berths", space="harbor", max_tokens=500, page=2))


@pytest.mark.parametrize(("create", "call"), TOOLS)
def test_a_mistake_of_the_model_is_answered(
    kb: Kb, create: Callable[..., Any], call: Callable[..., str]
) -> None:
    tool = create(kb, spaces=["harbor"])
    unknown = "error: no item 'berth' in space 'harbor'; similar: 'berths'"
    assert call(tool, item="berth") == unknown
    assert call(tool, item="berths", page=9) == "error: page must be an integer from 1 to 1, got 9"


@pytest.mark.parametrize(("create", "call"), TOOLS)
def test_a_mistake_of_the_program_is_raised(
    engine: Engine, create: Callable[..., Any], call: Callable[..., str]
) -> None:
    with pytest.raises(NotFound, match="unknown space"):
        call(create(engine, spaces=["nowhere"]), item="berths")
    with pytest.raises(Invalid, match="max_tokens must be an integer >= 1, got 0"):
        create(engine, spaces=["harbor"], max_tokens=0)
    with pytest.raises(Invalid, match="spaces must name at least one space"):
        create(engine, spaces=[])
    with pytest.raises(Invalid, match="kb must be an engine"):
        create(object(), spaces=["harbor"])


def test_an_item_is_read_by_key_or_title_too(kb: Kb) -> None:
    reader = ItemReader(kb, ["harbor", "town"])
    assert reader.read("town/watch").startswith("Night watch (town/watch)")
    assert reader.read("night WATCH").startswith("Night watch (town/watch)")
    assert "exists in the spaces 'harbor', 'town'" in reader.read("watch")
    assert reader.read("").startswith("error: ")


def test_a_tool_reads_no_other_space(kb: Kb) -> None:
    reader = ItemReader(kb, ["town"])
    for name in ("berths", "harbor/berths", "Berth rules"):
        assert reader.read(name).startswith(f"error: no item {name!r} in space 'town'")


@pytest.mark.parametrize(("create", "call"), TOOLS)
def test_the_description_is_short(engine: Engine, create: Callable[..., Any], call: Any) -> None:
    tool = create(engine, spaces=["harbor"])
    schema = getattr(tool, "params_json_schema", None) or tool.tool_def.parameters_json_schema
    assert (tool.name, tool.description) == (READ_NAME, READ_DESCRIPTION)
    assert set(schema["properties"]) == {"item", "page"}
    shown = f"{tool.name} {tool.description} {json.dumps(schema)}"
    assert get_counter("gpt-4o").count(shown) < 110
