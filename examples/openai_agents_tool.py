"""knowloom as a tool of an agent of the OpenAI Agents SDK. No key and no network: a scripted server on loopback takes the model's place."""

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
    set_tracing_disabled(True)  # traces go to OpenAI unless you say this
    with (
        knowloom.open("memory:", embedder=None) as kb,
        scripted_server() as url,
    ):  # or knowloom.Client("http://localhost:8765", key="knowloom_…")
        kb.load(EXAMPLE)
        tool = knowloom.openai_agents_tool(kb, spaces=["support", "shared"], max_tokens=500)
        model = OpenAIChatCompletionsModel(
            "scripted", AsyncOpenAI(base_url=url, api_key="none")
        )  # leave it out to use OpenAI
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
            for one in item.custom_data["sources"]:
                print(
                    f"  {one['tokens']:>4} tokens  {one['part']:<12}  {one['space']}/{one['id']}: {one['why']}"
                )


if __name__ == "__main__":
    main()
