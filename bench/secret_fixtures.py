"""Recall and precision of the secret scanner on the fixtures of two public scanners.

The fixtures are read from git repositories of gitleaks and Nosey Parker and never copied. A hash of
each text puts half of them aside: rules are written with the other half (`--half development`), and
only figures of the held-out half are quoted.

python -m bench.secret_fixtures --gitleaks REPOSITORY --noseyparker REPOSITORY
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from knowloom.secrets.rules import builtin_scanner

SECRET_CATEGORIES = {"secret", "hashed"}
HALVES = ("development", "held-out")
# The lists of a Go rule, until the line that closes them: true positives and false positives.
GO_LISTS = re.compile(
    r"^\t+([tf]ps)\s*:?=\s*(?:\[\]string\{|append\([tf]ps,)[^\n`\"]*\n(.*?)^\t[})]",
    re.MULTILINE | re.DOTALL,
)
GO_TOKENS = re.compile(r"`([^`]*)`|(\"(?:[^\"\\\n]|\\.)*\")|//[^\n]*|(,)|([^\s,`\"]+)")


@dataclass(frozen=True, slots=True)
class Fixture:
    """A text of a scanner's tests, and if it contains a secret."""

    scanner: str
    file: str
    text: str
    is_secret: bool

    @property
    def half(self) -> str:
        return HALVES[hashlib.sha256(self.text.encode()).digest()[0] % 2]


def read_gitleaks(repository: Path) -> Iterator[Fixture]:
    """Yield the literal texts of `tps` and `fps`; generated ones differ on every run."""
    for path, source in _read_files(repository, "cmd/generate/config/rules", ".go"):
        for kind, body in GO_LISTS.findall(source):
            for text in _go_literals(body):
                yield Fixture("gitleaks", path, text, kind == "tps")


def _go_literals(body: str) -> Iterator[str]:
    """Yield the elements of a Go list that are one literal, not an expression."""
    element: list[str | None] = []
    for raw, quoted, comma, code in GO_TOKENS.findall(body + ","):
        if comma:
            if len(element) == 1 and element[0]:
                yield element[0]
            element = []
        elif quoted:
            element.append(_unquote(quoted))
        elif code:
            element.append(None)
        elif raw:
            element.append(raw)


def _unquote(literal: str) -> str | None:
    try:
        return str(json.loads(literal))
    except ValueError:  # an escape that only Go has
        return None


def read_noseyparker(repository: Path) -> Iterator[Fixture]:
    """Yield the examples and negative examples of the rules.

    The examples of rules for identifiers, such as names of buckets, are not secrets and left out.
    """
    for path, source in _read_files(
        repository, "crates/noseyparker/data/default/builtin/rules", ".yml"
    ):
        for rule in yaml.safe_load(source)["rules"]:
            if SECRET_CATEGORIES.isdisjoint(rule.get("categories", ())):
                continue
            for name, is_secret in (("examples", True), ("negative_examples", False)):
                for text in rule.get(name) or ():
                    yield Fixture("noseyparker", path, text, is_secret)


def _read_files(repository: Path, folder: str, suffix: str) -> Iterator[tuple[str, str]]:
    git = ["git", "-C", str(repository)]
    names = _run([*git, "ls-tree", "-r", "--name-only", "HEAD", folder]).splitlines()
    for name in names:
        if name.endswith(suffix):
            yield name.rpartition("/")[2], _run([*git, "show", f"HEAD:{name}"])


def _run(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def drop_contradictions(fixtures: Sequence[Fixture]) -> list[Fixture]:
    """Return each text once; an example of one rule is a secret, whatever other rules say of it."""
    unique: dict[str, Fixture] = {}
    for fixture in fixtures:
        text = fixture.text.strip()
        if text not in unique or fixture.is_secret > unique[text].is_secret:
            unique[text] = fixture
    return list(unique.values())


def measure(fixtures: Sequence[Fixture]) -> dict[str, float]:
    """Return recall and precision of the fixtures of a half."""
    scanner = builtin_scanner()
    rejected = [scanner.find(fixture.text.encode()) is not None for fixture in fixtures]
    pairs = list(zip(fixtures, rejected, strict=True))
    hits = sum(found and fixture.is_secret for fixture, found in pairs)
    secrets = sum(fixture.is_secret for fixture in fixtures)
    return {
        "secrets": secrets,
        "others": len(fixtures) - secrets,
        "recall": hits / max(secrets, 1),
        "precision": hits / max(sum(rejected), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gitleaks", type=Path, required=True, help="its git repository")
    parser.add_argument("--noseyparker", type=Path, required=True, help="its git repository")
    parser.add_argument("--half", choices=HALVES, default="held-out")
    parser.add_argument("--errors", action="store_true", help="print the errors of the half")
    arguments = parser.parse_args()
    fixtures = drop_contradictions(
        [*read_gitleaks(arguments.gitleaks), *read_noseyparker(arguments.noseyparker)]
    )
    chosen = [fixture for fixture in fixtures if fixture.half == arguments.half]
    for name in ("gitleaks", "noseyparker", ""):
        part = [fixture for fixture in chosen if fixture.scanner == name or not name]
        row = measure(part)
        print(
            f"{arguments.half} {name or 'both':12} secrets {row['secrets']:4} others"
            f" {row['others']:4}  recall {row['recall']:6.1%}  precision {row['precision']:6.1%}"
        )
    if arguments.errors:
        print_errors(chosen)


def print_errors(fixtures: Sequence[Fixture]) -> None:
    scanner = builtin_scanner()
    for fixture in fixtures:
        match = scanner.find(fixture.text.encode())
        if (match is not None) != fixture.is_secret:
            kind = "missed" if fixture.is_secret else f"false {match.rule.name if match else ''}"
            print(f"--- {kind} {fixture.scanner} {fixture.file}\n{fixture.text[:600]}")


if __name__ == "__main__":
    main()
