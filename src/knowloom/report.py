"""The report of a write: counts, skipped rows and problems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that was not stored: its place, its id or text, and the reason."""

    where: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class FileCount:
    """The files of one kind in a load, the items in them, and what was skipped."""

    kind: str
    files: int = 0
    items: int = 0
    skipped: int = 0


def add_counts(counts: Iterable[FileCount]) -> tuple[FileCount, ...]:
    """Return one count for each kind, by name."""
    totals: dict[str, FileCount] = {}
    for count in counts:
        total = totals.get(count.kind, FileCount(count.kind))
        totals[count.kind] = FileCount(
            count.kind,
            total.files + count.files,
            total.items + count.items,
            total.skipped + count.skipped,
        )
    return tuple(totals[kind] for kind in sorted(totals, key=lambda kind: (kind.lower(), kind)))


@dataclass(frozen=True, slots=True)
class Report:
    """The counts of a write, rows that were skipped, and `problems` such as missing vectors."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    edges: int = 0  # added, changed or removed
    skipped: tuple[Skipped, ...] = ()
    problems: tuple[str, ...] = ()
    removed: int = 0  # items that are no longer in the file or folder they came from
    files: tuple[FileCount, ...] = field(default=(), compare=False)  # by kind

    def __str__(self) -> str:
        """Return a one-line summary; counts of zero are omitted after `added`."""
        counts = [f"{self.added} added"]
        counts += [
            f"{count} {name}"
            for count, name in (
                (self.updated, "updated"),
                (self.unchanged, "unchanged"),
                (self.removed, "removed"),
                (self.edges, "edges"),
                (len(self.skipped), "skipped"),
                (len(self.problems), "problems"),
            )
            if count
        ]
        return ", ".join(counts)

    def _repr_html_(self) -> str:
        """Return the summary and its details for notebooks."""
        details = [f"{skipped.where}: {skipped.what}: {skipped.why}" for skipped in self.skipped]
        rows = "".join(f"<li>{escape(detail)}</li>" for detail in (*details, *self.problems))
        return f"<p>{escape(str(self))}</p>" + (f"<ul>{rows}</ul>" if rows else "")

    def __add__(self, other: Report) -> Report:
        return Report(
            self.added + other.added,
            self.updated + other.updated,
            self.unchanged + other.unchanged,
            self.edges + other.edges,
            self.skipped + other.skipped,
            self.problems + other.problems,
            self.removed + other.removed,
            add_counts((*self.files, *other.files)),
        )
