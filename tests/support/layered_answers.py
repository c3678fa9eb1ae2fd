"""The answers of layered stores beside those of one SQLite file with the same knowledge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import knowloom
from knowloom import Engine
from knowloom.testing.knowledge import NOW, babble, item, long_item
from letters import Letters

QUESTIONS = ("How do I process a refund?", "kappa tau psi", "Who owns Lantern?", "zeta OR *:* --")
CANARY = "canary"


def write_knowledge(kb: Engine) -> None:
    """Load, add, update and delete items of several spaces, long ones too."""
    kb.load("examples/harbor/shared.jsonl", space="shared")
    kb.load("examples/harbor/support.jsonl", space="support")
    texts = babble(40, 9)
    items = [item(f"i{number:02}", text, space="greek") for number, text in enumerate(texts)]
    items += [long_item(f"long{number}", *texts[number:][:3], space="greek") for number in range(6)]
    items += [
        item(f"faq{number}", text, space="greek", type="faq")
        for number, text in enumerate(texts[:5])
    ]
    kb.add([*items, *(replace(each, space="other", title=CANARY) for each in items[:20])])
    kb.add([replace(each, text=f"{each.text} refund omega") for each in items[::7]])
    kb.delete([each.id for each in items[3::9]], space="greek")


def ask(kb: Engine) -> list[Any]:
    """Return contexts, searches and walks, whose parts all stores agree about."""
    answers: list[Any] = []
    for question in QUESTIONS:
        for spaces in (["support", "shared"], ["greek"]):
            context = kb.context(question, spaces=spaces, max_tokens=600, now=NOW)
            answers.append((context.text, context.digest, context.degraded))
            assert CANARY not in context.text
        for options in ({"types": ["faq"]}, {"mode": "walk"}, {}):
            hits = kb.search(question, spaces=["greek"], limit=7, now=NOW, **options)
            answers.append([(hit.item.key, hit.score) for hit in hits])
    return answers


def assert_same_as_a_file(folder: Path, **layers: str) -> None:
    """Check that layers change no answer of the file that they follow."""
    path = str(folder / "layered.db")
    with knowloom.open(path, embedder=Letters(), **layers) as kb:
        write_knowledge(kb)
        assert kb.verify() == []
        answers = ask(kb)
    with knowloom.open(path, embedder=Letters()) as kb:
        expected = ask(kb)
    for number, (mine, theirs) in enumerate(zip(answers, expected, strict=True)):
        assert mine == theirs, (number, mine, theirs)
