"""Notice when the files of folders change, by comparing their sizes and times."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from knowloom.loading import discovery

INTERVAL_S = 1.0  # between two looks at the files

Snapshot = dict[str, tuple[int, int]]  # size and time of change of each file


def watch_changes(
    paths: Sequence[str | Path],
    suffixes: Collection[str],
    loaded: Snapshot,
    sleep: Callable[[float], None],
    follow_links: bool = False,
    interval_s: float = INTERVAL_S,
) -> Iterator[None]:
    """Yield when files differ from those `loaded`, once they are at rest for an interval."""
    while True:
        sleep(interval_s)
        current = take_snapshot(paths, suffixes, follow_links)
        if current == loaded:
            continue
        while True:
            sleep(interval_s)
            following = take_snapshot(paths, suffixes, follow_links)
            if following == current:
                break
            current = following
        if current != loaded:
            # What changes while it is loaded differs from this snapshot afterwards.
            loaded = current
            yield


def take_snapshot(
    paths: Sequence[str | Path], suffixes: Collection[str], follow_links: bool = False
) -> Snapshot:
    """Return the files of the paths; a file that vanishes meanwhile is left out."""
    snapshot: Snapshot = {}
    for path in map(Path, paths):
        is_folder = path.is_dir()
        files = discovery.list_files(path, suffixes, follow_links).files if is_folder else ()
        for file in [file.path for file in files] if is_folder else [path]:
            try:
                status = file.stat()
            except OSError:
                continue
            snapshot[str(file)] = (status.st_size, status.st_mtime_ns)
    return snapshot
