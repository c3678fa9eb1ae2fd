"""Accuracy of `knowloom.check_answer` at separating true sentences from changed ones.

python -m bench.grounding DATA_FOLDER [--passages 300] [--embedder minilm]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from knowloom import Item, check_answer
from knowloom.capabilities.grounding.facts import extract_facts, split_sentences
from knowloom.ports import Embedder
from knowloom.registry import open_embedder

OTHERS = 9  # passages of the context besides the source of a sentence
VERDICTS = ("supported", "unsupported", "contradicted")
FLAGGED = ("contradicted", "unsupported")
VERBS = re.compile(r"\b(is|are|was|were|has|have|had|can|will)\b")
NUMBERS = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])|(?<![\w.,-])\d{1,4}(?![\w,.-])")
NAMES = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{3,}")
LONG_NAMES = re.compile(r"(?<=[a-z] )[A-Z][a-z]{5,}")

Tallies = dict[str, Counter[str]]


def read_rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def change_number(text: str, chance: random.Random, _: str) -> str | None:
    """Replace a number by another one."""
    matches = list(NUMBERS.finditer(text))
    if not matches:
        return None
    match = chance.choice(matches)
    value = int(match.group().replace(",", ""))
    value += chance.choice([-7, -3, -1, 1, 2, 5, 10] if value > 7 else [1, 2, 3])
    number = f"{value:,}" if "," in match.group() else str(value)
    return text[: match.start()] + number + text[match.end() :]


def change_name(text: str, chance: random.Random, name: str) -> str | None:
    """Replace a name by another one."""
    matches = list(NAMES.finditer(text))
    if not matches:
        return None
    match = chance.choice(matches)
    return text[: match.start()] + name + text[match.end() :]


def negate(text: str, _: random.Random, __: str) -> str | None:
    """Put "not" behind the first verb, unless the text is negated already."""
    verb = VERBS.search(text)
    if verb is None or extract_facts(text).is_negated:
        return None
    return f"{text[: verb.end()]} not{text[verb.end() :]}"


def shorten(text: str, chance: random.Random, _: str) -> str | None:
    """Leave out a fifth of the words, ordinary ones only: the sentence stays true."""
    words = text.split(" ")
    ordinary = [
        position
        for position, word in enumerate(words)
        if position and re.fullmatch(r"[a-z]{4,}", word)
    ]
    count = len(words) // 5
    if not 0 < count < len(ordinary):
        return None
    dropped = set(chance.sample(ordinary, count))
    return " ".join(word for position, word in enumerate(words) if position not in dropped)


CHANGES: dict[str, Callable[[str, random.Random, str], str | None]] = {
    "number": change_number,
    "name": change_name,
    "negated": negate,
    "shortened": shorten,
    "true": lambda text, _, __: text,
}
FALSE_KINDS, TRUE_KINDS = ("number", "name", "negated", "foreign"), ("true", "shortened")


def measure_changes(folder: Path, name: str, passages: int, embedder: Embedder | None) -> None:
    """Check true, changed and foreign sentences against ten passages of a set each."""
    chance = random.Random(7)
    corpus = [
        Item(row["id"], name, title=row.get("title", ""), text=row["text"])
        for row in read_rows(folder / name / "corpus.jsonl")
    ]
    chance.shuffle(corpus)
    names = sorted({word for item in corpus[-300:] for word in LONG_NAMES.findall(item.text)})
    tallies: Tallies = {kind: Counter() for kind in (*CHANGES, "foreign")}
    started = time.perf_counter()
    for number in range(passages):
        context = corpus[number : number + 1 + OTHERS]
        facts = [text for text in _factual_sentences(context[0]) if not text.endswith("?")]
        if not facts:
            continue
        text = chance.choice(facts)
        sentences = {
            kind: change(text, chance, chance.choice(names)) for kind, change in CHANGES.items()
        }
        sentences["foreign"] = next(iter(_factual_sentences(corpus[-1 - number])), None)
        for kind, sentence in sentences.items():
            if sentence is not None:
                tallies[kind][_verdict(sentence, context, embedder)] += 1
    checks = sum(tally.total() for tally in tallies.values())
    _report(name, tallies, (time.perf_counter() - started) / checks)


def _factual_sentences(item: Item) -> list[str]:
    sentences = [sentence.text for sentence in split_sentences(item.text)]
    return [text for text in sentences if not extract_facts(text).is_empty]


def _verdict(text: str, context: Sequence[Item], embedder: Embedder | None) -> str:
    """Return the worst verdict on the sentences of a text."""
    answer = check_answer(text, context, embedder=embedder)
    verdicts = [sentence.verdict for sentence in answer.sentences]
    return next((verdict for verdict in FLAGGED if verdict in verdicts), verdicts[0])


def _report(name: str, tallies: Tallies, seconds: float) -> None:
    print(f"\n{name}: {seconds * 1000:.1f} ms a sentence")
    for kind, tally in tallies.items():
        total = tally.total()
        shares = [f"{verdict} {tally[verdict] / total:6.1%}" for verdict in VERDICTS if total]
        print(f"  {kind:10} {total:5}  " + "  ".join(shares))
    hits = _count_flagged(tallies, FALSE_KINDS)
    alarms = _count_flagged(tallies, TRUE_KINDS)
    false_sentences = sum(tallies[kind].total() for kind in FALSE_KINDS)
    print(
        f"  flagged: precision {hits / max(1, hits + alarms):.1%},"
        f" recall {hits / false_sentences:.1%}"
    )


def _count_flagged(tallies: Tallies, kinds: Sequence[str]) -> int:
    return sum(tallies[kind][verdict] for kind in kinds for verdict in FLAGGED)


def measure_claims(folder: Path, embedder: Embedder | None) -> None:
    """Check claims in the words of experts, each with an abstract that supports or refutes it."""
    corpus = {
        row["id"]: Item(row["id"], "scifact", title=row.get("title", ""), text=row["text"])
        for row in read_rows(folder / "scifact" / "corpus.jsonl")
    }
    tallies: Tallies = {"SUPPORT": Counter(), "CONTRADICT": Counter()}
    for row in read_rows(folder / "scifact" / "queries.jsonl"):
        if row.get("answer") in tallies:
            context = [corpus[id] for id in row["evidence_docs"] if id in corpus]
            tallies[row["answer"]][_verdict(row["text"], context, embedder)] += 1
    print("\nscifact claims")
    for kind, tally in tallies.items():
        total = tally.total()
        shares = [f"{verdict} {count / total:.1%}" for verdict, count in sorted(tally.items())]
        print(f"  {kind:10} {total:5}  " + "  ".join(shares))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of sets; scifact must be among them")
    parser.add_argument("--sets", default="hotpotqa,2wiki,musique")
    parser.add_argument("--passages", type=int, default=300)
    parser.add_argument("--embedder", default="none")
    arguments = parser.parse_args()
    embedder = None if arguments.embedder == "none" else open_embedder(arguments.embedder)
    for name in arguments.sets.split(","):
        measure_changes(arguments.folder, name, arguments.passages, embedder)
    measure_claims(arguments.folder, embedder)


if __name__ == "__main__":
    main()
