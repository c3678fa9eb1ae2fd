"""Documents: load times and memory by kind of file, and answers to questions people asked.

    python -m bench.documents load FOLDER [FOLDER ...]
    python -m bench.documents answers REPOSITORIES --cache /tmp/vectors

`load` loads each kind on its own into a new store without vectors, in a process of its own, so that
the peak of its memory is known. Files are read where they are; nothing is copied. `answers` needs a
folder with clones of the projects of questions/test.json, under their names.
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
from bench.document_answers import SETS
from bench.document_answers import run as run_answers
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


def processor_seconds() -> float:
    """Return the processor time of this process and of its parsers, which are ended."""
    document_parser.close_idle()  # the resources of children are known when they have ended
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure(files: Sequence[Path]) -> dict[str, Any]:
    """Load the files through links in a temporary folder; return counts and processor times.

    The time on the clock depends on what else the machine does; it is returned for the whole load.
    """
    megabytes = max(sum(file.stat().st_size for file in files) / 1e6, 1e-9)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "docs"
        folder.mkdir()
        for number, file in enumerate(files):
            os.symlink(file.resolve(), folder / f"{number:06}-{file.name}")
        start = processor_seconds()
        rows = sum(1 for _ in readers.read_rows(folder, "bench", follow_links=True))
        parsing = processor_seconds() - start
        with knowloom.open(f"{place}/k.db", embedder=None) as kb:
            start, clock = processor_seconds(), time.perf_counter()
            report = kb.load(folder, space="bench", follow_links=True, embed=False)
            clock = time.perf_counter() - clock
            loading = processor_seconds() - start
    own, children = (
        resource.getrusage(who).ru_maxrss // 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return {
        "files": len(files),
        "mb": round(megabytes, 2),
        "items": report.added,
        "skipped": len(report.skipped),
        "rows": rows,
        "parsing_s_per_mb": round(parsing / megabytes, 2),
        "load_s_per_mb": round(loading / megabytes, 2),
        "load_ms_per_file": round(1000 * loading / len(files), 1),
        "clock_s": round(clock, 2),
        "peak_mb": own,
        "parser_peak_mb": children,
    }


def report_kinds(folders: Sequence[Path], only: str | None) -> None:
    kinds = list_kinds(folders)
    if only:
        print(json.dumps(measure(kinds[only])))
        return
    for kind in kinds:
        command = [sys.executable, "-m", "bench.documents", "load", "--kind", kind]
        run = subprocess.run(
            [*command, *map(str, folders)], capture_output=True, text=True, check=True
        )
        print(f"{kind:18} {run.stdout.strip()}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    load = commands.add_parser("load")
    load.add_argument("folders", nargs="+", type=Path)
    load.add_argument("--kind", help="measure only this kind, in this process")
    answers = commands.add_parser("answers")
    answers.add_argument("repositories", type=Path)
    answers.add_argument("--set", choices=SETS, default="test", help="development: to tune on")
    answers.add_argument("--cache", type=Path, help="a folder for vectors")
    answers.add_argument("--show", type=Path, help="a folder for the contexts")
    answers.add_argument("--json", type=Path, help="a file for the result of each question")
    arguments = parser.parse_args()
    if arguments.command == "load":
        report_kinds(arguments.folders, arguments.kind)
    else:
        run_answers(
            arguments.repositories, arguments.set, arguments.cache, arguments.show, arguments.json
        )


if __name__ == "__main__":
    main()
