"""Settings: the one place that reads the environment and knowloom.toml, into one frozen value."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from knowloom.errors import HIDDEN, Invalid, hide_secrets, unknown_name
from knowloom.files import read_toml

FILE = "knowloom.toml"
DEFAULT = "default"
TEMPLATE_HEAD = """\
# Settings of knowloom. Each line "# name = value" has the default: remove the # to change it.
# The environment takes precedence over this file: KNOWLOOM_STORE for `store`.
# `knowloom config` shows all values and where they come from.
"""
TEMPLATE_TABLES = """\
## Numbers of retrieval, as `knowloom tune` writes them (docs/walk.md):
# [retrieval]
# walk_onward = 0.6
"""
# Passwords in URLs, and secrets in their parameters.
TABLES = ("agents", "retrieval")  # settings that name a file, or are tables of knowloom.toml itself


def _setting(default: Any, meaning: str, *, is_secret: bool = False) -> Any:
    return field(default=default, repr=not is_secret, metadata={"meaning": meaning})


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. The environment variable KNOWLOOM_<NAME> takes precedence over the file."""

    store: str = _setting("knowledge.db", "path or URL of the knowledge")
    metadata: str = _setting("", "URL of the profiles, if they are stored elsewhere")
    words: str = _setting("", "URL of the text index, if it is stored elsewhere")
    vectors: str = _setting("", "URL of the vectors, if they are stored elsewhere")
    graph: str = _setting("", "URL of the edges that requests follow, if they are stored elsewhere")
    embedder: str = _setting(
        "minilm",
        'embedding model; or "bge-small", "onnx:FOLDER", "openai:MODEL@URL", "none": models.md',
    )
    openai_api_key: str = _setting(
        "", "of embedders and LLMs; OPENAI_API_KEY works too", is_secret=True
    )
    llm: str = _setting("", 'language model: "openai:MODEL" or "openai:MODEL@URL"; "" for none')
    llm_api_key: str = _setting("", "of the LLM, if not openai_api_key", is_secret=True)
    llm_timeout_s: float = _setting(120.0, "seconds for one answer of the LLM")
    timeout_s: float = _setting(30.0, "seconds for every other call that can wait")
    query_timeout_s: float = _setting(
        2.0, "seconds for embedding a query by a server; then words only"
    )
    rerank: str = _setting(
        "", 'reranker: "onnx:FOLDER", "cohere:MODEL", "jina:MODEL", "tei:URL": rerankers.md'
    )
    rerank_api_key: str = _setting("", "of the server that reranks", is_secret=True)
    rerank_limit: int = _setting(30, "hits that the reranker scores")
    rerank_weight: float = _setting(0.3, "of the reranker's score, beside that of the search")
    rerank_timeout_s: float = _setting(
        5.0, "seconds for reranking; then the order is that of the search"
    )
    model: str = _setting("gpt-4", "model whose tokens are counted")
    max_tokens: int = _setting(2000, "budget of a context")
    format: str = _setting("markdown", 'of a context; or "plain", "yaml", "json"')
    api_key: str = _setting("", "of the server behind `knowloom mcp URL`", is_secret=True)
    secrets: str = _setting(
        "auto",
        'for texts with secrets: "refuse", "redact", "flag" or "allow"; "auto": redact the '
        "documents of a load, refuse all else: secrets.md",
    )
    secret_rules: str = _setting("", "a TOML file with more rules for secrets")
    links: str = _setting(
        "",
        'Rules for automatic edges: "shared_tag,similar,mentions", any of docs/links.md, '
        'or "none"; "": those used before, at first all.',
    )
    names: str = _setting(
        "",
        'A name finder for automatic edges: "spacy:PIPELINE", or "builtin" for none; '
        '"": as before.',
    )
    passage_size: int = _setting(
        0, "characters that new knowledge is cut to; 0: 800, or the stored size"
    )
    embedding_cache: str = _setting(
        "", 'a file for vectors of texts, or redis://…; "beside": a file beside the knowledge'
    )
    embedding_cache_size: int = _setting(1_000_000, "vectors in the embedding cache")
    embedding_cache_ttl_s: float = _setting(
        0.0, "seconds that cached vectors are valid; 0: for ever"
    )
    rate_limits: str = _setting(
        "", "the Redis (redis://…) in which several servers count the requests of a key"
    )
    cors_origins: str = _setting(
        "", 'sites whose pages may call the server: "https://app.example.com", or "*"'
    )
    analytics: str = _setting(
        "", 'a file with statistics of memory searches, or "beside"; "" for none'
    )
    analytics_text: str = _setting("no", '"yes": analytics store the queries too')
    agents: str = _setting(
        "", "a TOML or YAML file with agents, or tables [agents.NAME] of knowloom.toml"
    )
    retrieval: str = _setting(
        "", "a TOML file with a table [retrieval], as `knowloom tune` writes it"
    )


@dataclass(frozen=True, slots=True)
class TracedSetting:
    """A setting, its value, and where the value comes from: "default", a file or a variable."""

    name: str
    value: str | int | float
    origin: str
    default: object
    meaning: str
    is_secret: bool

    @property
    def shown(self) -> str:
        """The value as text, without secrets."""
        if self.is_secret:
            return HIDDEN if self.value else ""
        return hide_secrets(str(self.value))


def load(environ: Mapping[str, str], folder: Path = Path(".")) -> Settings:
    """Return the defaults, overridden by knowloom.toml, overridden by the environment.

    KNOWLOOM_CONFIG names another file than the knowloom.toml of the folder.
    """
    return _resolve(environ, folder)[0]


def trace(environ: Mapping[str, str], folder: Path = Path(".")) -> list[TracedSetting]:
    """Return every setting with the origin of its value; see `load`."""
    settings, origins = _resolve(environ, folder)
    return [
        TracedSetting(
            spec.name,
            getattr(settings, spec.name),
            origins.get(spec.name, DEFAULT),
            spec.default,
            spec.metadata["meaning"],
            not spec.repr,
        )
        for spec in fields(Settings)
    ]


def config_file(environ: Mapping[str, str], folder: Path = Path(".")) -> Path:
    """Return the path of the file with settings, which need not exist."""
    return Path(environ.get("KNOWLOOM_CONFIG", folder / FILE))


def template() -> str:
    """Return a file with every setting as a comment, with its meaning and its default."""
    lines = [TEMPLATE_HEAD]
    for spec in fields(Settings):
        meaning = textwrap.wrap(spec.metadata["meaning"], 96)
        if not spec.repr:
            meaning.append(f"Rather set it in the environment: KNOWLOOM_{spec.name.upper()}")
        lines += [f"## {line}" for line in meaning]
        lines += [f"# {spec.name} = {_to_toml(spec.default)}", ""]
    return "\n".join([*lines, TEMPLATE_TABLES])


def _to_toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _resolve(environ: Mapping[str, str], folder: Path) -> tuple[Settings, dict[str, str]]:
    """Return the settings, and the origin of those that have not their default."""
    settings, path = Settings(), config_file(environ, folder)
    origins: dict[str, str] = {}
    if path.is_file():
        values = read_toml(path)
        inline = {name: str(path) for name in TABLES if isinstance(values.get(name), dict)}
        settings = _override(settings, {**values, **inline}, str(path))
        origins = dict.fromkeys(values, str(path))
    elif "KNOWLOOM_CONFIG" in environ:
        raise Invalid(f"KNOWLOOM_CONFIG must be a file, got {str(path)!r}")
    variables = {spec.name: f"KNOWLOOM_{spec.name.upper()}" for spec in fields(Settings)}
    overrides = {name: variable for name, variable in variables.items() if variable in environ}
    if "OPENAI_API_KEY" in environ:
        overrides.setdefault("openai_api_key", "OPENAI_API_KEY")
    values = {name: environ[variable] for name, variable in overrides.items()}
    return _override(settings, values, "environment"), origins | overrides


def _override(settings: Settings, values: Mapping[str, Any], where: str) -> Settings:
    types = {setting.name: type(getattr(settings, setting.name)) for setting in fields(Settings)}
    converted = {}
    for name, value in values.items():
        if name not in types:
            raise Invalid(f"{where}: {unknown_name('setting', name, types)}")
        try:
            converted[name] = _convert(types[name], value)
        except (TypeError, ValueError):
            raise Invalid(
                f"{where}: {name} must be {types[name].__name__}, got {value!r}"
            ) from None
    return replace(settings, **converted)


def _convert(type_: type, value: object) -> Any:
    """Convert text, or accept a value of the type; a number is never rounded to fit."""
    is_accepted = isinstance(value, str) or type(value) is type_
    if not is_accepted and (type_, type(value)) != (float, int):
        raise TypeError
    return type_(value)
