"""Generated contexts and reports survive the way to JSON and back."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import Context, Edge, Item, Kind
from knowloom.codec import to_json
from knowloom.model import (
    Chosen,
    Citation,
    Form,
    Fragment,
    Hit,
    Hits,
    LeftOut,
    Passage,
    Problem,
    Query,
    Stats,
)
from knowloom.wire.contexts import context_from_json, context_to_json, hits_from_json, hits_to_json
from knowloom.wire.knowledge import report_from_json, report_to_json

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
times = st.datetimes(
    min_value=datetime(1990, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)
)
fractions = st.floats(0, 1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | words,
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)
properties = st.dictionaries(words, json_values, max_size=2)
times_or_none = {
    name: st.none() | times for name in ("created_at", "updated_at", "valid_from", "valid_to")
}
texts_or_none = {name: st.none() | words for name in ("subject", "source", "embedding_text")}
item_fields = {
    "kind": st.sampled_from(Kind),
    "properties": properties,
    "tags": st.lists(names, max_size=2).map(tuple),
    "confidence": st.none() | fractions,
}
items = st.builds(
    Item,
    names,
    names,
    **item_fields,
    type=words,
    title=words,
    text=words,
    summary=words,
    section=words,
    **times_or_none,
    **texts_or_none,
)
numbered = st.builds(
    lambda item, number: replace(item, id=str(number), numbered=True),
    items,
    st.integers(-(10**18), 10**18),
)
edges = st.builds(
    Edge,
    names,
    names,
    names,
    st.floats(0.001, 1),
    names,
    st.none() | names,
    properties,
    st.just("") | names,
)
queries = st.builds(
    Query,
    words,
    st.lists(names, max_size=2).map(tuple),
    times,
    st.none() | st.integers(0, 9999),
    entity=st.none() | names,
    as_of=st.none() | times,
    vector=st.lists(st.floats(-1, 1), max_size=3).map(tuple),
    paths=st.booleans(),
    citations=st.booleans(),
)


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    drawn = draw(
        st.lists(items | numbered, min_size=1, max_size=4, unique_by=lambda item: item.key)
    )
    paths = st.lists(st.tuples(names, names), max_size=3).map(tuple)
    found_by = st.lists(st.sampled_from(["bm25", "vector", "graph"]), unique=True).map(tuple)
    signals, chains = (
        st.dictionaries(names, fractions, max_size=2),
        st.lists(edges, max_size=2).map(tuple),
    )
    hits = st.builds(
        Hit,
        st.sampled_from(drawn),
        fractions,
        signals,
        found_by,
        paths,
        st.none() | edges,
        chains,
        words,
    )
    counts = st.integers(0, 10_000)
    chosen = st.builds(Chosen, hits, st.sampled_from(Form), counts, words)
    fragments = st.builds(
        Fragment, names, st.lists(chosen, max_size=3).map(tuple), counts, words, words
    )
    left_out = st.builds(LeftOut, hits, names, words, counts, words)
    stats = st.builds(Stats, counts, counts, counts, counts, words, fractions)
    passages = st.builds(
        Passage, counts, counts, counts, st.lists(words, max_size=2).map(tuple), st.integers(0, 2)
    )
    citations = st.builds(
        Citation,
        counts,
        names,
        names,
        words,
        words,
        words,
        st.lists(passages, max_size=2).map(tuple),
    )
    query = draw(queries)
    return Context(
        draw(words),
        draw(counts),
        query,
        tuple(draw(st.lists(fragments, max_size=2))),
        tuple(draw(st.lists(left_out, max_size=2))),
        tuple(draw(st.lists(st.builds(Problem, names, words, names), max_size=2))),
        draw(words),
        draw(stats),
        tuple(draw(st.lists(citations, max_size=2))) if query.citations else (),
    )


class TestWire:
    @settings(max_examples=150, deadline=None)
    @given(contexts())
    def test_a_context_survives_the_wire(self, context: Context) -> None:
        assert context_from_json(json.loads(to_json(context_to_json(context)))) == context
        assert hits_from_json(json.loads(to_json(hits_to_json(Hits(context.hits))))) == list(
            context.hits
        )

    @settings(max_examples=50, deadline=None)
    @given(
        st.builds(
            knowloom.Report,
            *[st.integers(0, 99)] * 4,
            st.lists(st.builds(knowloom.Skipped, words, words, words)).map(tuple),
            st.lists(words).map(tuple),
        )
    )
    def test_a_report_survives_the_wire(self, report: knowloom.Report) -> None:
        assert report_from_json(json.loads(to_json(report_to_json(report)))) == report
