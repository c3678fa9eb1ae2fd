"""One load of a file, a folder or a dict.

New and changed items are written first, then items that vanished from the source are deleted, then
edges are written and deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from knowloom import codec
from knowloom.loading import diff, provenance, source_rows, three_layer
from knowloom.loading.provenance import Claim, Claims
from knowloom.loading.source_rows import SeenItems, SkippedRows, SourcePart, SourceRow
from knowloom.loading.sources.file_records import FileRecords
from knowloom.model import Edge, EdgeKey, Item, Key, Kind
from knowloom.ports import PROVENANCE_SPACE, Batch, Progress, Stores
from knowloom.report import FileCount, Report, Skipped, add_counts

K = TypeVar("K", Key, EdgeKey)

BATCH_SIZE = 2000  # rows per write
BATCH_CHARACTERS = 8_000_000  # of the texts of a write


@dataclass(frozen=True, slots=True)
class ParsedRow:
    """A valid row, and the name of its file."""

    value: Item | Edge
    row: SourceRow
    part: str


@dataclass(slots=True)
class Loader:
    """A load in progress.

    `source_id` identifies the source; "" is a source without identity, of which nothing is deleted.
    """

    stores: Stores
    parse: Callable[[SourceRow], Item | Edge | Skipped]
    apply: Callable[[Batch], None]
    now: datetime
    source_id: str
    progress: Progress | None = None
    files: FileRecords = field(default_factory=FileRecords)
    refused: set[Key] = field(default_factory=set)  # items with a secret
    report: Report = field(default_factory=Report)
    previous: Claims = field(default_factory=Claims)  # what earlier loads of this source brought
    claims: Claims = field(default_factory=Claims)  # and what this load brings
    seen: SeenItems = field(default_factory=SeenItems)
    spaces: set[str] = field(default_factory=set)  # with writes or deletes
    failed: set[str] = field(default_factory=set)  # files with a row that could not be read
    _profiles: set[Key] = field(default_factory=set)  # that have come, or stay in any case
    # Nodes that wait until the end, when it is known if the source still has their profile.
    _nodes: dict[Key, ParsedRow] = field(default_factory=dict)
    _other_claims: Claims | None = None
    _pages: list[Item] = field(default_factory=list)
    _intact: dict[str, list[Key]] = field(default_factory=dict)  # items of files, as they came
    _is_parsed: bool = False  # a row of any file
    _skipped: list[Skipped] = field(default_factory=list)
    _refused_edges: int = 0
    _files: list[FileCount] = field(default_factory=list)

    def run(self, parts: Sequence[SourcePart], keep: bool) -> Report:
        """Load all parts; with `keep`, nothing is deleted."""
        if self.source_id:
            self.previous, self._pages = provenance.read_claims(self.source_id, self.stores)
            self.files.previous = self.previous.files
            self._intact = provenance.find_intact_files(self.previous, self.stores)
            self.files.is_intact = self._is_intact
        edges: list[ParsedRow] = []
        batch: list[ParsedRow] = []
        size = 0
        for row in self._parse_rows(parts):
            if isinstance(row.value, Edge):
                edges.append(row)
                continue
            batch.append(row)
            size += len(row.value.text)
            if len(batch) == BATCH_SIZE or size > BATCH_CHARACTERS:
                self._write_items(batch)
                batch, size = [], 0
        self._write_items(batch)
        self._write_waiting_nodes(keep)
        self._report_progress("items", len(self.seen.keys), len(self.seen.keys))
        self._delete_items(keep)
        self._write_edges(edges)
        self._delete_edges(keep)
        self._write_claims()
        self._skipped += source_rows.skip_edges(self._refused_edges)
        return self.report + Report(skipped=tuple(self._skipped), files=add_counts(self._files))

    def _parse_rows(self, parts: Sequence[SourcePart]) -> Iterator[ParsedRow]:
        """Yield the valid rows, each id once."""
        for number, part in enumerate(parts, 1):
            if part.is_links and self._keep_edges():
                continue
            items, skipped = len(self.seen.keys), len(self._skipped)
            invalid = SkippedRows(is_file=part.files == 1)
            for row in part.rows():
                value = row if isinstance(row, Skipped) else self.parse(row)
                if isinstance(value, Skipped):
                    self.failed.add(part.name)
                    invalid.add(value)
                    continue
                assert isinstance(row, SourceRow)
                if isinstance(value, Item) and (duplicate := self.seen.add(row, value)):
                    invalid.add(duplicate)
                else:
                    self._is_parsed = invalid.has_valid = True
                    yield ParsedRow(value, row, row.part or part.name)
            self._skipped += invalid.summarise()
            if part.name in self.files.unchanged:
                self._keep_file(part.name)
            elif len(self._skipped) > skipped:
                self.files.current.pop(part.name, None)  # to report it again
            if part.kind:
                items, skipped = len(self.seen.keys) - items, len(self._skipped) - skipped
                self._files.append(FileCount(part.kind, part.files, items, skipped))
            if len(parts) > 2:
                self._report_progress("files", number, len(parts))

    def _is_intact(self, name: str) -> bool:
        """Return True if the items of a file are stored as they came from it, and only from it."""
        keys = self._intact.get(name)
        return keys is not None and self.seen.keys.isdisjoint(keys)

    def _keep_file(self, name: str) -> None:
        """Count the items of an unchanged file, which was not parsed."""
        keys = self._intact[name]
        self.seen.keys.update(keys)
        self.claims.items |= {key: self.previous.items[key] for key in keys}
        self.report += Report(unchanged=len(keys))

    def _keep_edges(self) -> bool:
        """Keep the edges if no file changed and all are stored as they came; else return False."""
        if self._is_parsed or self.files.unchanged != set(self.files.previous):
            return False
        claims = self.previous.edges
        for keys in _batches(list(claims)):
            stored = {e.key: provenance.edge_digest(e) for e in self.stores.graph.get_edges(keys)}
            if any(stored.get(key) != claims[key].digest for key in keys):
                return False
        self.claims.edges |= claims
        return True

    def _write_items(self, rows: Sequence[ParsedRow]) -> None:
        """Write new and changed items, in one batch with the claims to them."""
        incoming = {
            row.value.key: (row.value, row.part)
            for row in self._join_entities(rows)
            if isinstance(row.value, Item)
        }
        items = [item for item, _ in incoming.values()]
        changed, report = diff.find_changed_items(items, self.now, self.stores)
        self.report += report
        changed_keys = {item.key for item in changed}
        claims: dict[Key, Claim] = {}
        if self.source_id:
            for key, (item, part) in incoming.items():
                if key in changed_keys or self._is_claimed(key):
                    claims[key] = Claim(part, provenance.item_digest(item))
        self.claims.items |= claims
        if changed:
            drafted = {key: claim for key, claim in claims.items() if key in changed_keys}
            self._apply(Batch(self.now, (*changed, *self._draft_pages(Claims(drafted)))))
        self._report_progress("items", len(self.seen.keys), 0)

    def _is_claimed(self, key: Key) -> bool:
        """Return True if a source brought the stored item; without any, a user added the same."""
        return key in self.previous.items or key in self.other_claims.items

    def _join_entities(self, rows: Sequence[ParsedRow]) -> Iterator[ParsedRow]:
        """Join nodes and profiles with their other half, which is stored or came before."""
        keys = [row.value.key for row in rows if row.row.layered and isinstance(row.value, Item)]
        stored = {item.key: item for item in self.stores.items.get(keys)} if keys else {}
        for row in rows:
            item = row.value
            if not isinstance(item, Item) or not row.row.layered:
                yield row
                continue
            key = item.key
            if self._must_wait(item, stored.get(key)):
                self._nodes[key] = row
                continue
            if item.kind is Kind.PROFILE:
                self._profiles.add(key)
            node = self._nodes.pop(key, None)
            other = stored.get(key, item) if node is None else node.value
            assert isinstance(other, Item)
            joined, problem = three_layer.join_halves(item, other)
            if problem:
                self._skip(row, joined.id, problem)
            stored[key] = joined
            yield replace(row, value=joined)

    def _must_wait(self, incoming: Item, stored: Item | None) -> bool:
        """Return True for a node whose profile only this source brought, and not yet again."""
        if stored is None or incoming.key in self._profiles:
            return False
        if (incoming.kind, stored.kind) != (Kind.ENTITY, Kind.PROFILE):
            return False
        previous = self.previous.items.get(incoming.key)
        return (
            previous is not None
            and previous.digest == provenance.item_digest(stored)
            and incoming.key not in self.other_claims.items
        )

    def _write_waiting_nodes(self, keep: bool) -> None:
        """Write nodes in place of profiles that vanished from the source.

        If a file could not be read, it may still have the profile.
        """
        nodes, self._nodes = self._nodes, {}
        if keep or self.failed:
            self._profiles |= set(nodes)
            self._write_items(list(nodes.values()))
        else:
            alone = [replace(node, row=replace(node.row, layered=False)) for node in nodes.values()]
            self._write_items(alone)

    def _write_edges(self, rows: Sequence[ParsedRow]) -> None:
        """Write new and changed edges, when all items that they may connect are stored."""
        seen: dict[EdgeKey, int] = {}
        for start in range(0, len(rows), BATCH_SIZE):
            incoming = self._select_edges(rows[start : start + BATCH_SIZE], seen)
            edges = [edge for edge, _ in incoming]
            changed = [
                edge
                for edge in diff.find_changed_edges(edges, self.stores)
                if not self._is_forbidden(edge)
            ]
            changed_keys = {edge.key for edge in changed}
            claims = {
                edge.key: Claim(part, provenance.edge_digest(edge))
                for edge, part in incoming
                if edge.key in changed_keys or self._is_edge_claimed(edge.key)
            }
            if changed:
                pages = self._draft_pages(Claims(edges={key: claims[key] for key in changed_keys}))
                self._apply(Batch(self.now, tuple(pages), tuple(changed)))
            self.claims.edges |= claims
            for edge, part in incoming:
                if edge.key not in claims:  # a user's, which the next load must look for
                    self.files.current.pop(part, None)
            self.report += Report(edges=len(changed))
            self._report_progress("edges", min(start + BATCH_SIZE, len(rows)), len(rows))

    def _is_forbidden(self, edge: Edge) -> bool:
        """Return True if a user forbade the edge after it was loaded; the same row is no news."""
        previous = self.previous.edges.get(edge.key)
        if previous is None or previous.digest != provenance.edge_digest(edge):
            return False
        return any(stored.weight == 0 for stored in self.stores.graph.get_edges([edge.key]))

    def _is_edge_claimed(self, key: EdgeKey) -> bool:
        if not self.source_id:
            return False
        return key in self.previous.edges or key in self.other_claims.edges

    def _select_edges(
        self, rows: Sequence[ParsedRow], seen: dict[EdgeKey, int]
    ) -> list[tuple[Edge, str]]:
        """Return the edges whose ends exist, each once, with their files.

        An edge whose explaining item is missing, as after its deletion, is stored without it: what
        is exported can be loaded.
        """
        edges = [row.value for row in rows if isinstance(row.value, Edge)]
        dangling = diff.find_dangling_edges(edges, self.seen.keys, self.stores)
        repaired = self._repair_edges(rows, edges, dangling)
        selected: dict[EdgeKey, tuple[Edge, str]] = {}
        for index, row in enumerate(rows):
            edge = repaired.get(index, edges[index])
            if index in dangling:
                if row.row.part:  # one end is in a document whose skipping is reported
                    continue
                if index not in repaired and not self.refused.isdisjoint(diff.required_keys(edge)):
                    self._refused_edges += 1
                    continue
                note = "; the edge is stored" if index in repaired else ""
                self._skip(row, edge.source, dangling[index] + note)
                if index not in repaired:
                    continue
            fingerprint = codec.fingerprint(codec.edge_to_dict(edge))
            if seen.setdefault(edge.key, fingerprint) == fingerprint:
                selected[edge.key] = (edge, row.part)
            else:
                name = f"{edge.source!r} -[{edge.type}]-> {edge.target!r}"
                self._skip(row, edge.source, f"duplicate edge {name}; the first is used")
        return list(selected.values())

    def _repair_edges(
        self, rows: Sequence[ParsedRow], edges: Sequence[Edge], dangling: Mapping[int, str]
    ) -> dict[int, Edge]:
        """Return by index the dangling edges that only lack the item that explains them."""
        explained = [index for index in dangling if edges[index].item_id is not None]
        bare = [replace(edges[index], item_id=None) for index in explained]
        hopeless = diff.find_dangling_edges(bare, self.seen.keys, self.stores)
        return {
            index: diff.drop_explanation(edges[index]) if rows[index].row.layered else edges[index]
            for place, index in enumerate(explained)
            if place not in hopeless
        }

    def _delete_items(self, keep: bool) -> None:
        """Delete items that vanished from this source.

        Items of a file that could not be read stay, as do those that another source has too or that
        were edited since.
        """
        gone = {
            key: claim for key, claim in self.previous.items.items() if key not in self.seen.keys
        }
        retained = self._select_retained(gone, keep)
        self.claims.items |= retained
        others = self.other_claims.items if len(gone) > len(retained) else {}
        for keys in _batches([key for key in gone if key not in retained and key not in others]):
            deleted = tuple(
                item.key
                for item in self.stores.items.get(keys)
                if provenance.item_digest(item) == gone[item.key].digest
            )
            self._apply(Batch(self.now, deleted=deleted))
            self.report += Report(removed=len(deleted))

    def _delete_edges(self, keep: bool) -> None:
        gone = {
            key: claim for key, claim in self.previous.edges.items() if key not in self.claims.edges
        }
        retained = self._select_retained(gone, keep)
        self.claims.edges |= retained
        for claim in retained.values():
            self.files.current.pop(claim.part, None)
        others = self.other_claims.edges if len(gone) > len(retained) else {}
        for keys in _batches([key for key in gone if key not in retained and key not in others]):
            deleted = tuple(
                edge.key
                for edge in self.stores.graph.get_edges(keys)
                if provenance.edge_digest(edge) == gone[edge.key].digest
            )
            self._apply(Batch(self.now, deleted_edges=deleted))
            self.report += Report(edges=len(deleted))

    def _select_retained(self, gone: Mapping[K, Claim], keep: bool) -> dict[K, Claim]:
        return {key: claim for key, claim in gone.items() if keep or claim.part in self.failed}

    @property
    def other_claims(self) -> Claims:
        """The claims of other sources, read when they are first needed."""
        if self._other_claims is None:
            self._other_claims = provenance.read_other_claims(self.source_id, self.stores)
        return self._other_claims

    def _draft_pages(self, claims: Claims) -> list[Item]:
        """Return the page with the claims of one batch, until `_write_claims` replaces it."""
        if not self.source_id:
            return []
        name = f"draft-{codec.time_to_text(self.now)}-{len(self._pages):05}"
        page = provenance.build_page(self.source_id, name, claims)
        self._pages.append(page)
        return [page]

    def _write_claims(self) -> None:
        if not self.source_id:
            return
        stored = {page.id: page for page in self._pages}
        self.claims.files = provenance.claimed_files(self.files.current, self.claims)
        pages = provenance.build_pages(self.source_id, self.claims)
        ids = {page.id for page in pages}
        changed = tuple(page for page in pages if stored.get(page.id) != page)
        stale = tuple(page.key for page in self._pages if page.id not in ids)
        if changed or stale:
            self._apply(Batch(self.now, changed, deleted=stale))

    def _apply(self, batch: Batch) -> None:
        self.apply(batch)
        self.spaces.update(item.space for item in batch.items)
        self.spaces.update(edge.space for edge in batch.edges)
        self.spaces.update(space for space, _ in batch.deleted)
        self.spaces.update(source[0] for source, _, _ in batch.deleted_edges)
        self.spaces.discard(PROVENANCE_SPACE)

    def _skip(self, row: ParsedRow, id: str, reason: str) -> None:
        self._skipped.append(Skipped(row.row.where, id, reason))

    def _report_progress(self, what: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(what, done, total)


def _batches(keys: Sequence[K]) -> Iterator[Sequence[K]]:
    return (keys[start : start + BATCH_SIZE] for start in range(0, len(keys), BATCH_SIZE))
