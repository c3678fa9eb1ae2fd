"""How well `knowloom.check_answer` tells true sentences from changed ones.

python -m bench.grounding DATA_FOLDER [--passages 300] [--embedder minilm]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from knowloom import Item, check_answer
from knowloom.capabilities.grounding.facts import extract_facts, split_sentences
from knowloom.ports import Embedder
from knowloom.registry import open_embedder

OTHERS = 9  # passages of the context beside the one a sentence comes from
FLAGGED = ("unsupported", "contradicted")
VERBS = re.compile(r"\b(is|are|was|were|has|have|had|can|will)\b")


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def with_number(text: str, chance: random.Random, _: str) -> str | None:
    """One number is another."""
    found = [
        one
        for one in re.finditer(
            r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])|(?<![\w.,-])\d{1,4}(?![\w,.-])", text
        )
    ]
    if not found:
        return None
    one = chance.choice(found)
    value = int(one.group().replace(",", ""))
    other = (
        value + chance.choice([-7, -3, -1, 1, 2, 5, 10])
        if value > 7
        else value + chance.choice([1, 2, 3])
    )
    return (
        text[: one.start()]
        + (f"{other:,}" if "," in one.group() else str(other))
        + text[one.end() :]
    )


def with_name(text: str, chance: random.Random, stranger: str) -> str | None:
    """One name is another."""
    found = [one for one in re.finditer(r"(?<=[a-z,] )[A-Z][a-z]{3,}", text)]
    if not found:
        return None
    one = chance.choice(found)
    return text[: one.start()] + stranger + text[one.end() :]


def denied(text: str, _: random.Random, __: str) -> str | None:
    found = VERBS.search(text)
    return (
        None
        if found is None or extract_facts(text).is_negated
        else f"{text[: found.end()]} not{text[found.end() :]}"
    )


def shortened(text: str, chance: random.Random, _: str) -> str | None:
    """A fifth of the ordinary words is left out: as true as before, said in other words."""
    parts = text.split(" ")
    ordinary = [
        place for place, word in enumerate(parts) if place and re.fullmatch(r"[a-z]{4,}", word)
    ]
    gone = (
        set(chance.sample(ordinary, len(parts) // 5)) if len(ordinary) > len(parts) // 5 else set()
    )
    return " ".join(word for place, word in enumerate(parts) if place not in gone) if gone else None


CHANGES: dict[str, Callable[[str, random.Random, str], str | None]] = {
    "number": with_number,
    "name": with_name,
    "denied": denied,
    "shortened": shortened,
    "true": lambda text, _, __: text,
}


def changed_sentences(folder: Path, name: str, passages: int, embedder: Embedder | None) -> None:
    chance = random.Random(7)
    corpus = [
        Item(row["id"], name, title=row.get("title", ""), text=row["text"])
        for row in rows(folder / name / "corpus.jsonl")
    ]
    chance.shuffle(corpus)
    strangers = sorted(
        {
            one
            for item in corpus[-300:]
            for one in re.findall(r"(?<=[a-z] )[A-Z][a-z]{5,}", item.text)
        }
    )
    tallies: dict[str, Counter[str]] = {kind: Counter() for kind in (*CHANGES, "foreign")}
    started, checked = time.perf_counter(), 0
    for number in range(passages):
        own, context = corpus[number], corpus[number : number + 1 + OTHERS]
        said = [
            one.text
            for one in split_sentences(own.text)
            if not extract_facts(one.text).is_empty and not one.text.endswith("?")
        ]
        if not said:
            continue
        text = chance.choice(said)
        asked = {
            kind: change(text, chance, chance.choice(strangers)) for kind, change in CHANGES.items()
        }
        asked["foreign"] = next(
            (
                one.text
                for one in split_sentences(corpus[-1 - number].text)
                if not extract_facts(one.text).is_empty
            ),
            None,
        )
        for kind, sentence in asked.items():
            if sentence is not None:
                verdicts = [
                    one.verdict
                    for one in check_answer(sentence, context, embedder=embedder).sentences
                ]
                tallies[kind][
                    next(
                        (one for one in ("contradicted", "unsupported") if one in verdicts),
                        verdicts[0],
                    )
                ] += 1
                checked += 1
    _report(name, tallies, (time.perf_counter() - started) / checked)


def _report(name: str, tallies: dict[str, Counter[str]], seconds: float) -> None:
    print(f"\n{name}: {seconds * 1000:.1f} ms a sentence")
    for kind, tally in tallies.items():
        total = sum(tally.values())
        shares = (
            {
                verdict: tally[verdict] / total
                for verdict in ("supported", "unsupported", "contradicted")
            }
            if total
            else {}
        )
        print(
            f"  {kind:10} {total:5}  "
            + "  ".join(f"{verdict} {share:6.1%}" for verdict, share in shares.items())
        )
    wrong = {kind: tallies[kind] for kind in ("number", "name", "denied", "foreign")}
    hits = sum(tally[verdict] for tally in wrong.values() for verdict in FLAGGED)
    alarms = sum(tallies[kind][verdict] for kind in ("true", "shortened") for verdict in FLAGGED)
    print(
        f"  flagged: precision {hits / max(1, hits + alarms):.1%}, recall"
        f" {hits / sum(sum(tally.values()) for tally in wrong.values()):.1%}"
    )


def claims(folder: Path, embedder: Embedder | None) -> None:
    """Claims that people wrote in their own words, each with the abstract that supports or contradicts it."""
    corpus = {
        row["id"]: Item(row["id"], "scifact", title=row.get("title", ""), text=row["text"])
        for row in rows(folder / "scifact" / "corpus.jsonl")
    }
    tallies: dict[str, Counter[str]] = {"SUPPORT": Counter(), "CONTRADICT": Counter()}
    for row in rows(folder / "scifact" / "queries.jsonl"):
        if row.get("answer") in tallies:
            context = [corpus[one] for one in row["evidence_docs"] if one in corpus]
            verdicts = [
                one.verdict
                for one in check_answer(row["text"], context, embedder=embedder).sentences
            ]
            tallies[row["answer"]][
                next(
                    (one for one in ("contradicted", "unsupported") if one in verdicts), verdicts[0]
                )
            ] += 1
    print("\nscifact claims")
    for kind, tally in tallies.items():
        print(
            f"  {kind:10} {sum(tally.values()):5}  "
            + "  ".join(
                f"{verdict} {count / sum(tally.values()):.1%}"
                for verdict, count in sorted(tally.items())
            )
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default="hotpotqa,2wiki,musique")
    parser.add_argument("--passages", type=int, default=300)
    parser.add_argument("--embedder", default="none")
    asked = parser.parse_args()
    embedder = None if asked.embedder == "none" else open_embedder(asked.embedder)
    for name in asked.sets.split(","):
        changed_sentences(asked.folder, name, asked.passages, embedder)
    claims(asked.folder, embedder)


if __name__ == "__main__":
    main()
