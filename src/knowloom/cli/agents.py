"""The command `knowloom agents`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from knowloom.cli.session import Command, Session
from knowloom.wire import encoding

if TYPE_CHECKING:
    from knowloom.agents import Agent

EXAMPLES = "\b\nExamples:\n  knowloom agents\n  knowloom agents --json"


@click.command(cls=Command, epilog=EXAMPLES)
@click.pass_obj
def agents(session: Session) -> None:
    """List the agents, for --agent: those of knowloom, and your own.

    Your own are tables [agents.NAME] in knowloom.toml, or stand in the file that the setting agents names.
    """
    from knowloom.agents import known

    found = known(session.settings().agents)
    session.answer(
        {"agents": [row(found[name]) for name in sorted(found)]},
        lambda _: [_line(found[name]) for name in sorted(found)],
    )


def row(agent: Agent) -> encoding.Row:
    said = {
        "name": agent.name,
        "description": agent.description,
        "max_tokens": agent.max_tokens,
        "format": agent.format,
    }
    return said | {
        "parts": [
            part | {"types": list(one.types)}
            for part, one in zip(encoding.parts(agent.recipes), agent.recipes, strict=True)
        ]
    }


def _line(agent: Agent) -> str:
    first = agent.recipes[0]
    types = ", ".join(first.types) or "all types"
    others = "".join(f", {one.name}" for one in agent.recipes[1:])
    wanted = f"{first.limit} {first.name} of {types} from score {first.min_score:g}{others}"
    return f"{agent.name}: {agent.description or 'your own'}\n    {wanted}; {agent.max_tokens} tokens of {agent.format}"


COMMANDS: tuple[click.Command, ...] = (agents,)
