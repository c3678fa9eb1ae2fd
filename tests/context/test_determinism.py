"""Digests, isolation of spaces and equal answers in each process and store."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

from engine_samples import (
    EXAMPLES,
    LATER,
    NOW,
    THEN,
    AxisEmbedder,
    comparable_parts,
    link,
    node,
    random_refund,
    request_context,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import knowloom
from knowloom import (
    Edge,
    Engine,
    Kind,
)

TEXTS = st.lists(
    st.sampled_from(["refund", "order", "zebra", "the", "policy", "返金", "🙂"]),
    min_size=1,
    max_size=6,
).map(" ".join)
KNOWLEDGE = st.lists(
    st.tuples(st.integers(0, 9), TEXTS, st.sampled_from(["node", "memory", "entity"])),
    max_size=8,
    unique_by=lambda row: row[0],
)
LINKS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=6, unique=True)


def add_rows(
    kb: Engine, space: str, rows: Sequence[tuple[int, str, str]], links: Sequence[tuple[int, int]]
) -> None:
    items = [node(f"i{number}", text, space=space, kind=Kind(kind)) for number, text, kind in rows]
    edges = [
        Edge(items[a].id, items[b].id, space=space) for a, b in links if max(a, b) < len(items)
    ]
    kb.add(items, edges)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    KNOWLEDGE.filter(bool),
    LINKS,
    KNOWLEDGE,
    LINKS,
    TEXTS,
    st.integers(0, 200),
    st.sampled_from([None, AxisEmbedder()]),
)
def test_items_in_another_space_change_no_byte(
    rows, links, other_rows, other_links, text, budget, embedder
):
    with knowloom.open("memory:", embedder=embedder) as kb:
        add_rows(kb, "s", rows, links)
        before = comparable_parts(request_context(kb, text, max_tokens=budget))
        add_rows(kb, "other", other_rows, other_links)
        assert comparable_parts(request_context(kb, text, max_tokens=budget)) == before


def test_vectors_in_another_space_change_no_score(store_url):
    with knowloom.open(store_url, embedder=AxisEmbedder()) as kb:
        kb.add([node("a", "refund"), node("b", "refund order")], embed=False)
        before = comparable_parts(request_context(kb))
        kb.add(node("c", "refund", space="other"))
        assert comparable_parts(request_context(kb)) == before


def test_supplied_vectors_in_another_space_change_no_score(refund_kb):
    before = comparable_parts(request_context(refund_kb))
    refund_kb.add(node("c", "refund", space="other"), vectors=[[1, 2]])
    assert comparable_parts(request_context(refund_kb)) == before


SCRIPT = """
    import sys, knowloom
    kb = knowloom.open("memory:", embedder=None)
    kb.load(sys.argv[1])
    for format in ("json", "markdown", "plain", "yaml"):
        context = kb.explain(
            "refund order policy", spaces=["a", "b"], format=format, max_tokens=300,
            entity="i3", now="2026-03-01", ids=["i1", "x"],
        )
        print(context.digest, context.text)
        for omission in context.left_out:
            print(omission.hit.item.key, omission.reason, omission.remedy)
"""


def test_the_same_query_has_the_same_answer_in_every_process(tmp_path):
    chance = random.Random(5)
    for space in ("a", "b"):
        rows = [
            {
                "id": f"i{n}",
                "text": " ".join(chance.choices(["refund", "order", "policy", "the"], k=20)),
                "tags": ["x", "y"],
                "created_at": "2026-01-01",
            }
            for n in range(40)
        ]
        rows += [{"source": f"i{n}", "target": f"i{(n * 7) % 40}"} for n in range(40)]
        (tmp_path / f"{space}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    answers = {run_script(SCRIPT, str(tmp_path), seed=seed) for seed in ("0", "1", "77")}
    assert len(answers) == 1 and "refund" in answers.pop()


def run_script(script: str, *arguments: str, seed: str) -> str:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": seed,
        "PYTHONPATH": str(Path(knowloom.__file__).parents[1]),
        "PYTHONIOENCODING": "utf-8",
    }
    command = [sys.executable, "-c", dedent(script), *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, check=True, text=True, encoding="utf-8"
    ).stdout


def test_the_digest_covers_items_edges_and_every_option(refund_kb):
    usual = request_context(refund_kb)
    others = [
        request_context(refund_kb, "refund please"),
        request_context(refund_kb, max_tokens=1999),
        request_context(refund_kb, format="plain"),
        request_context(refund_kb, model="gpt-4o"),
        request_context(refund_kb, now=LATER),
        request_context(refund_kb, as_of=NOW),
        request_context(refund_kb, recipe="search"),
        request_context(refund_kb, min_score=0.1),
        request_context(refund_kb, entity="maya"),
    ]
    refund_kb.add(node("parking", "changed"))
    others.append(request_context(refund_kb))
    refund_kb.add([], [link("parking", "lunch")])
    others.append(request_context(refund_kb))
    assert len({usual.digest, *(context.digest for context in others)}) == len(others) + 1
    assert re.fullmatch(r"[0-9a-f]{64}", usual.digest)


def test_the_digest_covers_the_query_vector(store_url):
    with knowloom.open(store_url, embedder=AxisEmbedder()) as kb:
        kb.add([node("a", "refund"), node("b", "money")])
        vector, other, longer = (
            [2.0, 1.0, 0.0, 0.0, 0.0],
            [2.0, 0.0, 1.0, 0.0, 0.0],
            [4.0, 2.0, 0.0, 0.0, 0.0],
        )
        assert (
            request_context(kb, vector=vector).digest
            != request_context(kb, vector=other).digest
            != request_context(kb).digest
        )
        assert (
            request_context(kb, vector=vector).digest,
            request_context(kb, vector=vector).text,
        ) == (
            request_context(kb, vector=longer).digest,
            request_context(kb, vector=longer).text,
        )


def test_the_digest_does_not_depend_on_the_order_of_writes(tmp_path):
    items = [node(f"i{number}", f"refund {number}") for number in range(30)]
    edges = [link(f"i{number}", f"i{number // 2}") for number in range(1, 30)]
    with (
        knowloom.open(str(tmp_path / "one.db"), embedder=None) as first,
        knowloom.open(str(tmp_path / "two.db"), embedder=None) as second,
    ):
        first.add(items, edges)
        second.add([replace(items[0], text="another text first"), node("gone", "refund")])
        for item in reversed(items):
            second.add(item)
        second.add([], reversed(edges))
        second.delete("gone", space="s")
        assert request_context(first).text == request_context(second).text
        # `i0` was updated in the second store only: equal digests need an equal `updated_at`.
        second.add(replace(items[0], updated_at=THEN))
        first.add(replace(items[0], updated_at=THEN))
        assert request_context(first).digest == request_context(second).digest


def test_the_memory_store_and_the_file_give_the_same_answer(tmp_path):
    chance = random.Random(2)
    items = [random_refund(chance, number) for number in range(60)]
    edges = [link(f"i{number}", f"i{number // 3}", 0.5) for number in range(1, 60)]
    with (
        knowloom.open("memory:", embedder=None) as memory,
        knowloom.open(str(tmp_path / "k.db"), embedder=None) as file,
    ):
        memory.add(items, edges)
        file.add(items, edges)
        assert comparable_parts(request_context(memory, max_tokens=300)) == comparable_parts(
            request_context(file, max_tokens=300)
        )
