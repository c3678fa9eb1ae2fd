"""The outcome of a write: counts, and everything that was skipped or could not be done yet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was not stored: where it stood, what it was, why not."""

    where: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a write did. `skipped` says where, what and why; `problems` what could not be done yet, such as embedding."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    edges: int = 0  # added, changed or removed
    skipped: tuple[Skipped, ...] = ()
    problems: tuple[str, ...] = ()
    removed: int = 0  # items that vanished from the file or folder they were loaded from

    def __add__(self, other: Report) -> Report:
        return Report(
            self.added + other.added,
            self.updated + other.updated,
            self.unchanged + other.unchanged,
            self.edges + other.edges,
            self.skipped + other.skipped,
            self.problems + other.problems,
            self.removed + other.removed,
        )
