"""How fast texts are searched for secrets, in MB/s: ordinary words, and words that come near the rules again and again.

python -m bench.secrets
python -m bench.secrets --corpus DATA/scifact/corpus.jsonl
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from bench.speed import Made
from knowloom.secrets.rules import builtin_scanner

NEAR = (
    "The password is case-sensitive, the api_key: <YOUR_API_KEY>; max token: 512, secret ="
    " settings.signing_secret_v2, see https://u:password@host. "
)


def speed(texts: Sequence[str], rounds: int) -> tuple[float, int]:
    """MB/s at the best of some rounds, and how many texts were refused."""
    scanner = builtin_scanner()
    scanner.find(NEAR.encode())  # compiled before the clock runs
    spans, refused = [], 0
    for _ in range(rounds):
        started = time.perf_counter()
        refused = sum(scanner.find(text.encode()) is not None for text in texts)
        spans.append(time.perf_counter() - started)
    return sum(len(text.encode()) for text in texts) / 1e6 / min(spans), refused


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, help="JSON Lines with title and text")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    made = Made(1000)
    cases = {
        "made words, 400 bytes a text": [made.text(58) for _ in range(5000)],
        "made words, 1 MB a text": [made.text(150_000)],
        "near the rules, 400 bytes a text": [(NEAR * 3)[:400]] * 5000,
        "near the rules, 1 MB a text": [NEAR * 7000],
    }
    if arguments.corpus:
        rows = [json.loads(line) for line in arguments.corpus.read_text("utf-8").splitlines()]
        cases[arguments.corpus.parent.name] = [
            f"{row.get('title', '')}\n{row['text']}" for row in rows
        ]
    for name, texts in cases.items():
        fast, refused = speed(texts, arguments.rounds)
        print(f"  {name:34} {fast:7.1f} MB/s   refused {refused}", flush=True)


if __name__ == "__main__":
    main()
