"""Queries by words: a sum of constants that bounds the score of the truth from above."""

from __future__ import annotations

from collections.abc import Sequence

from knowloom.model import Filter
from knowloom.ports import Candidates
from knowloom.stores.elasticsearch.connection import Connection, Json
from knowloom.stores.elasticsearch.documents import decode_keys, encode_filter
from knowloom.stores.elasticsearch.index_definition import MAX_RESULTS
from knowloom.text import words
from knowloom.text.impact_classes import (
    SpaceStatistics,
    WeightedTerm,
    group_classes,
    impact_bounds,
    iterate_levels,
    shorten_term,
    weigh_query,
    widen_bound,
)
from knowloom.text.query_terms import TermWeights, weigh_terms

MAX_CLAUSES = 900  # of a query; the engines allow 1,024
MAX_LEVELS = 40  # of the impacts of a term
SPARE_FACTOR, SPARE = 2, 50  # candidates beside the best, as their bounds exceed their scores
KEY_FIELDS = {"_source": False, "docvalue_fields": ["space", "id"]}


def match_text(connection: Connection, text: str, only: Filter, limit: int) -> Candidates:
    """Return the items with the highest bounds, in two requests: the statistics come first."""
    terms = weigh_terms(text)
    if not terms or not only.spaces:
        connection.check_open()
        return Candidates()
    statistics = _read_statistics(connection, terms, only)
    weighted = [
        term for term in weigh_query(terms, statistics) if statistics.frequencies[term.term]
    ]
    if not weighted:
        return Candidates()
    has_long_items = statistics.passages > statistics.items
    max_terms = MAX_CLAUSES // (3 if has_long_items else 1)
    return _search(connection, weighted[:max_terms], weighted[max_terms:], statistics, only, limit)


def _search(
    connection: Connection,
    terms: Sequence[WeightedTerm],
    left_out: Sequence[WeightedTerm],
    statistics: SpaceStatistics,
    only: Filter,
    limit: int,
) -> Candidates:
    clauses = build_clauses(terms, statistics)
    query = {"filter": encode_filter(only), "should": clauses, "minimum_should_match": 1}
    size = min(limit * SPARE_FACTOR + SPARE, MAX_RESULTS)
    body = {"query": {"bool": query}, "size": size, "track_total_hits": True, **KEY_FIELDS}
    result = connection.search(connection.address.index, body)["hits"]
    hits, total = result["hits"], result["total"]["value"]
    last = hits[-1]["_score"] if len(hits) < total else 0.0
    # An item may have terms that were left out of the query, or nothing else.
    bound = last + sum(term.weight for term in left_out)
    return Candidates(decode_keys(hits), widen_bound(bound) if bound else 0.0, total)


def build_clauses(terms: Sequence[WeightedTerm], statistics: SpaceStatistics) -> list[Json]:
    """Return clauses whose scores add up to the bound of an item."""
    has_long_items = statistics.passages > statistics.items
    levels = min(MAX_LEVELS, max(1, MAX_CLAUSES // (len(terms) * (3 if has_long_items else 1))))
    of_passages = group_classes(impact_bounds(statistics.length / statistics.passages), levels)
    clauses = [
        _constant("terms", term, classes, score)
        for term, classes, score in iterate_levels(terms, of_passages)
    ]
    if not has_long_items:
        return clauses
    of_items = group_classes(impact_bounds(statistics.length / statistics.items), levels)
    share = words.ITEM_SHARE
    clauses += [
        _constant("whole", term, classes, score)
        for term, classes, score in iterate_levels(terms, of_items, share)
    ]
    of_best = [
        _constant("passages.terms", term, classes, score)
        for term, classes, score in iterate_levels(terms, of_passages, 1 - share)
    ]
    best = {"path": "passages", "score_mode": "max", "query": {"bool": {"should": of_best}}}
    return [*clauses, {"nested": best}]


def _constant(field: str, term: WeightedTerm, classes: Sequence[str], score: float) -> Json:
    values = [f"{term.term} {name}" for name in classes]
    return {"constant_score": {"filter": {"terms": {field: values}}, "boost": score}}


def _read_statistics(connection: Connection, terms: TermWeights, only: Filter) -> SpaceStatistics:
    """Count the passages of the spaces, all of them and those that have each term."""
    names = [shorten_term(term) for term in terms]
    body = {
        "query": {"bool": {"filter": [{"terms": {"space": list(only.spaces)}}]}},
        "size": 0,
        "track_total_hits": True,
        "aggs": {
            "passages": {"sum": {"field": "passage_count"}},
            "length": {"sum": {"field": "length"}},
            "short": _count_terms("terms", names),
            "long": {
                "nested": {"path": "passages"},
                "aggs": {"long": _count_terms("passages.terms", names)},
            },
        },
    }
    result = connection.search(connection.address.index, body)
    counts = result["aggregations"]
    short, long = counts["short"]["buckets"], counts["long"]["long"]["buckets"]
    frequencies = {
        name: short[number]["doc_count"] + long[number]["doc_count"]
        for number, name in enumerate(names)
    }
    return SpaceStatistics(
        result["hits"]["total"]["value"],
        int(counts["passages"]["value"]),
        int(counts["length"]["value"]),
        frequencies,
    )


def _count_terms(field: str, names: Sequence[str]) -> Json:
    return {"filters": {"filters": [{"term": {field: name}} for name in names]}}
