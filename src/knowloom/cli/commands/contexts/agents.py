"""The command `knowloom agents`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from knowloom.cli.options import examples
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.wire.recipes import agent_to_json

if TYPE_CHECKING:
    from knowloom.recipes import Agent


@click.command(cls=Command, epilog=examples("knowloom agents", "knowloom agents --json"))
@click.pass_obj
def agents(session: Session) -> None:
    """List the agents for --agent: the built-in ones and your own.

    Your own are tables [agents.NAME] in knowloom.toml, or in the file named by the setting agents.
    """
    from knowloom.agents import resolve_agents

    table = resolve_agents(session.settings().agents)
    agents = [table[name] for name in sorted(table)]
    session.output(
        {"agents": [agent_to_json(agent) for agent in agents]},
        lambda _: [_format_agent(agent) for agent in agents],
    )


def _format_agent(agent: Agent) -> str:
    first, *others = agent.recipes
    types = ", ".join(first.types) or "all types"
    parts = f"{first.limit} {first.name} of {types} from score {first.min_score:g}"
    parts += "".join(f", {recipe.name}" for recipe in others)
    budget = f"{agent.max_tokens} tokens of {agent.format}"
    return f"{agent.name}: {agent.description or 'your own'}\n    {parts}; {budget}"
