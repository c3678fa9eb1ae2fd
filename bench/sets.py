"""Sets to measure: items, questions and their evidence, read from a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.evidence import Answer, Evidence, Row, find_answer, find_evidence
from bench.long_documents import Place, find_places, join_passages, join_sessions
from knowloom.evaluation.datasets import CORPUS, DEFAULT_SPACE, QUERIES
from knowloom.evaluation.questions import Question, read_rows
from knowloom.model import Item, Key

SPLITS = {"scifact": "test"}  # the split to measure, of sets that have several
# The field that names a question's space, of sets whose questions concern a part of the corpus.
SPACES = {"locomo": "conv"}


@dataclass(frozen=True, slots=True)
class Task:
    """A question with the gold passages and the evidence that a context should show."""

    question: Question
    golds: tuple[Place, ...]
    evidence: tuple[Evidence, ...]
    answer: Answer | None


@dataclass(frozen=True, slots=True)
class BenchSet:
    """The items and tasks of a set. `is_joined`: its passages are parts of long documents."""

    name: str
    items: tuple[Item, ...]
    tasks: tuple[Task, ...]
    is_joined: bool


@dataclass(frozen=True, slots=True)
class Join:
    """The way to make long documents of a set; by default each passage is an item."""

    size: int = 0
    seed: int | None = None
    sessions: bool = False

    def __str__(self) -> str:
        shuffled = "" if self.seed is None else f", shuffled by {self.seed}"
        joined = f"joined by {self.size}{shuffled}" if self.size else ""
        return "sessions" if self.sessions else joined

    def apply(
        self, items: Sequence[Item], rows: Sequence[Row]
    ) -> tuple[Sequence[Item], Mapping[Key, Place]]:
        if self.sessions:
            return join_sessions(items, rows)
        if self.size:
            return join_passages(items, self.size, self.seed)
        return items, find_places(items)


def read_set(folder: Path, join: Join) -> BenchSet:
    """Read a set. Questions without gold passages, and of other splits, are left out."""
    field, split = SPACES.get(folder.name, ""), SPLITS.get(folder.name, "")
    corpus = [row for _, row in read_rows(folder / CORPUS) if row["title"] or row["text"]]
    passages = [
        Item(row["id"], _space(row, field), title=row["title"], text=row["text"]) for row in corpus
    ]
    items, places = join.apply(passages, corpus)
    texts = {passage.key: passage.text for passage in passages}
    tasks = []
    for number, row in read_rows(folder / QUERIES[0]):
        keys = [(_space(row, field), id) for id in row["gold"]]
        keys = [key for key in keys if key in places]
        if keys and (not split or row["split"] == split):
            tasks.append(_make_task(row, number, keys, places, texts))
    return BenchSet(folder.name, tuple(items), tuple(tasks), items is not passages)


def _make_task(
    row: Row,
    number: int,
    keys: Sequence[Key],
    places: Mapping[Key, Place],
    texts: Mapping[Key, str],
) -> Task:
    golds, gold_texts = [places[key] for key in keys], [texts[key] for key in keys]
    documents = tuple(dict.fromkeys(place.key[1] for place in golds))
    id = f"{row.get('id', '')}#{number}"  # ids of some sets occur twice
    return Task(
        Question(row["text"], documents, id, (keys[0][0],)),
        tuple(golds),
        find_evidence(row, golds, gold_texts),
        find_answer(row, golds, gold_texts),
    )


def _space(row: Row, field: str) -> str:
    return row[field] if field else DEFAULT_SPACE
