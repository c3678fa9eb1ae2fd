"""`Engine`: store knowledge, search it, and build contexts from it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from types import EllipsisType
from typing import Self, Unpack

from knowloom import agents, validation
from knowloom.axioms.checker import Checked, check_spaces
from knowloom.caching import Caching
from knowloom.commit import Committer
from knowloom.context.item_pages import ItemPage
from knowloom.embedders.queries import QUERY_TIMEOUT_S
from knowloom.embedding import EmbeddingService
from knowloom.errors import Forbidden
from knowloom.filters.condition_json import WhereArgument, validate_where
from knowloom.history import History
from knowloom.linking.linker import Linker
from knowloom.linking.name_finders import FinderResolver
from knowloom.loading import diff, provenance, readers
from knowloom.loading.loader import Loader
from knowloom.loading.readers import LoadSource
from knowloom.loading.sources.file_records import FileRecords
from knowloom.maintenance import Maintenance
from knowloom.model import Context, Edge, Filter, Hits, Item, Key
from knowloom.options import (
    ContextArguments,
    ContextOptions,
    ReadArguments,
    SearchArguments,
    parse_search_options,
    validate_ids,
    validate_limit,
)
from knowloom.ports import HIDDEN_SPACES, LLM, Batch, Embedder, Progress, Stores
from knowloom.reader import Reader
from knowloom.recipes import Agent
from knowloom.report import Report
from knowloom.retrieval.reranking import Reranking
from knowloom.retrieval.restriction import Restriction, restrict_stores
from knowloom.retrieval_settings import (
    DEFAULT_SETTINGS,
    RetrievalSettings,
    resolve_settings,
    validate_kinds,
)
from knowloom.secrets.policy import SecretPolicy
from knowloom.secrets.rules import open_policy
from knowloom.structuring import pipeline
from knowloom.structuring.pipeline import IngestArguments, Ingested
from knowloom.tiers import check_full, resolve_tier

log = logging.getLogger(__name__)


class Engine:
    """Knowledge opened by `knowloom.open`, until `close` or the end of a `with` block.

    `maintenance` embeds, links and counts; `history` shows and restores earlier states; `reader`
    is for capabilities, which retrieve by their own recipes. A call that names no space is about
    the only one, or the one named "default".
    """

    def __init__(
        self,
        stores: Stores,
        embedder: Embedder | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        secrets: SecretPolicy | None = None,
        links: Sequence[str] | None = None,
        caching: Caching | None = None,
        agents: Mapping[str, Agent] = agents.AGENTS,
        retrieval: RetrievalSettings = DEFAULT_SETTINGS,
        naming: FinderResolver | None = None,
        records: Path | None = None,
        query_timeout_s: float = QUERY_TIMEOUT_S,
        reranking: Reranking | None = None,
    ) -> None:
        self._stores, self.agents = stores, agents  # agents by name
        self.retrieval = retrieval
        self._secrets = open_policy() if secrets is None else secrets
        self._embedding = EmbeddingService(stores, embedder, caching, query_timeout_s)
        self._records = records  # default folder of check-in records
        linker = Linker(stores, links, naming)
        self._commits = Committer(stores, self._embedding, linker, clock)
        self.reader = Reader(stores, self._embedding, clock, reranking)
        self.maintenance = Maintenance(self.reader, self._embedding, linker, self._commits, records)
        self.history = History(self.reader, self._commits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the stores, unless this process was forked: its parent uses their connections."""
        if not self._commits.is_forked():
            for store in self._stores.unique():
                store.close()
            self._embedding.close()
            self.reader.close()

    def with_retrieval(self, retrieval: RetrievalSettings) -> Engine:
        """Return an engine on the same stores with other settings; closing either closes both."""
        other = copy(self)
        other.retrieval = resolve_settings(retrieval)
        return other

    # Writing

    def add(
        self,
        items: Item | Iterable[Item],
        edges: Iterable[Edge] = (),
        *,
        vectors: Sequence[Sequence[float]] | None = None,
        embed: bool = True,
        expected: Mapping[Key, str] | None = None,
        secrets: str | None = None,
    ) -> Report:
        """Store items and edges in one transaction.

        Words are searchable at once. Vectors are computed before this returns, unless `embed` is
        False (`maintenance.embed` does it later) or ready `vectors` are passed, one per item.
        `expected` maps keys to versions (see `history.version`) that must still be stored, "" for
        items that must not exist; else Conflict is raised. `secrets` is the policy of this call.
        """
        screening = self._secrets.screen(secrets)
        values = [items] if isinstance(items, Item) else items
        candidates = self.reader.fill_space(validation.validate_iterable("items", values))
        new = [screening.screen_item(item) for item in candidates]
        links = self.reader.fill_space(validation.validate_iterable("edges", edges), new)
        new_edges = [screening.screen_edge(edge) for edge in links]
        diff.reject_duplicates(new, new_edges)
        ready = self._embedding.validate_vectors(new, vectors)
        diff.reject_dangling(new_edges, {item.key for item in new}, self.reader.stores)
        report = self._commits.write(new, new_edges, expected)
        problems = self._embedding.put_vectors(ready)
        spaces, embed = sorted({item.space for item in new}), embed and vectors is None
        touched = sorted({edge.space for edge in new_edges}.union(spaces))
        problems += self._commits.catch_up(touched, embed=embed, embed_spaces=spaces)
        return report + Report(problems=(*screening.notes, *problems))

    def load(
        self,
        source: LoadSource,
        *,
        space: str | None = None,
        embed: bool = True,
        keep: bool = False,
        follow_links: bool = False,
        secrets: str | None = None,
        progress: Progress | None = None,
    ) -> Report:
        """Store the rows of a file, a folder or a dict; invalid rows are skipped and reported.

        Loading the same file or folder again writes the differences, and deletes items that are no
        longer in it unless `keep` is True. `follow_links` reads links out of the folder, too;
        `secrets` is the policy of this call.
        """
        screening = self._secrets.screen(secrets)
        default = readers.default_space(source, space, self.reader.choose_space)
        files = FileRecords(screening.fingerprint)
        parts = readers.list_parts(source, space, follow_links, default, files)
        origin = provenance.identify_source(source, space)
        stores, parse, now = self.reader.stores, screening.parse_row, self.reader.now()
        write, refused = self._commits.apply, screening.refused
        loading = Loader(stores, parse, write, now, origin, progress, files, refused)
        report = loading.run(parts, keep)
        # Unchanged spaces too: an earlier load may have been interrupted before it embedded them.
        spaces, catch_up = sorted({space for space, _ in loading.seen.keys}), self._commits.catch_up
        touched = sorted(loading.spaces.union(spaces))
        problems = catch_up(touched, embed=embed, embed_spaces=spaces, progress=progress)
        return report + Report(problems=(*screening.notes, *problems))

    def ingest(
        self,
        text: str,
        *,
        llm: LLM,
        space: str | None = None,
        record_dir: str | Path | EllipsisType | None = ...,
        entity: str | None = None,
        now: datetime | None = None,
        embed: bool = True,
        progress: Progress | None = None,
        **options: Unpack[IngestArguments],
    ) -> Ingested:
        """Structure free text with a language model and store the result.

        Each run writes a check-in record to `record_dir`, by default beside the knowledge file;
        text that has a record is not sent to the model again. None writes no record. `entity` is
        the subject of the text. Options: source="", max_retries=3, max_chars=12000, again=False,
        dry_run=False.
        """
        records = self._records if isinstance(record_dir, EllipsisType) else record_dir
        at = validation.validate_time("now", self.reader.now() if now is None else now)
        target = self.reader.choose_space(space)
        request = pipeline.build_request(text, target, entity, records, at, options)
        return pipeline.ingest(request, llm, self._knowledge(embed, progress), progress)

    def replay(self, folder: str | Path, *, space: str | None = None, embed: bool = True) -> Report:
        """Load a check-in record again without a language model, by default into its space."""
        return pipeline.replay(folder, space, self._knowledge(embed, None))

    def delete(
        self,
        ids: str | Sequence[str],
        *,
        space: str | None = None,
        expected: Mapping[Key, str] | None = None,
    ) -> int:
        """Delete items with their vectors and edges; return how many existed."""
        space = self.reader.resolve_space(space)
        keys = [(space, id) for id in dict.fromkeys(validate_ids(ids))]
        deleted = tuple(item.key for item in self.reader.stores.items.get(keys))
        expectations = tuple((expected or {}).items())
        self._commits.apply(Batch(self.reader.now(), deleted=deleted, expected=expectations))
        self._commits.catch_up([space], embed=False)
        return len(deleted)

    def delete_edges(self, edges: Iterable[Edge]) -> int:
        """Delete explicit edges; return how many existed.

        An automatic edge would be added again: to forbid it, add the same edge with weight 0.
        """
        existing = self.reader.stores.graph.get_edges(validation.validate_edge_keys(edges))
        diff.reject_automatic(existing)
        keys = tuple(edge.key for edge in existing)
        self._commits.apply(Batch(self.reader.now(), deleted_edges=keys))
        self._commits.catch_up(sorted({edge.space for edge in existing}), embed=False)
        return len(existing)

    def reindex(self, progress: Progress | None = None, *, passage_size: int | None = None) -> int:
        """Rebuild words, vectors and automatic edges from the items; return the number of vectors.

        `passage_size` cuts the items anew. Without an embedder the vectors of items that stay as
        they are remain. Separate stores are first made consistent.
        """
        self._check_unrestricted("rebuild the indexes")
        self._embedding.resegment(passage_size)
        if self.reader.stores.composite is not None:
            self.reader.stores.composite.repair(self.reader.now())
        spaces = [info.name for info in self.reader.stores.items.spaces()]
        self.reader.stores.words.rebuild_words(self.reader.iterate_items(Filter(tuple(spaces))))
        embedded = self._embedding.embed_anew(self.reader.resolve_spaces(), progress)
        self.maintenance.relink(progress)
        return embedded

    # Reading

    def get(self, ids: str | Sequence[str], *, space: str | None = None) -> list[Item]:
        """Return the items in the order of the ids; unknown ids are omitted."""
        name = self.reader.resolve_space(space)
        return self.reader.stores.items.get([(name, id) for id in validate_ids(ids)])

    def read(
        self, id: str, *, space: str | Sequence[str] | None = None, **options: Unpack[ReadArguments]
    ) -> ItemPage:
        """Return a page of an item's text; `page.next` is the number of the next one.

        The item must be in exactly one of the spaces (None: of all). Pages consist of whole
        passages within `max_tokens`; `passage` opens the page of a passage, such as a hit's.
        """
        return self.reader.read(id, space=space, **options)

    def items(
        self,
        spaces: Sequence[str] | None = None,
        *,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        where: WhereArgument = None,
        limit: int | None = None,
        after: Key | None = None,
    ) -> Iterator[Item]:
        """Iterate over the items of the spaces (None: of all), ordered by (space, id).

        `limit` and `after`, the key of the last item seen, give one page.
        """
        names = tuple(self.reader.resolve_spaces(spaces))
        type_names = validation.validate_names("types", types)
        matching = Filter(names, validate_kinds(kinds), type_names, where=validate_where(where))
        return self.reader.iterate_items(matching, validate_limit(limit), after)

    def edges(
        self,
        spaces: Sequence[str] | None = None,
        *,
        automatic: bool | None = False,
        limit: int | None = None,
        after: Edge | None = None,
    ) -> Iterator[Edge]:
        """Iterate over explicit edges, automatic ones (True) or both (None), ordered by key.

        `limit` and `after`, the last edge seen, give one page.
        """
        names = self.reader.resolve_spaces(spaces)
        return self.reader.iterate_edges(names, automatic, validate_limit(limit), after)

    def search(
        self, text: str, *, spaces: Sequence[str] | None = None, **options: Unpack[SearchArguments]
    ) -> Hits:
        """Return the best items, best first. Filters apply before `limit`.

        The list has the `confidence` of the answer, and its problems as `degraded`. Mode "walk"
        also follows edges from the hits, for questions that need several items.
        Options are the fields of SearchOptions.
        """
        parsed = parse_search_options(options)
        return self.reader.search(text, spaces, parsed, self.retrieval)

    def context(
        self, text: str, *, spaces: Sequence[str] | None = None, **options: Unpack[ContextArguments]
    ) -> Context:
        """Return the best context for a text within `max_tokens`.

        Options are the fields of ContextOptions: `recipe` or `agent` select what is retrieved;
        `types`, `tags`, `kinds`, `mode`, `limit`, `min_score` and the weights change recipes that
        search, `depth` those that follow edges, `exclude_types` all of them.
        """
        return self.reader.build_context(text, spaces, self._resolve(options), self.retrieval)

    def explain(
        self,
        text: str,
        *,
        spaces: Sequence[str] | None = None,
        ids: str | Sequence[str] = (),
        **options: Unpack[ContextArguments],
    ) -> Context:
        """Return the same context as `context`, with a remedy for everything that was left out.

        `ids` are items whose absence is explained even if they are no candidates.
        """
        resolved = self._resolve(options)
        tier, explained_ids = resolve_tier(resolved.tier), validate_ids(ids)
        if ids and not tier.is_full:  # an explanation would reveal items beyond the tier
            check_full(tier, "explaining items by id")
        explained = explained_ids if tier.is_full else None
        return self.reader.build_context(text, spaces, resolved, self.retrieval, explained)

    def check(self, spaces: str | Sequence[str] | None = None) -> Checked:
        """Check the entities, edges and claims of the spaces against their stored axioms."""
        names = self.reader.resolve_spaces([spaces] if isinstance(spaces, str) else spaces)
        with self.reader.snapshot() as stores:
            return check_spaces(names, stores)

    def verify(self) -> list[str]:
        """Return a description of each inconsistency in the stored data."""
        self._check_unrestricted("verify the stored data")
        return self.reader.stores.items.verify()

    def _check_unrestricted(self, action: str) -> None:
        if self.reader.is_restricted:
            raise Forbidden(f"a restricted engine cannot {action}: it does not see all items")

    def _resolve(self, options: ContextArguments) -> ContextOptions:
        """Resolve the tier, which may be a lookup, and then the agent, once per request."""
        tier = resolve_tier(options.get("tier"))
        return agents.resolve_options(options, self.agents, tier)

    def _knowledge(self, embed: bool, progress: Progress | None) -> pipeline.IngestTarget:
        return pipeline.IngestTarget(
            lambda ids, space: self.reader.stores.items.get([(space, id) for id in ids]),
            lambda layers, space: self.load(layers, space=space, embed=embed, progress=progress),
            self._secrets.screen().screen_text,
        )


def restrict(kb: Engine, where: WhereArgument) -> Engine:
    """Return an engine that reads and writes only items that fulfil the conditions.

    All others, and their edges, are as if they were not stored, but their ids stay in use. Both
    engines have the same stores; closing either closes both.
    """
    restriction = Restriction(validate_where(where), HIDDEN_SPACES)
    other = copy(kb)
    other._stores = restrict_stores(kb._stores, restriction)
    other._embedding = kb._embedding.with_stores(other._stores)
    other._commits = kb._commits.restrict(restriction, other._embedding)
    other.reader = kb.reader.restrict(other._stores, other._embedding)
    other.maintenance = kb.maintenance.restrict(other.reader, other._embedding, other._commits)
    other.history = History(other.reader, other._commits)
    return other


def act_as(kb: Engine, actor: str) -> Engine:
    """Return an engine on the same stores whose changes are logged with this author."""
    other = copy(kb)
    other._commits = kb._commits.act_as(validation.validate_name("actor", actor))
    other.maintenance = kb.maintenance.act_as(other._commits)
    other.history = History(other.reader, other._commits)
    return other
