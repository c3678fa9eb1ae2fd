"""Settings: the one place that reads the environment and knowloom.toml, into one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from knowloom.errors import Invalid, unknown_name
from knowloom.files import read_toml

FILE = "knowloom.toml"
TABLES = ("agents", "retrieval")  # settings that name a file, or are tables of knowloom.toml itself


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. The environment variable KNOWLOOM_<NAME> takes precedence over the file."""

    store: str = "knowledge.db"  # path or URL of the knowledge
    metadata: str = ""  # URL of the profiles, if they are stored elsewhere
    words: str = ""  # URL of the text index, if it is stored elsewhere
    vectors: str = ""  # URL of the vectors, if they are stored elsewhere
    graph: str = ""  # URL of the edges that requests follow, if they are stored elsewhere
    embedder: str = "minilm"  # or "bge-small", "onnx:FOLDER", "openai:MODEL@URL", "none": models.md
    openai_api_key: str = field(default="", repr=False)  # of embedders; OPENAI_API_KEY works too
    llm: str = ""  # language model: "openai:MODEL" or "openai:MODEL@URL"; "" for none
    llm_api_key: str = field(default="", repr=False)  # of the LLM, if not openai_api_key
    llm_timeout_s: float = 120.0  # seconds for one answer of the LLM
    timeout_s: float = 30.0  # seconds for every other call that can wait
    query_timeout_s: float = 2.0  # seconds for embedding a query by a server; then words only
    rerank: str = ""  # "onnx:FOLDER", "cohere:MODEL", "jina:MODEL", "tei:URL": rerankers.md
    rerank_api_key: str = field(default="", repr=False)  # of the server that reranks
    rerank_limit: int = 30  # hits that the reranker scores
    rerank_weight: float = 0.3  # of the reranker's score, beside that of the search
    rerank_timeout_s: float = 5.0  # seconds for reranking; then the order is that of the search
    model: str = "gpt-4"  # model whose tokens are counted
    max_tokens: int = 2000  # budget of a context
    format: str = "markdown"  # of a context; or "plain", "yaml", "json"
    secrets: str = "refuse"  # items that contain a secret; "allow": store them: secrets.md
    secret_rules: str = ""  # a TOML file with more rules for secrets
    # Rules for automatic edges: "shared_tag,similar,mentions", any of docs/links.md, or "none";
    # "": those used before, at first all.
    links: str = ""
    # A name finder for automatic edges: "spacy:PIPELINE", or "builtin" for none; "": as before.
    names: str = ""
    passage_size: int = 0  # characters that new knowledge is cut to; 0: 800, or the stored size
    embedding_cache: str = ""  # a file for vectors of texts; "beside": one beside the knowledge
    embedding_cache_size: int = 1_000_000  # vectors in the embedding cache
    embedding_cache_ttl_s: float = 0.0  # seconds that cached vectors are valid; 0: for ever
    analytics: str = ""  # a file with statistics of memory searches, or "beside"; "" for none
    analytics_text: str = "no"  # "yes": analytics store the queries too
    agents: str = ""  # a TOML or YAML file with agents, or tables [agents.NAME] of knowloom.toml
    retrieval: str = ""  # a TOML file with a table [retrieval], as `knowloom tune` writes it


def load(environ: Mapping[str, str], folder: Path = Path(".")) -> Settings:
    """Return the defaults, overridden by knowloom.toml, overridden by the environment.

    KNOWLOOM_CONFIG names another file than the knowloom.toml of the folder.
    """
    settings = Settings()
    path = Path(environ.get("KNOWLOOM_CONFIG", folder / FILE))
    if path.is_file():
        values = read_toml(path)
        inline = {name: str(path) for name in TABLES if isinstance(values.get(name), dict)}
        settings = _override(settings, {**values, **inline}, str(path))
    elif "KNOWLOOM_CONFIG" in environ:
        raise Invalid(f"KNOWLOOM_CONFIG must be a file, got {str(path)!r}")
    variables = {setting.name: f"KNOWLOOM_{setting.name.upper()}" for setting in fields(Settings)}
    overrides = {
        name: environ[variable] for name, variable in variables.items() if variable in environ
    }
    if "OPENAI_API_KEY" in environ:
        overrides.setdefault("openai_api_key", environ["OPENAI_API_KEY"])
    return _override(settings, overrides, "environment")


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
