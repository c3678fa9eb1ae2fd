"""Settings: the one place that reads the environment and knowloom.toml, once, into one frozen value."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from knowloom.errors import Invalid, unknown

FILE = "knowloom.toml"


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set. The environment variable of a setting is KNOWLOOM_ and its name in capitals; it wins over the file."""

    store: str = "knowledge.db"  # path or URL of the knowledge
    metadata: str = ""  # URL of the profiles, where they lie elsewhere than in the store
    words: str = ""  # the same for the words,
    vectors: str = ""  # the vectors
    graph: str = ""  # and the links
    embedder: str = "minilm"  # "minilm", "openai:MODEL", "openai:MODEL@URL" or "none"
    openai_api_key: str = field(default="", repr=False)  # OPENAI_API_KEY works too
    llm: str = ""  # structures free text: "openai:MODEL" or "openai:MODEL@URL"
    llm_api_key: str = field(default="", repr=False)  # where it is another than openai_api_key
    llm_timeout_s: float = 120.0  # of one answer of the LLM
    timeout_s: float = 30.0  # of every other call that can wait
    model: str = "gpt-4"  # whose tokens are counted
    max_tokens: int = 2000
    format: str = "markdown"
    secrets: str = "refuse"  # or "allow": knowledge that holds a secret
    secret_rules: str = ""  # a TOML file with rules of your own
    links: str = ""  # the links knowloom makes itself: "shared_tag,similar,mentions", any of docs/links.md, or "none"; "": as before, at first all
    names: str = ""  # what finds names in texts for links, besides knowloom: "spacy:PIPELINE" or "builtin" for nothing; "": as before
    embedding_cache: str = (
        ""  # a file that keeps vectors of texts, or "beside" for one beside the knowledge
    )
    embedding_cache_size: int = 1_000_000  # vectors in it
    embedding_cache_ttl_s: float = 0.0  # how long they are kept; 0: for ever
    analytics: str = ""  # a file that counts what memory is asked, or "beside"; "" for none
    analytics_text: str = "no"  # "yes": it keeps the questions, too
    agents: str = ""  # a TOML or YAML file with agents of your own; knowloom.toml may hold them itself, as tables [agents.NAME]
    retrieval: str = ""  # a TOML file with a table [retrieval], such as `knowloom tune` writes; knowloom.toml may hold the table itself


def load(environ: Mapping[str, str], folder: Path = Path(".")) -> Settings:
    """Defaults, then knowloom.toml in the folder (or the file that KNOWLOOM_CONFIG names), then the environment."""
    settings = Settings()
    path = Path(environ.get("KNOWLOOM_CONFIG", folder / FILE))
    if path.is_file():
        said = _read(path)
        inside = {
            name: str(path) for name in ("agents", "retrieval") if isinstance(said.get(name), dict)
        }
        settings = _with(settings, {**said, **inside}, str(path))
    elif "KNOWLOOM_CONFIG" in environ:
        raise Invalid(f"KNOWLOOM_CONFIG names {str(path)!r}, which does not exist")
    given = {
        one.name: environ[f"KNOWLOOM_{one.name.upper()}"]
        for one in fields(Settings)
        if f"KNOWLOOM_{one.name.upper()}" in environ
    }
    if "OPENAI_API_KEY" in environ:
        given.setdefault("openai_api_key", environ["OPENAI_API_KEY"])
    return _with(settings, given, "the environment")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}: not TOML: {error}") from None


def _with(settings: Settings, given: Mapping[str, Any], where: str) -> Settings:
    known = {one.name: type(getattr(settings, one.name)) for one in fields(Settings)}
    values = {}
    for name, value in given.items():
        if name not in known:
            raise Invalid(f"{where}: {unknown('setting', name, known)}")
        try:
            values[name] = _as(known[name], value)
        except (TypeError, ValueError):
            raise Invalid(
                f"{where}: {name} must be {known[name].__name__}, not {value!r}"
            ) from None
    return replace(settings, **values)


def _as(kind: type, value: object) -> Any:
    """The value as text says it, or as the file does; a number is never rounded to fit."""
    if (
        not isinstance(value, str)
        and type(value) is not kind
        and (kind, type(value)) != (float, int)
    ):
        raise TypeError
    return kind(value)
