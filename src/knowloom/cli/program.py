"""Commands and groups of commands: their shared options, their errors and their help."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from knowloom.cli.options import UNLIMITED
from knowloom.cli.session import Session
from knowloom.errors import KnowloomError

SHARED_DEFAULTS = {"db": None, "embedder": None, "as_json": False, "no_color": False}


class Command(click.Command):
    """A command with the shared options; an error is one line and an exit status.

    Options that are not set are not passed on, so that the callee's defaults apply.
    """

    def __init__(self, name: str, params: Sequence[click.Parameter] = (), **settings: Any) -> None:
        super().__init__(name, params=[*params, *_shared_options()], **settings)

    def invoke(self, ctx: click.Context) -> Any:
        ctx.obj = session = Session(**_move_shared_options(ctx))
        ctx.params = _explicit_arguments(ctx)
        logger = logging.getLogger("knowloom")
        logger.addHandler(session.warnings)
        try:
            return super().invoke(ctx)
        except KnowloomError as error:
            session.fail(error)
        except (KeyboardInterrupt, click.Abort):
            ctx.exit(130)
        finally:
            logger.removeHandler(session.warnings)


class Group(click.Group):
    """A group of commands, which also takes their shared options."""

    def __init__(
        self, name: str | None = None, params: Sequence[click.Parameter] = (), **settings: Any
    ) -> None:
        super().__init__(name, params=[*params, *_shared_options()], **settings)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # as registered: the most useful first

    def invoke(self, ctx: click.Context) -> Any:
        _move_shared_options(ctx)
        return super().invoke(ctx)


class SectionedGroup(Group):
    """A group whose help lists the commands under headings."""

    def __init__(self, name: str | None = None, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.sections: dict[str, tuple[click.Command, ...]] = {}

    def add_section(self, title: str, commands: tuple[click.Command, ...]) -> None:
        self.sections[title] = commands
        for command in commands:
            self.add_command(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.commands))
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{command.name:{width}}", command.get_short_help_str(formatter.width))
                        for command in commands
                    ]
                )


def _explicit_arguments(ctx: click.Context) -> dict[str, Any]:
    """Return the arguments without options that are not set; an unlimited budget is None."""
    is_default = {
        name: ctx.get_parameter_source(name) is ParameterSource.DEFAULT for name in ctx.params
    }
    return {
        name: None if name == "max_tokens" and value == UNLIMITED else value
        for name, value in ctx.params.items()
        if value is not None and not (value == () and is_default[name])
    }


def _move_shared_options(ctx: click.Context) -> dict[str, Any]:
    """Return the shared options of this command and of those above it; the innermost wins."""
    explicit = {name: value for name in SHARED_DEFAULTS if (value := ctx.params.pop(name))}
    shared: dict[str, Any] = ctx.meta.get("knowloom.shared", SHARED_DEFAULTS) | explicit
    ctx.meta["knowloom.shared"] = shared
    return shared


def _shared_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--db"],
            metavar="PATH_OR_URL",
            help="Store to use. Default: the setting store (KNOWLOOM_STORE), else knowledge.db.",
        ),
        click.Option(
            ["--embedder"],
            metavar="NAME",
            help="minilm, openai:MODEL, openai:MODEL@URL, or none for keywords only. "
            "Default: the setting.",
        ),
        click.Option(
            ["--json", "as_json"], is_flag=True, help="Print one JSON document instead of tables."
        ),
        click.Option(
            ["--no-color"],
            is_flag=True,
            help="Print without colours, as with NO_COLOR in the environment.",
        ),
    ]
