"""The table of link rules, and the text in which a store remembers the rules it was linked by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knowloom.errors import Invalid, unknown_name
from knowloom.linking.name_rules import NAME_RULES, NameRule
from knowloom.linking.nearest_rules import NearestRule, SharedTag
from knowloom.linking.similar_rule import SimilarRule
from knowloom.model import EdgeKey, Key
from knowloom.ports import NameFinder
from knowloom.text.passages import SEGMENTER

LinkRule = NearestRule | SimilarRule | NameRule
RULES: dict[str, LinkRule] = {rule.type: rule for rule in (SharedTag(), SimilarRule(), *NAME_RULES)}

NO_RULES = "none"  # what is stored if no rule is selected
_FINDER = "names="  # before the fingerprint of a name finder
_SEGMENTER = "passages="  # before the segmenter and its size


def select_rules(names: Sequence[str]) -> tuple[LinkRule, ...]:
    """Return the rules of these names, each once, in the order of the table."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        available = ", ".join(RULES)
        raise Invalid(f"links must be a list of rules, got {names!r}; available: {available}")
    for name in names:
        if name not in RULES:
            raise unknown_name("link rule", name, RULES)
    return tuple(rule for name, rule in RULES.items() if name in names)


def format_rules(rules: Sequence[LinkRule], finder: NameFinder | None, passage_size: int) -> str:
    """Return the text to store: rules with their versions, the segmenter, and the finder."""
    parts = [f"{rule.type}/{rule.version}" for rule in rules]
    if any(isinstance(rule, NameRule) for rule in rules):
        parts.append(f"{_SEGMENTER}{SEGMENTER}:{passage_size}")
    parts += [] if finder is None else [f"{_FINDER}{finder.fingerprint}"]
    return " ".join(parts) or NO_RULES


def parse_rules(stored: str) -> tuple[LinkRule, ...]:
    """Return the rules of a stored text; all rules for the empty text of new knowledge."""
    names = [part.partition("/")[0] for part in stored.split()]
    return tuple(rule for name, rule in RULES.items() if not stored or name in names)


def parse_finder(stored: str) -> str:
    """Return the fingerprint of the name finder in a stored text, "" for none."""
    parts = (part for part in stored.split() if part.startswith(_FINDER))
    return next(parts, "").removeprefix(_FINDER)


def find_dirty_items(edges: Sequence[EdgeKey]) -> Iterator[Key]:
    """Yield the items whose automatic edges may change when these explicit edges do."""
    for source, target, type in edges:
        if type in RULES:
            yield from (source, target)
