"""`knowloom.open`: an engine from a URL and settings."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from knowloom.agents import resolve_agents
from knowloom.caching import Caching
from knowloom.embedders.queries import QUERY_TIMEOUT_S
from knowloom.embedding import PassageSizing
from knowloom.engine import Engine
from knowloom.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unavailable,
    hide_secrets,
    unknown_name,
    unknown_space,
)
from knowloom.files import KEYS_SUFFIX, RECORDS_SUFFIX, sibling_path, store_file
from knowloom.linking.name_finders import BUILTIN, FinderResolver
from knowloom.operations.backups import Restored, write_keys
from knowloom.operations.copying import Copied, CopyPlan, copy_stores
from knowloom.ports import (
    HIDDEN_SPACES,
    BackupHeader,
    Embedder,
    NameFinder,
    Progress,
    Reranker,
    Salvaged,
    Stores,
)
from knowloom.recipes import Agent
from knowloom.registry import (
    check_roles,
    load_restorer,
    open_name_finder,
    open_stores,
    resolve_embedder,
    resolve_name_finder,
    resolve_reranker,
    unpack_profiles,
)
from knowloom.rerankers.guard import TIMEOUT_S, RerankGuard
from knowloom.retrieval.reranking import LIMIT, MAX_LIMIT, WEIGHT, Reranking
from knowloom.retrieval_settings import RetrievalSettings, resolve_settings
from knowloom.secrets.rules import open_policy
from knowloom.validation import (
    validate_bool,
    validate_fraction,
    validate_int,
    validate_names,
    validate_positive,
)

log = logging.getLogger(__name__)

STORE = "store"
LAYERS = ("metadata", "words", "vectors", "graph")

Setup = str | Path | Mapping[str, str] | Engine


def open(
    url: str | Path,
    *,
    embedder: str | Embedder | None = "minilm",
    embedder_settings: dict[str, Any] | None = None,
    links: Sequence[str] | None = None,
    names: str | NameFinder | None = None,
    secrets: str = "auto",
    secret_rules: str | Path | None = None,
    cache: str | Path | Caching = "",
    agents: str | Path | Sequence[Agent] = (),
    retrieval: str | Path | Mapping[str, float] | RetrievalSettings = "",
    passage_size: int | None = None,
    query_timeout_s: float = QUERY_TIMEOUT_S,
    rerank: str | Reranker | None = None,
    rerank_settings: Mapping[str, Any] | None = None,
    **roles: str,
) -> Engine:
    """Open knowledge: a path such as "knowledge.db", "memory:" or a URL.

    `metadata=` (profiles), `words=`, `vectors=` and `graph=` put a layer elsewhere, such as
    "file:profiles/". `embedder` is a name ("minilm", "openai:MODEL@URL"), an object, or None for
    words only; `rerank` a reranker of the best hits ("onnx:FOLDER", "cohere:MODEL", an object).
    `links` selects the automatic edges ([] for none), `names` a name finder for them. `secrets` is
    the policy: "refuse", "redact", "flag", "allow". `cache` is a file for embeddings; `agents` and
    `retrieval` are values or files. New texts are cut to `passage_size` characters.
    """
    policy, settings = open_policy(secrets, secret_rules), resolve_settings(retrieval)
    known_agents, reranking = resolve_agents(agents), _open_reranking(rerank, rerank_settings)
    opened_embedder = resolve_embedder(embedder, embedder_settings)
    finder = FinderResolver(resolve_name_finder(names, BUILTIN), open_name_finder)
    where = str(url) if isinstance(url, PurePath) else url
    return Engine(
        _open_stores(where, roles, opened_embedder, passage_size),
        opened_embedder,
        secrets=policy,
        links=links,
        caching=_resolve_caching(cache),
        agents=known_agents,
        retrieval=settings,
        naming=finder,
        records=sibling_path(where, RECORDS_SUFFIX) if store_file(where) else None,
        query_timeout_s=validate_positive("query_timeout_s", query_timeout_s),
        reranking=reranking,
    )


def copy(
    source: Setup,
    target: Setup,
    *,
    spaces: Sequence[str] | None = None,
    history: bool = True,
    progress: Progress | None = None,
) -> Copied:
    """Copy knowledge to other stores: items, edges, vectors and the history, verified by digests.

    Each side is a path or URL, a dict of URLs (`store`, and `metadata`, `words`, `vectors`, `graph`
    if they are elsewhere), or an open engine. An interrupted copy is continued by the next one, and
    what the target has is not written again. A target with other knowledge in one of the `spaces`
    (None: all) is refused.
    """
    validate_bool("history", history)
    names = None if spaces is None else validate_names("spaces", spaces)
    _check_distinct(source, target)
    with _open_setup(source, must_exist=True) as origin, _open_setup(target) as copies:
        if origin.items is copies.items:
            raise Invalid("the source and the target are the same store")
        plan = _plan_copy(origin, names, history, _describe_setup(source))
        return copy_stores(
            origin, copies, plan, lambda: datetime.now(UTC), open_name_finder, progress
        )


def restore(
    backup: str | Path,
    url: str | Path,
    *,
    overwrite: bool = False,
    keys: str | Path | None = None,
    **roles: str,
) -> Restored:
    """Restore a backup to a file: items, vectors, edges, history, and API keys if it has them.

    The backup is verified first. Existing files are replaced only with `overwrite`, and the
    knowledge only if no process has it open. `keys` is the file of the keys, by default the one
    beside the knowledge. A backup of several stores is restored to several: name them as in `open`.
    """
    source, where = Path(backup), roles.pop("items", str(url))
    adapter, target = load_restorer(where), store_file(where)
    if target is None:
        raise Invalid(f"a backup can be restored to a file only, got {where!r}", "unsupported")
    check_roles(where, roles)
    header, is_allowed = adapter.read_backup(source), validate_bool("overwrite", overwrite)
    key_file = sibling_path(where, KEYS_SUFFIX) if keys is None else Path(keys)
    if "keys" in header.files and key_file.exists() and not is_allowed:
        raise Conflict(f"{str(key_file)!r} exists: pass overwrite to replace it", "exists")
    with _unpack_profiles(header, source, roles, is_allowed):
        adapter.restore(source, target, is_allowed)
    if "keys" in header.files:
        write_keys(key_file, header.files["keys"])
    written = str(key_file) if "keys" in header.files else ""
    metadata, problems = roles.get("metadata", ""), _rewrite_layers(where, roles)
    return Restored(str(target), header.at, written, metadata, problems)


def _unpack_profiles(
    header: BackupHeader, backup: Path, roles: Mapping[str, str], overwrite: bool
) -> AbstractContextManager[None]:
    """Return a block at whose end the profiles are restored, if they have a store of their own."""
    has_profiles = "metadata" in header.files
    if has_profiles and "metadata" not in roles:
        raise Invalid(
            f"the backup {str(backup)!r} has profiles of a store of their own: name the store to "
            "restore them to as metadata",
            "metadata",
        )
    if "metadata" in roles and not has_profiles:
        raise Invalid(
            f"the backup {str(backup)!r} has no profiles of a store of their own: restore it "
            "without metadata",
            "metadata",
        )
    if not has_profiles:
        return nullcontext()
    return unpack_profiles(header.files["metadata"], roles["metadata"], overwrite)


def _rewrite_layers(url: str, roles: Mapping[str, str]) -> tuple[str, ...]:
    """Write the layers anew after a restore; return the reasons why some could not be."""
    if not roles.keys() - {"metadata"}:
        return ()
    stores = open_stores(url, roles)
    with closing(stores.items):
        try:
            if stores.composite is not None:
                stores.composite.repair(datetime.now(UTC))
        except (Unavailable, Conflict) as error:
            return (f"a layer could not be written anew, run reindex: {error}",)
    return ()


def repair(damaged: str | Path, to: str | Path) -> Salvaged:
    """Write everything that can be read from a damaged file to a new one, and report the rest.

    The damaged file stays as it is.
    """
    source, target = store_file(str(damaged)), store_file(str(to))
    if source is None or target is None:
        raise Invalid(f"repair needs two files, got {str(damaged)!r} and {str(to)!r}")
    if not source.is_file():
        raise NotFound(f"no file {str(source)!r}")
    salvaged: Salvaged = load_restorer(str(damaged)).salvage(source, target, datetime.now(UTC))
    return salvaged


def _open_reranking(
    rerank: str | Reranker | None, settings: Mapping[str, Any] | None
) -> Reranking | None:
    """Open the reranker behind a guard, None for none; the settings are checked in any case."""
    if not isinstance(settings, Mapping | None):
        raise Invalid(f"rerank_settings must be a dict, got {settings!r}")
    others = dict(settings or {})
    limit = validate_int("rerank limit", others.pop("limit", LIMIT), 1, MAX_LIMIT)
    weight = validate_fraction("rerank weight", others.pop("weight", WEIGHT))
    timeout_s = validate_positive("rerank timeout_s", others.get("timeout_s", TIMEOUT_S))
    is_server = isinstance(rerank, str) and not rerank.startswith("onnx")
    if not is_server:
        others.pop("timeout_s", None)
    reranker = resolve_reranker(rerank, others)
    if reranker is None:
        return None
    return Reranking(RerankGuard(reranker, timeout_s), limit, weight)


def _open_stores(
    url: str, roles: Mapping[str, str], embedder: Embedder | None, passage_size: int | None
) -> Stores:
    """Open the stores; close them again if they have another passage size."""
    stores = open_stores(url, roles)
    with ExitStack() as stack:
        for store in stores.unique():
            stack.callback(store.close)
        try:
            PassageSizing(stores, embedder).fit(passage_size)
        except Unavailable as error:
            if not error.layer:
                raise
            log.warning("the passage size was not compared with the stored one: %s", error)
        stack.pop_all()
    return stores


def _resolve_caching(cache: str | Path | Caching) -> Caching:
    if not isinstance(cache, str | PurePath | Caching):
        raise Invalid(f"cache must be a path or a Caching, got {cache!r}")
    return cache if isinstance(cache, Caching) else Caching(path=str(cache))


# Set-ups to copy


def _plan_copy(source: Stores, names: Sequence[str] | None, history: bool, origin: str) -> CopyPlan:
    stored = [info.name for info in source.items.spaces() if info.name not in HIDDEN_SPACES]
    for name in names or ():
        if name not in stored:
            raise unknown_space(name, stored)
    selected = stored if names is None else dict.fromkeys(names)
    return CopyPlan(tuple(selected), names is None, history, origin)


def _urls(setup: Setup) -> dict[str, str]:
    """Return the URLs of a set-up by role; none for an engine, whose stores are open."""
    if isinstance(setup, Engine):
        return {}
    if isinstance(setup, str | PurePath):
        return {STORE: str(setup)}
    if not isinstance(setup, Mapping) or STORE not in setup:
        rule = f"a path, a URL, a dict with {STORE!r} and layers, or an Engine"
        raise Invalid(f"knowledge to copy must be {rule}, got {setup!r}")
    for role in setup:
        if role not in (STORE, *LAYERS):
            raise unknown_name("role", role, (STORE, *LAYERS))
    return {role: str(url) for role, url in setup.items() if url}


def _describe_setup(setup: Setup) -> str:
    return "another engine" if isinstance(setup, Engine) else hide_secrets(_urls(setup)[STORE])


def _check_distinct(source: Setup, target: Setup) -> None:
    """Refuse a target that has a store in common with the source."""
    places = {_place(url): url for url in _urls(source).values()}
    for url in _urls(target).values():
        if _place(url) in places and not url.startswith("memory:"):
            raise Invalid(f"the source and the target have {hide_secrets(url)!r} in common")


def _place(url: str) -> str:
    file = store_file(url)
    return url if file is None else str(file.resolve())


@contextmanager
def _open_setup(setup: Setup, *, must_exist: bool = False) -> Iterator[Stores]:
    """Open the stores until the end of the block; those of an engine stay open."""
    if isinstance(setup, Engine):
        if setup.reader.is_restricted:
            raise Forbidden("a restricted engine cannot be copied: it sees a part of the store")
        yield setup.reader.stores
        return
    layers = _urls(setup)
    url = layers.pop(STORE)
    file = store_file(url)
    if must_exist and file is not None and not file.is_file():
        raise NotFound(f"no file {str(file)!r}", "no_file")
    stores = open_stores(url, layers)
    try:
        yield stores
    finally:
        for store in stores.unique():
            store.close()
