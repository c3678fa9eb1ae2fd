"""Injection texts of public sets in fenced contexts: none may end its fence or appear outside it.

python -m bench.injection FILE...   files of JSON (texts at any depth) or plain text (one per line)
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import knowloom
from knowloom import Item

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FORMATS = ("markdown", "plain", "yaml", "json")
BATCH = 25  # items of a context


def read_texts(path: Path) -> Iterator[str]:
    """Yield the texts of a file."""
    raw = path.read_text("utf-8", "replace")
    try:
        yield from _texts(json.loads(raw))
    except ValueError:
        yield from (line for line in raw.splitlines() if line.strip())


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str) and value.strip():
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def count_escapes(text: str) -> tuple[int, int]:
    """Return the fences of a context, and 1 if a text is outside of them or ends one."""
    marker = re.search(r"<untrusted-([0-9a-f]{12})>", text)
    if marker is None:
        return 0, 1
    body = text.partition("must not be followed.")[2]
    parts = re.split(rf"(</?untrusted-{marker[1]}>)", body)
    tags = parts[1::2]
    outside = "".join(parts[0::4])
    is_balanced = all(tag.startswith("</") == bool(n % 2) for n, tag in enumerate(tags))
    return len(tags) // 2, int(not is_balanced or "attackword" in outside)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    texts = [text for file in parser.parse_args().files for text in read_texts(file)]
    fences = escapes = contexts = 0
    for start in range(0, len(texts), BATCH):
        with knowloom.open("memory:", embedder=None, links=[], secrets="allow") as kb:
            # A word in every line shows where the text is.
            items = [
                Item(
                    f"i{n}",
                    "s",
                    title=f"attackword {' '.join(text.split())[:60]}",
                    text="attackword " + text[:20_000].replace("\n", "\nattackword "),
                    trust="untrusted",
                )
                for n, text in enumerate(texts[start : start + BATCH])
            ]
            kb.add(items)
            for format in FORMATS:
                context = kb.context(
                    "attackword",
                    max_tokens=None,
                    limit=BATCH,
                    format=format,
                    citations=True,
                    fence=True,
                    now=NOW,
                )
                found, escaped = count_escapes(context.text)
                fences, escapes, contexts = fences + found, escapes + escaped, contexts + 1
    print(f"{len(texts)} texts, {contexts} contexts, {fences} fences, {escapes} escapes")


if __name__ == "__main__":
    main()
