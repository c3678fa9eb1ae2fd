"""The commands `knowloom init`, `config` and `completion`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from knowloom import config
from knowloom.cli.options import examples
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.cli.streams import open_output
from knowloom.errors import Conflict
from knowloom.files import store_file

if TYPE_CHECKING:
    from rich.console import RenderableType

SHELLS = ("bash", "zsh", "fish")
COMPLETION_VARIABLE = "_KNOWLOOM_COMPLETE"  # click takes it from the name of the program


@click.command(cls=Command, epilog=examples("knowloom init", "knowloom init --force"))
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.pass_obj
def init(session: Session, force: bool) -> None:
    """Write a commented knowloom.toml.

    It has every setting with its meaning and its default. KNOWLOOM_CONFIG names another file.
    """
    path = config.config_file(os.environ).absolute()
    if path.exists() and not force:
        raise Conflict(f"{str(path)!r} exists: edit it, or replace it with --force", "exists")
    with open_output(str(path)) as file:
        file.write(config.template())
    session.output(
        {"file": str(path)},
        lambda _: [
            f"written: {path}",
            "every setting is a comment: remove the # of those that you change",
        ],
    )


@click.command("config", cls=Command, epilog=examples("knowloom config", "knowloom config --json"))
@click.pass_obj
def show_config(session: Session) -> None:
    """Show every setting, its value and where it comes from."""
    path = config.config_file(os.environ).absolute()
    flags = {"store": session.db, "embedder": session.embedder}
    settings = [
        replace(
            setting, value=flag, origin=f"--{'db' if setting.name == 'store' else setting.name}"
        )
        if (flag := flags.get(setting.name))
        else setting
        for setting in config.trace(os.environ)
    ]
    row = {
        "file": str(path) if path.is_file() else None,
        "store": _locate_store(session),
        "settings": {
            setting.name: {
                "value": setting.shown if setting.shown != str(setting.value) else setting.value,
                "origin": setting.origin,
                "meaning": setting.meaning,
            }
            for setting in settings
        },
    }
    session.output(row, lambda _: _render_settings(path, _locate_store(session), settings))


@click.command(cls=Command, epilog=examples("knowloom completion bash", "knowloom completion zsh"))
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands and options.

    \b
    Evaluate it when the shell starts, such as with a line in ~/.bashrc:
      eval "$(knowloom completion bash)"
    """
    script = get_completion_class(shell)
    assert script is not None
    session: Session = ctx.obj
    source = script(ctx.find_root().command, {}, "knowloom", COMPLETION_VARIABLE).source()
    if session.as_json:
        session.write_json({"shell": shell, "script": source})
    else:
        session.write_text(source)


def _locate_store(session: Session) -> str:
    file = store_file(session.url())
    is_missing = file is not None and not file.exists()
    return session.location() + (" (does not exist yet)" if is_missing else "")


def _render_settings(
    path: Path, store: str, settings: list[config.TracedSetting]
) -> list[RenderableType]:
    from knowloom.cli.console import create_table, safe_text

    file = path if path.is_file() else f"{path} (does not exist; knowloom init writes it)"
    table = create_table("setting", ("value", {"overflow": "fold"}), ("from", {"overflow": "fold"}))
    for setting in settings:
        style = "" if setting.origin == config.DEFAULT else "bold"
        origin = safe_text(setting.origin)
        table.add_row(setting.name, safe_text(setting.shown), origin, style=style)
    return [safe_text(f"knowledge: {store}"), safe_text(f"settings:  {file}"), "", table]
