"""Throughput of the secret scanner in MB/s, on ordinary words and on near misses of its rules.

python -m bench.secrets
python -m bench.secrets --corpus DATA/scifact/corpus.jsonl
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from bench.corpus import GeneratedCorpus
from knowloom.secrets.rules import builtin_scanner

NEAR_MISSES = (
    "The password is case-sensitive, the api_key: <YOUR_API_KEY>; max token: 512, secret ="
    " settings.signing_secret_v2, see https://u:password@host. "
)


def measure(texts: Sequence[str], rounds: int) -> tuple[float, int]:
    """Return MB/s at the best of some rounds, and the number of rejected texts."""
    scanner = builtin_scanner()
    scanner.find(NEAR_MISSES.encode())  # compiles the rules before the clock runs
    spans, rejected = [], 0
    for _ in range(rounds):
        started = time.process_time()
        rejected = sum(scanner.find(text.encode()) is not None for text in texts)
        spans.append(time.process_time() - started)
    return sum(len(text.encode()) for text in texts) / 1e6 / min(spans), rejected


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, help="JSON Lines with title and text")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    corpus = GeneratedCorpus(1000)
    cases = {
        "generated words, 400 bytes a text": corpus.texts(5000, 58),
        "generated words, 1 MB a text": [corpus.text(150_000)],
        "near misses, 400 bytes a text": [(NEAR_MISSES * 3)[:400]] * 5000,
        "near misses, 1 MB a text": [NEAR_MISSES * 7000],
    }
    if arguments.corpus:
        rows = [json.loads(line) for line in arguments.corpus.read_text("utf-8").splitlines()]
        cases[arguments.corpus.parent.name] = [
            f"{row.get('title', '')}\n{row['text']}" for row in rows
        ]
    for name, texts in cases.items():
        throughput, rejected = measure(texts, arguments.rounds)
        print(f"  {name:34} {throughput:7.1f} MB/s   rejected {rejected}", flush=True)


if __name__ == "__main__":
    main()
