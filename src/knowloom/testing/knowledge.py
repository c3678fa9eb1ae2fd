"""Builders and random examples for the contracts: items, edges, batches, vectors, filters."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict, Unpack

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from knowloom.model import Edge, EdgeKey, Filter, Item, ItemCondition, Key, Kind
from knowloom.model.condition import Operator
from knowloom.ports import Batch, IndexResult, Vector

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
ACME = Filter(("acme",))
BOTH = Filter(("acme", "zoo"))
ONE = Filter(("one", "two"))
NOBODY = Filter(())
SECTION_LENGTH = 600  # characters: two sections are longer than a passage

SCRIPTS = {
    "Chinese": "退款政策说明",
    "Japanese": "返金ポリシー",
    "Thai": "นโยบายการคืนเงิน",
    "Arabic": "سياسة الاسترداد",
    "Hebrew": "מדיניות החזרים",
    "Russian": "Возврат денег",
    "accents": "crème brûlée",
    "full width": "\uff52\uff45\uff46\uff55\uff4e\uff44",  # refund
}
NASTY = [
    *('"', "'", "*", "(", ")", "^a", "-a", "%_%", "\\", "\0", "AND", "NEAR(", "\x01type="),
    *("NOT NEAR(a b, 3)", "{a b}:c", 'refund" OR "', "refund AND", "title:refund", "ref*"),
    *("'; DROP TABLE item;--", "\ud800", "🧵👩‍👩‍👧 🇮🇱", "מ\u202eת", "a\u0301" * 40, "x" * 5000),
    "y " * 2500,
]


class ItemFields(TypedDict, total=False):
    """The fields of an item beside `id`, `space` and `text`."""

    kind: Kind
    type: str
    title: str
    summary: str
    properties: Mapping[str, Any]
    tags: tuple[str, ...]
    section: str
    subject: str | None
    confidence: float | None
    created_at: datetime | None
    updated_at: datetime | None
    valid_from: datetime | None
    valid_to: datetime | None
    source: str | None
    embedding_text: str | None


class EdgeFields(TypedDict, total=False):
    """The fields of an edge beside its ends, type, weight and space."""

    item_id: str | None
    properties: Mapping[str, Any]
    target_space: str
    origin: str


def item(id: str, text: str = "", *, space: str = "acme", **fields: Unpack[ItemFields]) -> Item:
    """Return an item created at NOW."""
    return replace(Item(id, space, text=text, created_at=NOW), **fields)


def spoil(value: Item | Edge) -> None:
    """Change the properties of a returned value in place, nested ones too."""
    assert isinstance(value.properties, dict)
    for inside in value.properties.values():
        if isinstance(inside, dict):
            inside["spoilt"] = [*inside.values()]
            for innermost in inside["spoilt"]:
                innermost.append("spoilt")
    value.properties["spoilt"] = True


def section(words: str) -> str:
    """Return a section of a long text: it repeats the words and is a passage of its own."""
    return f"\n\n# head\n\n{f'{words} ' * (SECTION_LENGTH // (len(words) + 1))}"


def long_item(id: str, *words: str, space: str = "acme", **fields: Unpack[ItemFields]) -> Item:
    """Return an item with a passage for each of the words."""
    return item(id, "".join(map(section, words)), space=space, **fields)


def edge(
    source: str,
    target: str,
    weight: float = 1.0,
    *,
    type: str = "related",
    space: str = "acme",
    **fields: Unpack[EdgeFields],
) -> Edge:
    return Edge(source, target, type, weight, space, **fields)


def batch(
    items: Iterable[Item] = (),
    edges: Iterable[Edge] = (),
    deleted: Iterable[Key] = (),
    deleted_edges: Iterable[EdgeKey] = (),
    at: datetime = NOW,
    marked: Iterable[Key] = (),
) -> Batch:
    return Batch(
        at, tuple(items), tuple(edges), tuple(deleted), tuple(deleted_edges), marked=tuple(marked)
    )


def unit(*numbers: float) -> Vector:
    """Return the unit vector in this direction."""
    vector = np.array(numbers, np.float32)
    return vector / np.linalg.norm(vector).astype(np.float32)


def directions(count: int, dimensions: int, seed: int = 1) -> list[Vector]:
    """Return random unit vectors, the same for the same seed."""
    numbers = np.random.default_rng(seed).normal(size=(count, dimensions))
    return [unit(*row) for row in numbers]


def babble(count: int, seed: int) -> list[str]:
    """Return random texts of 1 to 20 words without inflections, the same for the same seed."""
    chance = random.Random(seed)
    return [
        " ".join(
            chance.choices(["kappa", "zeta", "rho", "tau", "omega", "psi"], k=chance.randint(1, 20))
        )
        for _ in range(count)
    ]


def ids(keys: Iterable[Key]) -> list[str]:
    return [id for _, id in keys]


def assert_close(
    actual: Mapping[Key, Sequence[float]], expected: Mapping[Key, Sequence[float]], tolerance: float
) -> None:
    assert actual.keys() == expected.keys()
    for key, values in expected.items():
        assert np.shape(actual[key]) == np.shape(values)
        assert np.allclose(actual[key], values, rtol=0, atol=tolerance)


def matches(result: IndexResult) -> list[str]:
    return ids(key for key, _ in result.matches)


def bm25(query: str, documents: Mapping[Key, str], counted: Iterable[str] = ()) -> dict[Key, float]:
    """Compute BM25 by its formula; terms are separated by blanks, and none is a stop word.

    Terms are counted in the documents, or in the texts `counted`.
    """
    texts = {key: Counter(text.split()) for key, text in documents.items()}
    mean_length = sum(terms.total() for terms in texts.values()) / len(texts)
    statistics = [frozenset(text.split()) for text in counted or documents.values()]
    frequencies = {term: sum(term in terms for terms in statistics) for term in query.split()}
    # A term that occurs n times in the query counts 3n / (n + 2).
    weights = {term: 3 * n / (n + 2) for term, n in Counter(query.split()).items()}
    idf = {
        term: weights[term] * math.log(1 + (len(statistics) - frequency + 0.5) / (frequency + 0.5))
        for term, frequency in frequencies.items()
    }
    norms = {
        key: 1.2 * (1 - 0.75 + 0.75 * terms.total() / mean_length) for key, terms in texts.items()
    }
    scores = {
        key: sum(idf[term] * terms[term] / (terms[term] + norms[key]) for term in idf)
        for key, terms in texts.items()
    }
    return {key: score / sum(idf.values()) for key, score in scores.items() if score}


# Random examples. Each uses spaces of its own (`settle`), so that one store serves them all.

_numbers = itertools.count(1)
_days = st.sampled_from(
    [NOW + timedelta(days=day, microseconds=day) for day in (-400, -1, 0, 1, 30)]
)
_confidences = st.sampled_from([0.0, 0.5, 0.7, 0.70000001, 1.0]) | st.floats(0, 1)
_vocabulary = st.lists(
    st.sampled_from(["refund", "parcel", "monday", "anna", "water", "shared"]), max_size=12
).map(" ".join)
# Names and values that a store might confuse: with a path, with SQL, or with each other.
_names = st.sampled_from(
    ["price", "a.b", 'a"b', "a\\b", "50%", "é", "new\nline", "", "'; DROP TABLE"]
)
_scalars = st.sampled_from(
    [1, 1.0, 0, -0.0, True, False, "1", "", "a", "ab", "é", "Z", "2025-06-01", 2**70, 2**70 + 1]
) | st.floats(-10, 10)
_values = (
    _scalars
    | st.none()
    | st.lists(_scalars | st.none() | st.just([1]), max_size=3)
    | st.dictionaries(st.just("a"), _scalars, min_size=1)
)
some_items = st.lists(
    st.builds(
        Item,
        id=st.sampled_from([f"i{number:02}" for number in range(30)]),
        space=st.sampled_from(["one", "two"]),
        kind=st.sampled_from(list(Kind)),
        type=st.sampled_from(["", "faq", "note", "a b"]),
        title=_vocabulary,
        text=_vocabulary.map("shared {}".format),
        tags=st.lists(st.sampled_from(["vip", "eu", "a=b", "VIP"]), max_size=3).map(tuple),
        properties=st.dictionaries(_names, _values, max_size=3),
        subject=st.sampled_from([None, "", "anna", "ben"]),
        source=st.sampled_from([None, "", "docs/a", "docs", "wiki"]),
        confidence=st.none() | _confidences,
        created_at=_days,
        valid_from=st.none() | _days,
        valid_to=st.none() | _days,
    ),
    max_size=25,
    unique_by=lambda item: item.key,
)


def _some(*values: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2).map(tuple)


_condition_names = _names | st.sampled_from(["$source", "$subject", "$tags", "$type", "$$a"])
_condition_values: dict[Operator, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("$eq", "$gt", "$gte", "$lt", "$lte"), _scalars.map(lambda value: (value,))),
    **dict.fromkeys(("$in", "$any"), st.lists(_scalars | st.none(), max_size=3).map(tuple)),
    "$prefix": _some("", "a", "docs", "docs/"),
    "$exists": st.booleans().map(lambda value: (value,)),
}
_condition = st.sampled_from(list(_condition_values)).flatmap(
    lambda operator: st.builds(
        ItemCondition, _condition_names, st.just(operator), _condition_values[operator]
    )
)
some_conditions = st.lists(_condition, min_size=1, max_size=2).map(tuple)
_spaces = st.sampled_from(
    [("one",), ("one", "two"), ("two", "one", "two"), ("one", "nowhere"), ("nowhere",), ()]
)
_restrictions: dict[str, st.SearchStrategy[Any]] = {
    "kinds": _some(*Kind),
    "types": _some("", "faq", "note", "a b", "unknown"),
    "exclude_types": _some("", "faq", "unknown"),
    "tags": _some("vip", "eu", "a=b", "unknown"),
    "subjects": _some("", "anna", "unknown"),
    "created_from": _days,
    "created_to": _days,
    "valid_at": _days,
    "min_confidence": _confidences,
    "where": some_conditions,
}
# At most two restrictions: more would allow, and test, next to nothing.
some_filters = st.lists(st.sampled_from(list(_restrictions)), max_size=2).flatmap(
    lambda names: st.builds(Filter, spaces=_spaces, **{name: _restrictions[name] for name in names})
)
_suppressed = [
    HealthCheck.function_scoped_fixture,
    HealthCheck.differing_executors,
    HealthCheck.too_slow,
]
few_examples = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=_suppressed,
)


def settle(items: Iterable[Item], only: Filter = BOTH) -> tuple[list[Item], Filter]:
    """Return the items and the filter, moved to spaces that no other example uses."""
    number = next(_numbers)
    moved = [replace(item, space=f"{item.space}-{number}") for item in items]
    return moved, replace(only, spaces=tuple(f"{space}-{number}" for space in only.spaces))


def allowed(items: Iterable[Item], only: Filter) -> set[Key]:
    return {item.key for item in items if only.allows(item)}
