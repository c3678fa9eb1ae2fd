"""What the engine needs from the outside. Adapters satisfy these shapes; they inherit nothing.

`knowloom.testing` holds a contract suite for each port; an adapter that passes it can be trusted with users' knowledge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from knowloom.model import (
    Batch,
    Change,
    Edge,
    EdgeKey,
    Filter,
    Found,
    Item,
    Key,
    Links,
    Marks,
    SpaceInfo,
)

Vector = npt.NDArray[np.float32]


class Store(Protocol):
    """What all stores share."""

    def apply(self, batch: Batch) -> None:
        """Do the whole batch or nothing. Items replace by (space, id), edges by their key. Deleting an item forgets its words,
        its vector and every edge that touches it; deleting what is not there is harmless. A Conflict (code "version_mismatch") and
        nothing else happens when a version that the batch expects is not the stored one."""

    def reading(self) -> AbstractContextManager[object]:
        """Reads inside the block see one state of the store, if the backend can do that."""

    def close(self) -> None:
        """Release files and connections. A second call is harmless; any other call from then on is Unavailable, with the code "closed"."""


class ItemStore(Store, Protocol):
    """The truth. It keeps the edges as well: words, vectors and the graph can be made again from it."""

    def spaces(self, names: Sequence[str] | None = None) -> list[SpaceInfo]:
        """Every space that was ever written to, by name; only those of these names, if names are given, at a cost that does not grow with
        the others."""

    def get(self, keys: Sequence[Key]) -> list[Item]:
        """The items in the order asked; unknown keys are left out."""

    def visible(self, keys: Sequence[Key], only: Filter) -> list[Key]:
        """Those of the keys whose item exists and passes the filter, in the order asked."""

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        """Allowed items ordered by (space, id), from behind `after`."""

    def changes(self, space: str, after: int = 0, limit: int = 1000) -> list[Change]:
        """The change log of a space, oldest first, from behind number `after`."""

    def changes_of(self, keys: Sequence[Key]) -> list[Change]:
        """Everything that happened to these items and to edges that touch them, whoever owns the edge; each once, oldest first."""

    def verify(self, elsewhere: Iterable[Key] = ()) -> list[str]:
        """What is wrong with the stored data, in words; nothing when all is well. Edges may end at the items `elsewhere`."""


class Index(Store, Protocol):
    """What finds items has a copy of each."""

    def find(self, only: Filter, limit: int, after: Key | None = None) -> list[Item]:
        """Allowed items ordered by (space, id), from behind `after`."""


class TextIndex(Index, Protocol):
    def rebuild_words(self, items: Iterable[Item]) -> None:
        """Forget all words and index these items instead, as one write."""

    def search_text(self, text: str, only: Filter, limit: int, also: Sequence[Key] = ()) -> Found:
        """Items that share a word with the text. Scores are BM25 over the statistics of the filter's spaces alone, divided by the
        best score any text could reach, so they are in [0, 1). Ties go by (id, space). Any text is safe: it is never syntax.
        `others` holds the score of every key in `also` that shares a word, whether or not it is among the best; with a limit of 0
        nothing else is looked for."""


class VectorIndex(Index, Protocol):
    def put_vectors(self, vectors: Mapping[Key, Vector], fingerprint: str) -> None:
        """Remember unit vectors of one embedder. Keys without an item are ignored. Another fingerprint or another number of
        dimensions than the stored ones is a Conflict: `forget_vectors` comes first."""

    def forget_vectors(self) -> None: ...

    def fingerprint(self) -> str:
        """Of the embedder whose vectors are stored; "" when there are none."""

    def dimensions(self) -> int:
        """Of the stored vectors, all of which have the same; 0 when there are none."""

    def missing_vectors(self, spaces: Sequence[str], limit: int) -> list[Key]:
        """Items that have no vector, or whose text changed since, ordered by key."""

    def count_missing(self, spaces: Sequence[str]) -> int: ...

    def search_vector(self, vector: Vector, only: Filter, limit: int) -> Found:
        """Nearest items by cosine similarity, negative ones as 0. Ties go by (id, space)."""

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        """The same similarity for these keys; those without a vector are left out."""


class GraphStore(Store, Protocol):
    def edges_of(
        self,
        keys: Sequence[Key],
        spaces: Sequence[str],
        types: Sequence[str] = (),
        limit: int = 100,
        min_weight: float = 0.0,
        made: bool | None = None,
    ) -> list[Edge]:
        """Edges that touch one of the keys, in either direction, both of whose ends lie in the spaces: for each key the `limit`
        heaviest in each direction that weigh `min_weight` or more, ties by the other end. `made`: of knowloom's own alone, or of people's; the
        others do not count towards the limit. One call per hop, never one per item. No edge twice; ordered by (-weight, source, target, type)."""

    def get_edges(self, keys: Sequence[EdgeKey]) -> list[Edge]:
        """The edges in the order asked; unknown keys are left out."""

    def edges(
        self, spaces: Sequence[str], limit: int, after: Edge | None = None, made: bool | None = None
    ) -> list[Edge]:
        """All edges that the spaces own, ordered by key, from behind `after`; `made`: only knowloom's own, or only people's."""


@runtime_checkable
class LinkStore(ItemStore, GraphStore, Protocol):
    """What a store that plays all roles needs for links that knowloom makes itself. Every write marks, as part of it, the items whose
    links it may change: those put, deleted, marked by the batch or given a vector, and for a deleted item the targets of the links
    made from it. Writing a person's edge replaces knowloom's, and never the other way round."""

    def unlinked(self, space: str) -> list[str]:
        """The ids of the marked items, in order."""

    def marks(self, space: str, ids: Sequence[str]) -> Marks:
        """Those of the ids that are marked. An item that only got a vector or a link is, before, what it is now."""

    def put_links(self, links: Links) -> bool:
        """Write them all, and count them in no digest but that of links; they leave no line in the change log. False, and nothing
        is done, when the space has changed since `links.version`."""

    def forget_links(self, rules: str) -> None:
        """Drop every link knowloom made and mark every item: from now on links are made by these rules."""

    def linked_by(self) -> str:
        """The rules that links are made by; "" at first."""

    def common(self, space: str, labels: Sequence[str]) -> set[str]:
        """Those of the labels that `put_links` called common."""

    def entries(self, space: str, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The labels that `put_links` entered each of the ids under, in the order given; ids without any are left out. An item keeps
        them when it changes or goes, until they are put anew."""

    def under(self, space: str, labels: Sequence[str], most: int) -> dict[str, list[str]]:
        """The ids that are entered under each label: the first `most` of them, in order. Labels without any are left out."""

    def stale(self, space: str) -> list[str]:
        """The ids that `put_links` called stale and not yet renewed, in order."""

    def carriers(self, space: str, tags: Sequence[str], most: int) -> dict[str, list[str]]:
        """The ids of the items that carry each tag, in order. Tags that nobody or more than `most` items carry are left out."""

    def alike(
        self, space: str, ids: Sequence[str], least: float
    ) -> dict[str, list[tuple[float, str]]]:
        """For each id that has a vector all other items with a similarity of `least` or more, none forgotten: (similarity, id)."""


class Embedder(Protocol):
    """Texts to unit vectors. The same text always gives the same vector."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors would."""

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector for each text, in order. What cannot be embedded now is Unavailable; any other error is taken for that."""


@dataclass(frozen=True, slots=True)
class Caching:
    """How vectors of texts are kept: so many in memory, so many in a file if one is named, none longer than `ttl_s` seconds."""

    max_size: int = 10_000
    ttl_s: float | None = None
    path: str = ""
    disk_size: int = 1_000_000


class TokenCounter(Protocol):
    """Tokens of a text, never fewer than the model will see. `additive`: blocks that end in a newline and begin with a
    visible character other than "/" can be counted one by one."""

    @property
    def name(self) -> str: ...

    @property
    def additive(self) -> bool: ...

    def count(self, text: str) -> int: ...


class Several(Protocol):
    """What several stores behind the roles can tell and do together."""

    def apart(self, spaces: Sequence[str]) -> int:
        """How many items of the spaces have neither words nor vectors."""

    def repair(self, at: datetime) -> None:
        """Make all stores agree with the truth."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation with a language model. `role` is system, user or assistant."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Completion:
    """What a language model answered. `cut`: it reached its length limit before it was done."""

    text: str
    cut: bool = False


class LLM(Protocol):
    """A language model that answers a conversation."""

    @property
    def name(self) -> str:
        """For records: which model, and where. Never a key."""

    def complete(self, messages: Sequence[Message]) -> Completion:
        """The answer, whatever it says; Unavailable when there is none."""


class NameFinder(Protocol):
    """Names of things in texts. The same text always gives the same names, whatever was read before."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the names would: "NAME@…", without blanks, where `NAME` opens it again."""

    def find(self, text: str) -> list[tuple[int, str]]:
        """Where each name begins, and the name as it is written, in order."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The four roles. By default one object plays them all."""

    items: ItemStore
    words: TextIndex
    vectors: VectorIndex
    graph: GraphStore
    layers: Several | None = None

    def searched(self, spaces: Sequence[str]) -> int:
        """How many items of the spaces the indexes know."""
        apart = self.layers.apart(spaces) if self.layers is not None else 0
        return sum(info.items for info in self.items.spaces(spaces)) - apart

    def each(self) -> list[Store]:
        """Every distinct store once, the truth first."""
        roles: tuple[Store, ...] = (self.items, self.words, self.vectors, self.graph)
        return list({id(store): store for store in roles}.values())
