"""The .gitignore files of a git repository, from its root down to a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

IGNORE_FILE = ".gitignore"
MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Rules with the folder they are relative to, the innermost ones last."""

    rules: tuple[tuple[Path, GitIgnoreSpec], ...] = ()

    @staticmethod
    def above(folder: Path) -> IgnoreRules | None:
        """Return the rules above a folder; None if it is in no git repository."""
        parents = [folder, *folder.parents]
        root = next((parent for parent in parents if (parent / ".git").exists()), None)
        if root is None:
            return None
        rules = IgnoreRules().add(root, root / ".git" / "info" / "exclude")
        for parent in reversed(folder.parents[: parents.index(root)]):
            rules = rules.add(parent, parent / IGNORE_FILE)
        return rules

    def enter(self, folder: Path) -> IgnoreRules:
        """Return the rules that hold inside a folder."""
        return self.add(folder, folder / IGNORE_FILE)

    def add(self, folder: Path, file: Path) -> IgnoreRules:
        try:
            raw = file.read_bytes()[:MAX_BYTES]
        except OSError:
            return self
        spec = GitIgnoreSpec.from_lines(raw.decode(errors="replace").splitlines())
        return IgnoreRules((*self.rules, (folder, spec)))

    def ignores(self, path: Path, is_folder: bool) -> bool:
        """Return True if the innermost rule about a path excludes it."""
        for folder, spec in reversed(self.rules):
            name = path.relative_to(folder).as_posix()
            include = spec.check_file(f"{name}/" if is_folder else name).include
            if include is not None:
                return include
        return False
