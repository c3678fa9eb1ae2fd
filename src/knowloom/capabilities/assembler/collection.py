"""What a strategy gives, taken as hits. However much it is, only so much is looked at as could ever be used, and that is told."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from knowloom import validation
from knowloom.capabilities.assembler.model import TEXT, Piece, StrategyOutput, StrategyResult
from knowloom.errors import Invalid
from knowloom.model import Context, Hit, Item
from knowloom.options import fraction

MAX_SEEN = 10_000  # pieces taken from a strategy
MAX_PIECES = 500  # of those, the best are offered
MAX_NOTES = 10  # of those that are not right
CHARACTERS_PER_TOKEN = 40
MIN_ROOM, MAX_ROOM = 20_000, 20_000_000  # characters
PIECE_LENGTH = 1200  # characters of a piece that a long text is cut into, at a sentence

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_RUN = re.compile(rf"(?s).{{1,{PIECE_LENGTH}}}(?:\s+|\Z)|\S+")  # never cuts a word


def collect_hits(name: str, given: StrategyOutput, max_tokens: int | None) -> StrategyResult:
    """The hits of one strategy. Runs in its thread, so that a source without end runs into its time limit and no other's."""
    room = (
        MAX_ROOM
        if max_tokens is None
        else min(MAX_ROOM, max(MIN_ROOM, max_tokens * CHARACTERS_PER_TOKEN))
    )
    notes: list[str] = []
    if isinstance(given, str):
        if len(given) > room:
            notes.append(
                f"its text has {len(given):,} characters; the first {room:,} were looked at"
            )
        given = list(split_pieces(given[:room]))
    elif isinstance(given, Context):
        notes += [f"{one.part}: {one.reason}" for one in given.degraded]
    # What a context shows, knowloom itself has checked.
    hits = list(
        given.hits
        if isinstance(given, Context)
        else _hits(name, [] if given is None else given, notes)
    )
    if len(hits) > MAX_SEEN:
        notes.append(f"it gave more than {MAX_SEEN:,} pieces; the first were looked at")
    best = _best(hits[:MAX_SEEN], room, notes)
    return StrategyResult(tuple(best), min(len(hits), MAX_SEEN), tuple(notes))


def split_pieces(text: str) -> Iterator[Piece]:
    """Paragraphs; a long one in parts that end with a sentence. Earlier ones matter a little more."""
    found = [part for paragraph in _BLANK_LINES.split(text) for part in _parts(paragraph.strip())]
    for number, part in enumerate(found):
        yield Piece(part, 0.5 - 0.2 * number / max(1, len(found)))


def _parts(paragraph: str) -> list[str]:
    if len(paragraph) <= PIECE_LENGTH:
        return [paragraph] if paragraph else []
    parts: list[str] = []
    for sentence in _SENTENCE_END.split(paragraph):
        for run in [sentence] if len(sentence) <= 2 * PIECE_LENGTH else _RUN.findall(sentence):
            if parts and len(parts[-1]) + len(run) < PIECE_LENGTH:
                parts[-1] = f"{parts[-1]} {run.strip()}"
            elif run.strip():
                parts.append(run.strip())
    return parts


def _hits(name: str, given: object, notes: list[str]) -> Iterator[Hit]:
    """One by one. An item that could not be stored could not be shown either: it is left out, and that is told."""
    wrong: list[str] = []
    right = False
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise Invalid(
            f"it gave {type(given).__name__}: a strategy gives a text, or pieces, items or hits"
        )
    for number, one in enumerate(islice(given, MAX_SEEN + 1)):
        try:
            hit = _checked(name, one) if isinstance(one, Item | Hit) else _hit(name, number, one)
        except (Invalid, RecursionError, TypeError) as error:
            if not isinstance(one, Item | Hit):
                raise
            wrong.append(f"its piece {number + 1}: {str(error)[:200]}")
            continue
        if hit.item.text.strip() or hit.item.title or hit.item.summary or hit.item.properties:
            right = True
            yield hit
    if wrong and not right:
        raise Invalid(wrong[0])
    notes += wrong[:MAX_NOTES]
    if len(wrong) > MAX_NOTES:
        notes.append(f"{len(wrong) - MAX_NOTES:,} more of its pieces are not right")


def _checked(name: str, given: Item | Hit) -> Hit:
    """With an item as every store would keep it; one that belongs to no space belongs to none afterwards."""
    hit = given if isinstance(given, Hit) else Hit(given, 0.5)
    if not isinstance(hit.item, Item):
        raise Invalid(f"the item of a hit must be an Item, not {type(hit.item).__name__}")
    fraction("its score", hit.score)
    for signal in ("walk", "start"):
        fraction(f"its signal {signal!r}", hit.signals.get(signal, 0.0))
    item = validation.item(hit.item if hit.item.space else replace(hit.item, space=name))
    return replace(hit, item=replace(item, space=hit.item.space))


def _hit(name: str, number: int, given: object) -> Hit:
    piece = Piece(given) if isinstance(given, str) else given
    if (
        not isinstance(piece, Piece)
        or not isinstance(piece.text, str)
        or not isinstance(piece.title, str)
    ):
        raise Invalid(
            f"its piece {number + 1} is {type(given).__name__}: a strategy gives texts, Piece, Item or Hit values"
        )
    score = fraction(f"the score of its piece {number + 1}", piece.score)
    item = Item(
        f"{name}-{number + 1}",
        "",
        type="" if piece.title else TEXT,
        title=_text(piece.title),
        text=_text(piece.text),
    )
    return Hit(item, score)


def _text(given: str) -> str:
    """Halves of characters are not text: no tokenizer takes them."""
    return given.encode("utf-8", "replace").decode("utf-8")


def _best(hits: list[Hit], room: int, notes: list[str]) -> list[Hit]:
    """The best, in their order: so many and so long as could be used at all."""
    best = heapq.nsmallest(
        MAX_PIECES, range(len(hits)), key=lambda number: (-hits[number].relevance, number)
    )
    kept: list[int] = []
    for number in best:
        item = hits[number].item
        size = len(item.text) + len(item.title) + len(item.summary)
        if size <= room:
            room -= size
            kept.append(number)
    if len(kept) < len(hits):
        notes.append(f"of its {len(hits):,} pieces the best {len(kept):,} were looked at")
    return [hits[number] for number in sorted(kept)]
