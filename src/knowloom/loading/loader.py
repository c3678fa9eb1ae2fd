"""Loading a file, a folder or a dict: new and changed items are written, then what vanished from the source is removed, then edges follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from knowloom import codec, validation
from knowloom.embedding import Progress
from knowloom.loading import diff, provenance, three_layer
from knowloom.loading.provenance import Claim, Claims
from knowloom.loading.readers import Part, Row, Seen
from knowloom.model import Batch, Edge, EdgeKey, Item, Key, Kind
from knowloom.ports import Stores
from knowloom.report import Report, Skipped

K = TypeVar("K", Key, EdgeKey)

BATCH = 2000  # items per write


@dataclass(frozen=True, slots=True)
class Read:
    """A row that can be stored, where it stood, and in which file."""

    what: Item | Edge
    row: Row
    part: str


@dataclass(slots=True)
class Loading:
    """One load on its way into the stores. `origin` names the source, "" for one that has no name: nothing of it is ever removed."""

    stores: Stores
    parsed: Callable[[Row], Item | Edge | Skipped]
    apply: Callable[[Batch], None]
    now: datetime
    origin: str
    progress: Progress | None = None
    report: Report = field(default_factory=Report)
    before: Claims = field(default_factory=Claims)  # what this source brought earlier
    claims: Claims = field(default_factory=Claims)  # and what it has brought now
    seen: Seen = field(default_factory=Seen)
    spaces: set[str] = field(default_factory=set)  # of all that was written or removed
    failed: set[str] = field(default_factory=set)  # files of which something could not be read
    _profiles: set[Key] = field(default_factory=set)  # that have come, or stay in any case
    _nodes: dict[Key, Read] = field(
        default_factory=dict
    )  # that wait: whether this source still has the profile is known at its end
    _others: Claims | None = None
    _pages: list[Item] = field(default_factory=list)
    _skipped: list[Skipped] = field(default_factory=list)

    def run(self, parts: Sequence[Part], keep: bool) -> Report:
        if self.origin:
            self.before, self._pages = provenance.read(self.origin, self.stores)
        edges: list[Read] = []
        waiting: list[Read] = []
        for one in self._rows(parts):
            if isinstance(one.what, Edge):
                edges.append(one)
                continue
            waiting.append(one)
            if len(waiting) == BATCH:
                self._write(waiting)
                waiting = []
        self._write(waiting)
        self._write_nodes(keep)
        self._tell("items", len(self.seen.keys), len(self.seen.keys))
        self._remove_items(keep)
        self._link(edges)
        self._remove_edges(keep)
        self._remember()
        return self.report + Report(skipped=tuple(self._skipped))

    def _rows(self, parts: Sequence[Part]) -> Iterator[Read]:
        """What can be stored, each id once."""
        for number, part in enumerate(parts, 1):
            for row in part.rows():
                found = row if isinstance(row, Skipped) else self.parsed(row)
                if isinstance(found, Skipped):
                    self.failed.add(part.name)
                    self._skipped.append(found)
                    continue
                assert isinstance(row, Row)
                if isinstance(found, Item) and self.seen.again(row, found):
                    self._skip(
                        row.where,
                        found.id,
                        f"the id {found.id!r} stands twice in space {found.space!r}",
                    )
                else:
                    yield Read(found, row, part.name)
            if len(parts) > 1:
                self._tell("files", number, len(parts))

    def _write(self, rows: Sequence[Read]) -> None:
        """Items that are new or changed, in one write with the page that says where they came from."""
        found = {
            one.what.key: (one.what, one.part)
            for one in self._met(rows)
            if isinstance(one.what, Item)
        }
        written, report = diff.changed_items(
            [item for item, _ in found.values()], self.now, self.stores
        )
        self.report += report
        fresh = {item.key for item in written}
        marks = (
            {
                key: Claim(part, provenance.item_mark(item))
                for key, (item, part) in found.items()
                if self._brought(key, key in fresh)
            }
            if self.origin
            else {}
        )
        self.claims.items |= marks
        if written:
            pages = [self._draft(Claims({key: marks[key] for key in fresh}))] if self.origin else []
            self._apply(Batch(self.now, (*written, *pages)))
        self._tell("items", len(self.seen.keys), 0)

    def _brought(self, key: Key, written: bool) -> bool:
        """Whether the item is this source's. One that says the same already, but came from no source, was put there by hand."""
        return written or key in self.before.items or key in self.others.items

    def _met(self, rows: Sequence[Read]) -> Iterator[Read]:
        """A node or a profile of an entity of which the store, or a row before it, knows the other half is joined with it."""
        asked = [one.what.key for one in rows if one.row.layered and isinstance(one.what, Item)]
        stored = {item.key: item for item in self.stores.items.get(asked)} if asked else {}
        for one in rows:
            if isinstance(one.what, Item) and one.row.layered:
                key = one.what.key
                if self._waits(one.what, stored.get(key)):
                    self._nodes[key] = one
                    continue
                if one.what.kind is Kind.PROFILE:
                    self._profiles.add(key)
                node = self._nodes.pop(key, None)
                other = stored.get(key, one.what) if node is None else node.what
                assert isinstance(other, Item)
                item, lost = three_layer.met(one.what, other)
                if lost:
                    self._skip(one.row.where, item.id, lost)
                stored[item.key] = item
                one = replace(one, what=item)
            yield one

    def _waits(self, coming: Item, stored: Item | None) -> bool:
        """Whether a node meets a profile that this source alone brought, and has not brought again yet."""
        if (
            stored is None
            or (coming.kind, stored.kind) != (Kind.ENTITY, Kind.PROFILE)
            or coming.key in self._profiles
        ):
            return False
        before = self.before.items.get(coming.key)
        return (
            before is not None
            and before.mark == provenance.item_mark(stored)
            and coming.key not in self.others.items
        )

    def _write_nodes(self, keep: bool) -> None:
        """Nodes whose profile has vanished from the source take its place; if a file could not be read, it may still be there."""
        nodes, self._nodes = self._nodes, {}
        if keep or self.failed:
            self._profiles |= set(nodes)
            self._write(list(nodes.values()))
        else:
            self._write(
                [replace(one, row=replace(one.row, layered=False)) for one in nodes.values()]
            )

    def _link(self, rows: Sequence[Read]) -> None:
        """Edges come last, when every item they may point to is there."""
        kept: dict[EdgeKey, int] = {}
        for start in range(0, len(rows), BATCH):
            part = self._linkable(rows[start : start + BATCH], kept)
            changed = [
                edge
                for edge in diff.changed_edges([edge for edge, _ in part], self.stores)
                if not self._forbidden(edge)
            ]
            fresh = {edge.key for edge in changed}
            brought = {
                edge.key: Claim(name, provenance.edge_mark(edge))
                for edge, name in part
                if edge.key in fresh or self._linked(edge.key)
            }
            if changed:
                pages = (
                    [self._draft(Claims(edges={key: brought[key] for key in fresh}))]
                    if self.origin
                    else []
                )
                self._apply(Batch(self.now, tuple(pages), tuple(changed)))
            self.claims.edges |= brought
            self.report += Report(edges=len(changed))
            self._tell("edges", min(start + BATCH, len(rows)), len(rows))

    def _forbidden(self, edge: Edge) -> bool:
        """Whether somebody forbade this link since the source brought it: to say the same again does not lift that."""
        before = self.before.edges.get(edge.key)
        if before is None or before.mark != provenance.edge_mark(edge):
            return False
        return any(stored.weight == 0 for stored in self.stores.graph.get_edges([edge.key]))

    def _linked(self, key: EdgeKey) -> bool:
        return bool(self.origin) and (key in self.before.edges or key in self.others.edges)

    def _linkable(self, rows: Sequence[Read], kept: dict[EdgeKey, int]) -> list[tuple[Edge, str]]:
        """The edges whose ends exist. The item that explains an edge may be missing, as after its deletion: what is exported can be loaded."""
        edges = [one.what for one in rows if isinstance(one.what, Edge)]
        bad = diff.dangling(edges, set(), self.stores)
        bare = {
            number: replace(edges[number], item_id=None)
            for number in bad
            if edges[number].item_id is not None
        }
        hopeless = diff.dangling(list(bare.values()), set(), self.stores)
        usable = [number for place, number in enumerate(bare) if place not in hopeless]
        without = {
            number: _unexplained(edges[number]) if rows[number].row.layered else edges[number]
            for number in usable
        }
        found = []
        for number, one in enumerate(rows):
            edge = without.get(number, edges[number])
            if number in bad:
                self._skip(
                    one.row.where,
                    edge.source,
                    bad[number] + (": the link is kept" if number in without else ""),
                )
            if number in bad and number not in without:
                continue
            said = codec.fingerprint(codec.edge_to_dict(edge))
            if kept.setdefault(edge.key, said) == said:
                found.append((edge, one.part))
            else:
                self._skip(
                    one.row.where,
                    edge.source,
                    f"the link {edge.source!r} -[{edge.type}]-> {edge.target!r} stands twice; the first is kept",
                )
        return list({edge.key: (edge, name) for edge, name in found}.values())

    # what vanished

    def _remove_items(self, keep: bool) -> None:
        """Items that this source brought and has no more. Those of a file that could not be read stay, and so does what another
        source has too or what was changed by hand since."""
        gone = {key: claim for key, claim in self.before.items.items() if key not in self.seen.keys}
        self.claims.items |= (stay := self._stays(gone, keep))
        for keys in _batches(
            [key for key in gone if key not in stay and key not in self.others.items]
        ):
            removed = tuple(
                item.key
                for item in self.stores.items.get(keys)
                if provenance.item_mark(item) == gone[item.key].mark
            )
            self._apply(Batch(self.now, deleted=removed))
            self.report += Report(removed=len(removed))

    def _remove_edges(self, keep: bool) -> None:
        gone = {
            key: claim for key, claim in self.before.edges.items() if key not in self.claims.edges
        }
        self.claims.edges |= (stay := self._stays(gone, keep))
        for keys in _batches(
            [key for key in gone if key not in stay and key not in self.others.edges]
        ):
            removed = tuple(
                edge.key
                for edge in self.stores.graph.get_edges(keys)
                if provenance.edge_mark(edge) == gone[edge.key].mark
            )
            self._apply(Batch(self.now, deleted_edges=removed))
            self.report += Report(edges=len(removed))

    def _stays(self, gone: Mapping[K, Claim], keep: bool) -> dict[K, Claim]:
        return {key: claim for key, claim in gone.items() if keep or claim.part in self.failed}

    # what is remembered

    @property
    def others(self) -> Claims:
        """What other sources brought: read only when it matters."""
        if self._others is None:
            self._others = provenance.others(self.origin, self.stores)
        return self._others

    def _draft(self, claims: Claims) -> Item:
        """A page for what is just being written; the end of the load puts its claims where they belong."""
        page = provenance.page(
            self.origin, f"draft-{codec.time_to_text(self.now)}-{len(self._pages):05}", claims
        )
        self._pages.append(page)
        return page

    def _remember(self) -> None:
        if not self.origin:
            return
        stored, wanted = (
            {page.id: page for page in self._pages},
            provenance.pages(self.origin, self.claims),
        )
        changed = tuple(page for page in wanted if stored.get(page.id) != page)
        stale = tuple(page.key for page in self._pages if page.id not in {one.id for one in wanted})
        if changed or stale:
            self._apply(Batch(self.now, changed, deleted=stale))

    def _apply(self, batch: Batch) -> None:
        self.apply(batch)
        own = [
            *(item.space for item in batch.items),
            *(edge.space for edge in batch.edges),
            *(space for space, _ in batch.deleted),
        ]
        self.spaces |= {
            space
            for space in (*own, *(source[0] for source, _, _ in batch.deleted_edges))
            if space != validation.LEDGER
        }

    def _skip(self, where: str, what: str, why: str) -> None:
        self._skipped.append(Skipped(where, what, why))

    def _tell(self, what: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(what, done, total)


def _batches(keys: Sequence[K]) -> Iterator[Sequence[K]]:
    return (keys[start : start + BATCH] for start in range(0, len(keys), BATCH))


def _unexplained(edge: Edge) -> Edge:
    return replace(edge, item_id=None, properties={**edge.properties, "piece_id": edge.item_id})
