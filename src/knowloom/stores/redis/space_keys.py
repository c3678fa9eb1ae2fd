"""The names of a store's keys in Redis.

All keys of a space have the same hash tag, the text in braces, and are thus in one slot of a
cluster: a script changes them as one. Spaces are spread over the slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

FORMAT = 1


@dataclass(frozen=True, slots=True)
class SpaceKeys:
    """The keys of one space."""

    prefix: str
    space: str

    def _key(self, part: str) -> str:
        return f"{self.prefix}:{{{escape(self.space)}.space}}:{part}"

    @property
    def meta(self) -> str:
        """A hash: version, items, digest, changes, and a pending write with its state."""
        return self._key("meta")

    @property
    def items(self) -> str:
        """A hash: the JSON of each item by id."""
        return self._key("items")

    @property
    def ids(self) -> str:
        """A sorted set of the ids, by their bytes."""
        return self._key("ids")

    @property
    def subjects(self) -> str:
        """A sorted set of the pairs of subject and id."""
        return self._key("subjects")

    @property
    def log(self) -> str:
        """A hash: the JSON of each change by its number."""
        return self._key("log")

    @property
    def history(self) -> str:
        """A sorted set of the pairs of id and number of a change."""
        return self._key("history")

    def decision(self, transaction: str) -> str:
        """The outcome of a write to several spaces, of which this is the first."""
        return self._key(f"decision:{transaction}")

    @property
    def written(self) -> list[str]:
        """The keys that a write changes, in the order of the script."""
        return [self.meta, self.items, self.ids, self.subjects, self.log, self.history]


def format_key(prefix: str) -> str:
    return f"{prefix}:format"


def spaces_key(prefix: str) -> str:
    """Return the key of the set of all spaces."""
    return f"{prefix}:spaces"


def escape(text: str) -> str:
    """Return a text without blanks and braces, distinct for each text."""
    return quote(text, safe="", errors="strict")


def subject_member(subject: str, id: str) -> str:
    return f"{escape(subject)} {id}"


def history_member(id: str, number: int) -> str:
    return f"{escape(id)} {number:015d}"
