"""What every command of the shell shares: the session, the shared options, errors and exit status."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from knowloom import codec, config
from knowloom.cli.streams import standard_output
from knowloom.errors import Invalid, KnowloomError, NotFound, unknown
from knowloom.files import beside, file_of
from knowloom.wire import encoding

if TYPE_CHECKING:
    from rich.console import RenderableType

    from knowloom.capabilities.memory.analytics import Analytics
    from knowloom.embedding import Progress
    from knowloom.engine import Engine
    from knowloom.ports import Caching


LAYERS = (
    "metadata",
    "words",
    "vectors",
    "graph",
)  # settings: what of the knowledge may lie elsewhere than in the store


class Notes(logging.Handler):
    """Keeps what the engine warns of, for answers that have no place of their own for it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())


@dataclass(frozen=True, slots=True)
class Session:
    """One run of the program: what the shared options say, and where answers go."""

    db: str | None
    embedder: str | None
    as_json: bool
    no_color: bool
    notes: Notes = field(default_factory=Notes)

    def settings(self) -> config.Settings:
        return config.load(os.environ)

    def open(self, *, create: bool = False, meaning: bool = True, naming: bool = False) -> Engine:
        """The knowledge. Only what writes may `create` it; what needs no `meaning` does not load the embedder, nor what finds names."""
        return self.opener(create=create, meaning=meaning, naming=naming)()

    def opener(
        self, *, create: bool = False, meaning: bool = True, naming: bool = False
    ) -> Callable[[], Engine]:
        """What opens the knowledge; another process can be given it."""
        import knowloom

        settings = self.settings()
        url, embedder = self.db or settings.store, self.embedder or settings.embedder
        layers, file = self._layers(settings), file_of(url)
        if not create and file is not None and (lack := lacking(file)):
            raise NotFound(
                f"{lack}; load something into it first: knowloom load PATH --db {url}", "no_file"
            )
        remote = (
            {"api_key": settings.openai_api_key, "timeout_s": settings.timeout_s}
            if embedder.startswith("openai")
            else {}
        )
        more = {
            name: getattr(settings, name)
            for name in ("secrets", "secret_rules", "agents", "retrieval")
        }
        links = (
            []
            if settings.links == "none"
            else [name.strip() for name in settings.links.split(",")]
            if settings.links
            else None
        )
        return partial(
            knowloom.open,
            url,
            embedder=embedder if meaning else None,
            embedder_settings=remote,
            links=links,
            names=(settings.names if create or naming else "") or None,
            cache=self._caching(),
            **more,
            **layers,
        )

    def _caching(self) -> Caching:
        from knowloom.ports import Caching

        settings = self.settings()
        path = self.beside(settings.embedding_cache, ".embeddings")
        return Caching(
            ttl_s=settings.embedding_cache_ttl_s or None,
            path=path,
            disk_size=settings.embedding_cache_size,
        )

    def beside(self, setting: str, end: str) -> str:
        """The file that a setting names: "beside" is one beside the knowledge; for a store that is not a file, in this folder."""
        if setting != "beside":
            return setting
        return str(beside(self.db or self.settings().store, end))

    def analytics(self, *, create: bool = True) -> Analytics | None:
        """Where what memory is asked is counted, if the settings say so; not made anew unless `create`."""
        settings = self.settings()
        path = self.beside(settings.analytics, ".analytics")
        if settings.analytics_text not in ("yes", "no"):
            raise unknown("analytics_text", settings.analytics_text, ("yes", "no"))
        if not path or not (create or Path(path).exists()):
            return None
        from knowloom.capabilities.memory.analytics import Analytics

        return Analytics(path, settings.analytics_text == "yes")

    def urls(self) -> list[str]:
        """Every place that has something of the knowledge, the store first."""
        settings = self.settings()
        return [self.db or settings.store, *self._layers(settings).values()]

    def _layers(self, settings: config.Settings) -> dict[str, str]:
        """Where layers lie apart. They belong to the store of the settings: beside another one they would be mixed up."""
        apart = {name: url for name in LAYERS if (url := getattr(settings, name))}
        if apart and self.db not in (None, settings.store):
            raise Invalid(
                f"--db {self.db!r} is not the store whose {', '.join(apart)} the settings name: set KNOWLOOM_STORE, or set them empty"
            )
        return apart

    @contextmanager
    def progress(self) -> Iterator[Progress | None]:
        if self.as_json:
            yield None
            return
        from knowloom.cli import console

        with console.progress(console.console(stderr=True, no_color=self.no_color)) as tell:
            yield tell

    def answer(
        self, row: encoding.Row, shown: Callable[[ModuleType], Sequence[RenderableType]]
    ) -> None:
        """The row as JSON, or what `shown` makes with the module `screen`, which is imported only for it."""
        if self.as_json:
            return self.write(row)
        from knowloom.cli import console

        return self.print(*shown(console))

    def write(self, row: encoding.Row) -> None:
        self.write_text(json.dumps(row, ensure_ascii=False, indent=2) + "\n")

    def write_text(self, text: str) -> None:
        """The text, byte for byte, into a file or a pipe; a terminal gets a line end, and nothing that would steer it."""
        if sys.stdout.isatty():
            from knowloom.cli import console

            text = console.safe(text).removesuffix("\n") + "\n"
        with standard_output() as out:
            out.write(text)  # click.echo would take out what looks like a colour

    def print(self, *shown: RenderableType, stderr: bool = False) -> None:
        from knowloom.cli import console

        with nullcontext() if stderr else standard_output():
            console.console(stderr=stderr, no_color=self.no_color).print(*shown, sep="\n")

    def say(self, text: str, color: str) -> None:
        """A line on standard error."""
        plain = self.no_color or bool(os.environ.get("NO_COLOR"))
        click.secho(text, fg=color, err=True, color=False if plain else None)

    def warn(self, *texts: str) -> None:
        for text in texts:
            self.say(f"warning: {text}", "yellow")

    def fail(self, error: KnowloomError) -> NoReturn:
        if self.as_json:
            self.write(encoding.error(error))
        self.say(f"error: {' '.join(str(error).split())}", "red")
        raise click.exceptions.Exit(1)


class Command(click.Command):
    """A command with the shared options. Errors become one line and an exit status, never a traceback."""

    def __init__(self, name: str, params: Sequence[click.Parameter] = (), **more: Any) -> None:
        super().__init__(name, params=[*params, *_shared()], **more)

    def invoke(self, ctx: click.Context) -> Any:
        ctx.obj = session = Session(
            *(ctx.params.pop(name) for name in ("db", "embedder", "as_json", "no_color"))
        )
        logging.getLogger("knowloom").addHandler(session.notes)
        try:
            return super().invoke(ctx)
        except KnowloomError as error:
            session.fail(error)
        except (KeyboardInterrupt, click.Abort):
            ctx.exit(130)
        finally:
            logging.getLogger("knowloom").removeHandler(session.notes)


class Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which they are useful


def time(text: str) -> datetime:
    try:
        return codec.text_to_time(text)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a time such as 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from None


def budget(text: str) -> int | str:
    """Click takes None for "not given", so no limit stays a word."""
    if text != "none" and not text.isdecimal():
        raise click.BadParameter(f"{text!r} is neither a whole number nor none")
    return text if text == "none" else int(text)


def lacking(file: Path) -> str:
    """Why nothing can be read there yet, else "". A first write that found no room leaves a file of no bytes: opening it would make it one of ours."""
    if not file.exists():
        return f"no file {str(file)!r}"
    written = Path(f"{file}-wal")  # where SQLite writes first
    empty = (
        file.is_file()
        and not file.stat().st_size
        and not (written.exists() and written.stat().st_size)
    )
    return f"no knowledge in {str(file)!r} yet, it is empty" if empty else ""


def json_or_text(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE")
    with suppress(ValueError):
        return name, json.loads(value)
    return name, value


def bounded(given: Mapping[str, Any]) -> list[str]:
    """The warning for a budget of tokens that nobody here can count: most of it stays empty, and a misspelt model would go unnoticed."""
    from knowloom import tokens

    if (
        given.get("max_tokens", 0) is None
        or tokens.counter(given["model"]).name != tokens.UPPER_BOUND
    ):
        return []
    known = f"name an OpenAI model (gpt-4, gpt-4o), an encoding ({', '.join(sorted(tokens.PIECES))}) or a tokenizer.json"
    return [
        f"no tokenizer is known for the model {given['model']!r}: every byte counts as a token, so that less is shown; {known}"
    ]


def _shared() -> list[click.Parameter]:
    return [
        click.Option(
            ["--db"],
            metavar="PATH_OR_URL",
            help="Where the knowledge is. Default: the setting store (KNOWLOOM_STORE), else knowledge.db.",
        ),
        click.Option(
            ["--embedder"],
            metavar="NAME",
            help="minilm, openai:MODEL, openai:MODEL@URL, or none for words only. Default: the setting.",
        ),
        click.Option(
            ["--json", "as_json"], is_flag=True, help="Print one JSON document instead of tables."
        ),
        click.Option(
            ["--no-color"],
            is_flag=True,
            help="Print without colours; NO_COLOR in the environment does the same.",
        ),
    ]


def options(*given: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        for option in reversed(given):
            function = option(function)
        return function

    return decorate


one_space = click.option("--space", required=True, metavar="S", help="The space it is in.")
several_spaces = click.option(
    "--space",
    "spaces",
    multiple=True,
    required=True,
    metavar="S",
    help="A space to look in; may be given several times.",
)
some_spaces = click.option(
    "--space",
    "spaces",
    multiple=True,
    metavar="S",
    help="Only this space; may be given several times. Default: all.",
)
tier = click.option(
    "--tier",
    metavar="TIER",
    help="The tier in force: core, writer_pro, teams or enterprise. Default: everything is allowed.",
)
model = click.option(
    "--model",
    metavar="NAME",
    help="Whose tokens are counted, or a path to a tokenizer.json. Default: the setting, else gpt-4.",
)
filters = options(
    click.option(
        "--type",
        "types",
        multiple=True,
        metavar="T",
        help="Only items of this type; may be given several times.",
    ),
    click.option(
        "--exclude-type",
        "exclude_types",
        multiple=True,
        metavar="T",
        help="No items of this type; may be given several times.",
    ),
    click.option(
        "--tag",
        "tags",
        multiple=True,
        metavar="T",
        help="Only items with this tag, or one of several.",
    ),
    click.option(
        "--limit",
        type=int,
        metavar="N",
        help="How many candidates, at most. Default: 10 for search, as the recipe says for a context.",
    ),
    click.option(
        "--mode",
        type=click.Choice(["hybrid", "bm25", "vector", "walk"]),
        help="Search by words and meaning (hybrid), only words, only meaning, or with links (walk).",
    ),
    click.option(
        "--min-score", type=float, metavar="X", help="Only what scores at least this, from 0 to 1."
    ),
    click.option(
        "--as-of", type=time, metavar="TIME", help="As it was known and valid at that time."
    ),
)
asking = options(
    click.argument("query"),
    several_spaces,
    click.option(
        "--max-tokens",
        type=budget,
        metavar="N|none",
        help="The budget; none for no limit. Default: the setting, else 2000.",
    ),
    click.option(
        "--recipe",
        metavar="NAME",
        help="How it is gathered: see knowloom recipes. Default: knowledge.",
    ),
    click.option(
        "--agent",
        metavar="NAME",
        help="The agent that asks, instead of a recipe: see knowloom agents. It has a budget and a format of its own.",
    ),
    tier,
    click.option(
        "--format",
        metavar="NAME",
        help="json, markdown, plain or yaml. Default: the setting, else markdown.",
    ),
    model,
    click.option(
        "--entity",
        metavar="ID",
        help="The entity the agent works for, such as user:maya: its profile and its links count.",
    ),
    filters,
    click.option("--depth", type=int, metavar="N", help="How many links to follow."),
    click.option(
        "--paths",
        is_flag=True,
        help='Say in the text by which links an item came, by titles: "A" mentions "B".',
    ),
    click.option(
        "--now",
        type=time,
        metavar="TIME",
        help="The time of the request, for answers that can be repeated byte by byte.",
    ),
)
