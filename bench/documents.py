"""Load times and memory by kind of file: python -m bench.documents FOLDER [FOLDER ...].

Each kind is loaded on its own into a new store without vectors, in a process of its own, so that
the peak of its memory is known. Files are read where they are; nothing is copied.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import knowloom
from knowloom.loading import discovery, document_parser, readers
from knowloom.loading.file_formats import formats_by_suffix
from knowloom.loading.readers import supported_suffixes


def list_kinds(folders: Sequence[Path]) -> dict[str, list[Path]]:
    """Return the files of the folders by kind, in order."""
    kinds: dict[str, list[Path]] = defaultdict(list)
    for folder in folders:
        for file in discovery.list_files(folder, supported_suffixes()).files:
            format = formats_by_suffix().get(file.path.suffix.lower())
            kinds[format.kind if format else "JSON rows"].append(file.path)
    return dict(sorted(kinds.items()))


def measure(files: Sequence[Path]) -> dict[str, Any]:
    """Load the files through links in a temporary folder and return counts and times."""
    size = sum(file.stat().st_size for file in files)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "docs"
        folder.mkdir()
        for number, file in enumerate(files):
            os.symlink(file.resolve(), folder / f"{number:06}-{file.name}")
        start = time.perf_counter()
        rows = sum(1 for _ in readers.read_rows(folder, "bench", follow_links=True))
        parsing = time.perf_counter() - start
        with knowloom.open(f"{place}/k.db", embedder=None) as kb:
            start = time.perf_counter()
            report = kb.load(folder, space="bench", follow_links=True, embed=False)
            seconds = time.perf_counter() - start
    document_parser.close_idle()  # the memory of children is known when they have ended
    own, children = (
        resource.getrusage(who).ru_maxrss // 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return {
        "files": len(files),
        "mb": round(size / 1e6, 2),
        "items": report.added,
        "skipped": len(report.skipped),
        "rows": rows,
        "parsing_s": round(parsing, 2),
        "s": round(seconds, 2),
        "s_per_mb": round(seconds / max(size / 1e6, 1e-9), 2),
        "ms_per_file": round(1000 * seconds / len(files), 1),
        "peak_mb": own,
        "parser_peak_mb": children,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--kind", help="measure only this kind, in this process")
    arguments = parser.parse_args()
    kinds = list_kinds(arguments.folders)
    if arguments.kind:
        print(json.dumps(measure(kinds[arguments.kind])))
        return
    for kind in kinds:
        command = [sys.executable, "-m", "bench.documents", "--kind", kind]
        run = subprocess.run(
            [*command, *map(str, arguments.folders)], capture_output=True, text=True, check=True
        )
        print(f"{kind:18} {run.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()
