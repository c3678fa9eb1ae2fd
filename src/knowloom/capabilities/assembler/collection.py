"""Collect the output of a strategy as hits, bounded by what the budget could ever hold."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from knowloom.capabilities.assembler.model import TEXT, Piece, StrategyOutput, StrategyResult
from knowloom.capabilities.assembler.verbatim import PIECE_LENGTH, VERBATIM, is_verbatim
from knowloom.errors import Invalid
from knowloom.model import Context, Hit, Hits, Item, Severity
from knowloom.validation import validate_bool, validate_fraction, validate_item

MAX_SEEN = 10_000  # pieces read from a strategy
MAX_PIECES = 500  # of those, the best are candidates
MAX_NOTES = 10  # on invalid pieces
CHARACTERS_PER_TOKEN = 40
MIN_ROOM, MAX_ROOM = 20_000, 20_000_000  # characters

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_RUN = re.compile(rf"(?s).{{1,{PIECE_LENGTH}}}(?:\s+|\Z)|\S+")  # never cuts a word


def collect_hits(name: str, output: StrategyOutput, max_tokens: int | None) -> StrategyResult:
    """Return the hits of a strategy.

    Runs in the thread of the strategy, so that an endless source hits the timeout of that strategy.
    """
    room = MAX_ROOM
    if max_tokens is not None:
        room = min(MAX_ROOM, max(MIN_ROOM, max_tokens * CHARACTERS_PER_TOKEN))
    notes: list[str] = []
    if isinstance(output, Context):
        notes += [f"{problem.part}: {problem.reason}" for problem in output.degraded]
        hits = list(output.hits)  # validated when they were stored
    elif isinstance(output, str):
        if len(output) > room:
            notes.append(f"text has {len(output):,} characters; only the first {room:,} were used")
        hits = list(_parse_hits(name, split_pieces(output[:room]), notes))
    else:
        hits = list(_parse_hits(name, [] if output is None else output, notes))
    if len(hits) > MAX_SEEN:
        notes.append(f"more than {MAX_SEEN:,} pieces; only the first were used")
    if not all(map(is_verbatim, hits)):
        hits = [_forget_verbatim(hit) for hit in hits]
    best = _select_best(hits[:MAX_SEEN], room, notes)
    degraded = output.degraded if isinstance(output, Context | Hits) else ()
    failures = tuple(problem for problem in degraded if problem.severity is Severity.FAILURE)
    count = min(len(hits), MAX_SEEN)
    return StrategyResult(tuple(best), count, tuple(notes), failures=failures)


def split_pieces(text: str) -> Iterator[Piece]:
    """Split a text into paragraphs, long ones at sentences; earlier pieces score higher."""
    paragraphs = _BLANK_LINES.split(text)
    parts = [part for paragraph in paragraphs for part in _split_paragraph(paragraph.strip())]
    for number, part in enumerate(parts):
        yield Piece(part, 0.5 - 0.2 * number / max(1, len(parts)))


def _split_paragraph(paragraph: str) -> list[str]:
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


def _parse_hits(name: str, pieces: object, notes: list[str]) -> Iterator[Hit]:
    """Yield the pieces as hits; an item that could not be stored is skipped with a note."""
    if not isinstance(pieces, Iterable) or isinstance(pieces, Mapping):
        raise Invalid(
            "a strategy must return a text, or a list of pieces, items or hits, "
            f"got {type(pieces).__name__}"
        )
    errors: list[str] = []
    is_empty = True
    for number, piece in enumerate(islice(pieces, MAX_SEEN + 1), start=1):
        if isinstance(piece, Item | Hit):
            try:
                hit = _validate_hit(name, piece)
            except (Invalid, RecursionError, TypeError) as error:
                errors.append(f"piece {number}: {str(error)[:200]}")
                continue
        else:
            hit = _piece_to_hit(name, number, piece)
        if hit.item.text.strip() or hit.item.title or hit.item.summary or hit.item.properties:
            is_empty = False
            yield hit
    if errors and is_empty:
        raise Invalid(errors[0])
    notes += errors[:MAX_NOTES]
    if len(errors) > MAX_NOTES:
        notes.append(f"{len(errors) - MAX_NOTES:,} more invalid pieces")


def _validate_hit(name: str, value: Item | Hit) -> Hit:
    """Return a hit with a validated item; an item without a space stays without one."""
    hit = value if isinstance(value, Hit) else Hit(value, 0.5)
    if not isinstance(hit.item, Item):
        raise Invalid(f"the item of a hit must be an Item, got {type(hit.item).__name__}")
    validate_fraction("score", hit.score)
    for signal in ("walk", "start"):
        validate_fraction(f"signal {signal!r}", hit.signals.get(signal, 0.0))
    item = validate_item(hit.item if hit.item.space else replace(hit.item, space=name))
    return replace(hit, item=replace(item, space=hit.item.space))


def _piece_to_hit(name: str, number: int, value: object) -> Hit:
    piece = Piece(value) if isinstance(value, str) else value
    if not isinstance(piece, Piece) or not all(
        isinstance(text, str) for text in (piece.text, piece.title)
    ):
        raise Invalid(
            f"piece {number} must be a text, a Piece, an Item or a Hit, got {type(value).__name__}"
        )
    score = validate_fraction(f"piece {number}: score", piece.score)
    title, text = _replace_surrogates(piece.title), _replace_surrogates(piece.text)
    type_ = "" if piece.title else TEXT
    item = Item(f"{name}-{number}", "", type=type_, title=title, text=text)
    is_verbatim_text = validate_bool(f"piece {number}: verbatim", piece.verbatim) and not title
    if is_verbatim_text and text.strip():
        visible = text.rstrip()
        item = replace(item, text=visible, properties={VERBATIM: text[len(visible) :]})
    return Hit(item, score)


def _forget_verbatim(hit: Hit) -> Hit:
    """Return a piece as ordinary text: it stands beside others that are not the user's own."""
    if not is_verbatim(hit):
        return hit
    return replace(hit, item=replace(hit.item, properties={}))


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which no tokenizer accepts."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _select_best(hits: list[Hit], room: int, notes: list[str]) -> list[Hit]:
    """Return the best hits in their order, within MAX_PIECES and `room` characters."""
    best = heapq.nsmallest(
        MAX_PIECES, range(len(hits)), key=lambda number: (-hits[number].relevance, number)
    )
    selected: list[int] = []
    for number in best:
        item = hits[number].item
        size = len(item.text) + len(item.title) + len(item.summary)
        if size <= room:
            room -= size
            selected.append(number)
    if len(selected) < len(hits):
        notes.append(f"only the best {len(selected):,} of {len(hits):,} pieces were used")
    return [hits[number] for number in sorted(selected)]
