"""One run of the program: open the knowledge, and print results and errors."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

import click

from knowloom import config
from knowloom.cli.streams import standard_output
from knowloom.errors import Invalid, KnowloomError, NotFound, hide_secrets, unknown_name
from knowloom.files import sibling_path, store_file
from knowloom.wire import JsonObject
from knowloom.wire.knowledge import error_to_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from knowloom.caching import Caching
    from knowloom.capabilities.memory.analytics import Analytics
    from knowloom.engine import Engine
    from knowloom.model import Problem
    from knowloom.ports import LLMSettings, Progress

SPACE_ADVICE = ", with --space S, which may be repeated to search several"
PART_SETTINGS = ("metadata", "words", "vectors", "graph")  # parts that may be in another store


class AnalyticsSettings(TypedDict):
    """The file of the analytics of memory, and whether queries are stored in it."""

    analytics: str
    analytics_text: bool


class ServerSettings(AnalyticsSettings):
    """Settings of a server: also its limits, and its language model with its key and timeout."""

    rate_limits: str
    llm: str
    llm_api_key: str
    llm_timeout_s: float
    cors_origins: str


class WarningCollector(logging.Handler):
    """Collects the engine's warnings, for results that have no field for them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@dataclass(frozen=True, slots=True)
class Session:
    """The shared options of one run, the settings, and the standard streams."""

    db: str | None
    embedder: str | None
    as_json: bool
    no_color: bool
    warnings: WarningCollector = field(default_factory=WarningCollector)

    def settings(self) -> config.Settings:
        return config.load(os.environ)

    def with_defaults(self, options: Mapping[str, Any], *names: str) -> dict[str, Any]:
        """Return the options, with the settings of these names for those that are not set."""
        settings = self.settings()
        return {name: getattr(settings, name) for name in names} | dict(options)

    # Opening the knowledge

    def open(
        self, *, create: bool = False, needs_embedder: bool = True, needs_names: bool = False
    ) -> Engine:
        """Open the knowledge. Commands that only read must not `create` it.

        The embedder and the name finder are loaded only if needed: it takes a while.
        """
        opener = self.opener(create=create, needs_embedder=needs_embedder, needs_names=needs_names)
        engine = opener()
        self.warn(*self.warnings.messages)  # such as that the file was upgraded
        self.warnings.messages.clear()
        return engine

    def opener(
        self, *, create: bool = False, needs_embedder: bool = True, needs_names: bool = False
    ) -> Callable[[], Engine]:
        """Return a picklable function that opens the knowledge."""
        import knowloom

        settings, url = self.settings(), self.url()
        parts, file = self._part_urls(settings), store_file(url)
        if not create and file is not None and (reason := _no_knowledge_in(file)):
            option = "" if self.db is None else f" --db {url}"
            raise NotFound(f"{reason}; load some first: knowloom load PATH{option}", "no_file")
        names = ("secrets", "secret_rules", "agents", "retrieval")
        return partial(
            knowloom.open,
            url,
            embedder=self.embedder_name() if needs_embedder else None,
            embedder_settings=self.embedder_settings(),
            links=_parse_links(settings.links),
            names=(settings.names if create or needs_names else "") or None,
            cache=self._caching(),
            query_timeout_s=settings.query_timeout_s,
            rerank=settings.rerank if needs_embedder else None,
            rerank_settings=_rerank_settings(settings),
            passage_size=(settings.passage_size if create else 0) or None,
            **{name: getattr(settings, name) for name in names},
            **parts,
        )

    def url(self) -> str:
        return self.db or self.settings().store

    def location(self) -> str:
        """Return the absolute path of the knowledge, or its URL without a password."""
        file = store_file(self.url())
        return str(file.absolute()) if file else hide_secrets(self.url())

    def urls(self) -> list[str]:
        """Return the URL of every store in use, the main one first."""
        return [self.url(), *self.roles().values()]

    def roles(self) -> dict[str, str]:
        """Return the stores of the parts that the settings put elsewhere, by role."""
        return self._part_urls(self.settings())

    def llm_settings(self) -> LLMSettings:
        settings = self.settings()
        key = settings.llm_api_key or settings.openai_api_key
        return {"api_key": key, "timeout_s": settings.llm_timeout_s}

    def server_settings(self) -> ServerSettings:
        """Return the settings of a server for its limits, its language model and analytics."""
        settings = self.settings()
        return {
            **self.analytics_settings(),
            "rate_limits": settings.rate_limits,
            "cors_origins": settings.cors_origins,
            "llm": settings.llm,
            "llm_api_key": settings.llm_api_key or settings.openai_api_key,
            "llm_timeout_s": settings.llm_timeout_s,
        }

    def embedder_name(self) -> str:
        return self.embedder or self.settings().embedder

    def embedder_settings(self) -> dict[str, Any]:
        if not self.embedder_name().startswith("openai"):
            return {}
        settings = self.settings()
        return {"api_key": settings.openai_api_key, "timeout_s": settings.timeout_s}

    def sibling_path(self, setting: str, suffix: str) -> str:
        """Resolve a file setting: "beside" is a file next to the knowledge.

        For a store that is not a file, it is in the current folder.
        """
        return str(sibling_path(self.url(), suffix)) if setting == "beside" else setting

    def analytics_settings(self) -> AnalyticsSettings:
        """Return the file of the analytics of memory, "" for none, and whether it has queries."""
        settings = self.settings()
        if settings.analytics_text not in ("yes", "no"):
            raise unknown_name("analytics_text", settings.analytics_text, ("yes", "no"))
        path = self.sibling_path(settings.analytics, ".analytics")
        return {"analytics": path, "analytics_text": settings.analytics_text == "yes"}

    def analytics(self, *, create: bool = True) -> Analytics | None:
        """Open the analytics of memory if the settings enable them; None without a file to read."""
        settings = self.analytics_settings()
        path = settings["analytics"]
        if not path or not (create or Path(path).exists()):
            return None
        from knowloom.capabilities.memory.analytics import Analytics

        return Analytics(path, settings["analytics_text"])

    def _caching(self) -> Caching:
        from knowloom.caching import Caching

        settings = self.settings()
        return Caching(
            ttl_s=settings.embedding_cache_ttl_s or None,
            path=self.sibling_path(settings.embedding_cache, ".embeddings"),
            disk_size=settings.embedding_cache_size,
        )

    def _part_urls(self, settings: config.Settings) -> dict[str, str]:
        """Return the parts kept in other stores, which belong to the store of the settings."""
        parts = {name: url for name in PART_SETTINGS if (url := getattr(settings, name))}
        if parts and self.db not in (None, settings.store):
            shown = hide_secrets(str(self.db))
            raise Invalid(
                f"--db {shown!r} is not the store whose {', '.join(parts)} the settings name: "
                "set KNOWLOOM_STORE, or clear those settings"
            )
        return parts

    # Printing

    @contextmanager
    def progress(self) -> Iterator[Progress | None]:
        if self.as_json:
            yield None
            return
        from knowloom.cli import console

        stderr = console.create_console(stderr=True, no_color=self.no_color)
        with console.show_progress(stderr) as progress:
            yield progress

    def output(
        self, row: JsonObject, render: Callable[[ModuleType], Sequence[RenderableType]]
    ) -> None:
        """Print the row as JSON, or what `render` returns for the module `tables`.

        rich is imported only for the latter.
        """
        if self.as_json:
            return self.write_json(row)
        from knowloom.cli import tables

        return self.print(*render(tables))

    def write_json(self, row: JsonObject) -> None:
        self.write_text(json.dumps(row, ensure_ascii=False, indent=2) + "\n")

    def write_text(self, text: str) -> None:
        """Write the text unchanged to a file or pipe.

        A terminal gets a final newline and no control characters.
        """
        if sys.stdout.isatty():
            from knowloom.cli import console

            text = console.replace_control(text).removesuffix("\n") + "\n"
        with standard_output() as out:
            out.write(text)  # click.echo would remove what looks like a colour

    def print(self, *renderables: RenderableType, stderr: bool = False) -> None:
        from knowloom.cli import console

        with nullcontext() if stderr else standard_output():
            target = console.create_console(stderr=stderr, no_color=self.no_color)
            console.print_lines(target, *renderables)

    def info(self, text: str) -> None:
        self._print_line(text, "cyan")

    def warn(self, *texts: str) -> None:
        for text in texts:
            self._print_line(f"warning: {text}", "yellow")

    def warn_degraded(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            line = f"{problem.part}: {problem.reason}"
            if problem.severity == "notice":
                self.info(f"note: {line}")
            else:
                self.warn(line)

    def error(self, text: str) -> None:
        self._print_line(f"error: {' '.join(text.split())}", "red")

    def fail(self, error: KnowloomError) -> NoReturn:
        if self.as_json:
            self.write_json(error_to_json(error))
        advice = SPACE_ADVICE if error.code == "several_spaces" else ""
        self.error(f"{error}{advice}")
        raise click.exceptions.Exit(1)

    def _print_line(self, text: str, color: str) -> None:
        """Print a line on standard error."""
        is_plain = self.no_color or bool(os.environ.get("NO_COLOR"))
        click.secho(text, fg=color, err=True, color=False if is_plain else None)


def _parse_links(setting: str) -> list[str] | None:
    if not setting:
        return None
    return [] if setting == "none" else [name.strip() for name in setting.split(",")]


def _rerank_settings(settings: config.Settings) -> dict[str, Any]:
    values = {
        name: getattr(settings, f"rerank_{name}") for name in ("limit", "weight", "timeout_s")
    }
    is_server = settings.rerank and not settings.rerank.startswith("onnx")
    return values | ({"api_key": settings.rerank_api_key} if is_server else {})


def _no_knowledge_in(file: Path) -> str:
    """Return the reason why the file cannot be read yet, or "".

    A first write that failed leaves an empty file; opening it would turn it into a store.
    """
    if not file.exists():
        where = "" if file.is_absolute() else f" in {str(Path.cwd())!r}"
        return f"no file {str(file)!r}{where}"
    wal = Path(f"{file}-wal")  # SQLite writes here first
    has_wal = wal.exists() and wal.stat().st_size
    is_empty = file.is_file() and not file.stat().st_size and not has_wal
    return f"no knowledge in {str(file)!r}: the file is empty" if is_empty else ""
