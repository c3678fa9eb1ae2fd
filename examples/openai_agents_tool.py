"""A tool for the OpenAI Agents SDK, with a scripted local server in place of the model."""

from __future__ import annotations

from pathlib import Path

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.items import ToolCallOutputItem
from openai import AsyncOpenAI
from scripted_server import scripted_server

import knowloom

EXAMPLE = Path(__file__).resolve().parent / "harbor"
QUESTION = "How do I process a refund request?"


def main() -> None:
    set_tracing_disabled(True)  # otherwise traces are sent to OpenAI
    # To use a server: knowloom.Client("http://localhost:8765", key="knowloom_…")
    with knowloom.open("memory:", embedder=None) as kb, scripted_server() as url:
        kb.load(EXAMPLE)
        tool = knowloom.openai_agents_tool(kb, spaces=["support", "shared"], max_tokens=500)
        # Leave the model out to use OpenAI.
        client = AsyncOpenAI(base_url=url, api_key="none")
        model = OpenAIChatCompletionsModel("scripted", client)
        agent = Agent(
            name="Support",
            instructions="Answer from the knowledge you look up.",
            tools=[tool],
            model=model,
        )
        result = Runner.run_sync(agent, QUESTION)

    print(f"{QUESTION}\n\n{result.final_output}\n\nwhat the model was given:")
    for item in result.new_items:
        if isinstance(item, ToolCallOutputItem) and item.custom_data:
            for source in item.custom_data["sources"]:
                print(
                    f"  {source['tokens']:>4} tokens  {source['part']:<12}  "
                    f"{source['space']}/{source['id']}: {source['why']}"
                )


if __name__ == "__main__":
    main()
