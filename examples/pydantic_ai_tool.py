"""A tool for a Pydantic AI agent, with a function in place of the model."""

from __future__ import annotations

from pathlib import Path

from pydantic_ai import (
    Agent,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

import knowloom

EXAMPLE = Path(__file__).resolve().parent / "harbor"
QUESTION = "How do I process a refund request?"


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Look the question up once, and answer with the first piece of knowledge."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(str(last.content).split("\n### ")[1].strip())])
    assert isinstance(last, UserPromptPart)
    return ModelResponse(parts=[ToolCallPart(info.function_tools[0].name, {"query": last.content})])


def main() -> None:
    # To use a server: knowloom.Client("http://localhost:8765", key="knowloom_…")
    with knowloom.open("memory:", embedder=None) as kb:
        kb.load(EXAMPLE)
        tool = knowloom.pydantic_ai_tool(kb, spaces=["support", "shared"], max_tokens=500)
        agent = Agent(
            FunctionModel(model),  # put a model here
            instructions="Answer from the knowledge you look up.",
            tools=[tool],
        )
        result = agent.run_sync(QUESTION)

    print(f"{QUESTION}\n\n{result.output}\n\nwhat the model was given:")
    parts = [part for message in result.all_messages() for part in message.parts]
    for part in parts:
        if not isinstance(part, ToolReturnPart):
            continue
        for source in part.metadata["sources"]:
            print(
                f"  {source['tokens']:>4} tokens  {source['part']:<12}  "
                f"{source['space']}/{source['id']}: {source['why']}"
            )


if __name__ == "__main__":
    main()
