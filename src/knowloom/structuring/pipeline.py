"""Taking free text in: known already or structured now, recorded, then loaded beside what is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from knowloom import validation
from knowloom.errors import Conflict, Invalid, unknown
from knowloom.model import Item
from knowloom.ports import LLM
from knowloom.report import Report
from knowloom.structuring import merge, prompting, records
from knowloom.structuring.records import Record
from knowloom.structuring.schema import Layers

MAX_TEXT = 2_000_000  # characters of one text
MAX_RETRIES = 20
OPTIONS = ("source", "max_retries", "max_chars", "again", "dry_run")
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Ingested:
    """What taking a text in did. `layers` is what the text says, structured; `record` the folder of its check-in record."""

    report: Report
    layers: Layers
    record: Path | None = None
    duplicate: bool = False  # the same text was taken in before: nothing was asked, nothing changed
    reused: bool = False  # an earlier record was loaded instead of asking again


@dataclass(frozen=True, slots=True)
class Asked:
    """What a caller wants done with a text."""

    text: str
    space: str
    entity: str | None
    record_dir: Path | None
    now: datetime
    source: str = ""
    max_retries: int = 3
    max_chars: int = prompting.MAX_CHARS
    again: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the engine lends: stored items by id, loading three layers, and refusing a text with a secret."""

    stored: Callable[[Sequence[str], str], Sequence[Item]]
    load: Callable[[Layers, str], Report]
    refuse: Callable[[str], None]


def asked(
    text: str,
    space: str,
    entity: str | None,
    record_dir: str | Path | None,
    now: datetime,
    options: Mapping[str, Any],
) -> Asked:
    for name in options:
        if name not in OPTIONS:
            raise unknown("option", name, OPTIONS)
    return Asked(
        text,
        space,
        entity,
        None if record_dir is None else _path("record_dir", record_dir),
        now,
        **options,
    )


def ingest(
    asked: Asked, llm: LLM, knowledge: Knowledge, progress: Progress | None = None
) -> Ingested:
    _check(asked, llm)
    knowledge.refuse(asked.text)  # before it goes to a server and into a record
    if asked.record_dir is not None and not asked.again:
        earlier = next(
            records.same(
                asked.record_dir, records.content_hash(asked.text, asked.space, asked.entity)
            ),
            None,
        )
        if earlier is not None:
            return _known(asked, *earlier, knowledge)
    layers, report, folder = _structured(asked, llm, progress)
    if asked.dry_run:
        return Ingested(report, layers, folder)
    return Ingested(
        report + _load(layers, asked.space, asked.source, folder, knowledge), layers, folder
    )


def replay(given: str | Path, space: str | None, knowledge: Knowledge) -> Report:
    """Load a record again, into its own space or another."""
    folder = _path("a check-in record", given)
    record = records.read(folder)
    if record.layers is None:
        raise Conflict(
            f"the run of {str(folder)!r} failed, so there is nothing to load: {record.error}",
            "failed_record",
        )
    return Report(skipped=record.skipped) + _load(
        record.layers, record.space if space is None else space, record.source, folder, knowledge
    )


def _known(asked: Asked, folder: Path, record: Record, knowledge: Knowledge) -> Ingested:
    """A text that was structured before. It is in the store already, or is loaded from its record."""
    assert record.layers is not None
    known = Report(skipped=record.skipped)
    if asked.dry_run:
        return Ingested(known, record.layers, folder, reused=True)
    if records.is_loaded(folder) and knowledge.stored(merge.ids(record.layers), asked.space):
        return Ingested(known, record.layers, folder, duplicate=True)
    return Ingested(
        known + _load(record.layers, asked.space, record.source, folder, knowledge),
        record.layers,
        folder,
        reused=True,
    )


def _structured(
    asked: Asked, llm: LLM, progress: Progress | None
) -> tuple[Layers, Report, Path | None]:
    """The layers, what is wrong, and the record, which is written before anything is stored, and also when the run fails."""
    run = prompting.Structuring(llm, asked.entity, asked.max_retries, progress)
    record = Record(
        asked.text,
        asked.space,
        asked.entity,
        asked.now,
        llm.name,
        prompting.prompt_version(),
        asked.source,
        asked.max_retries,
    )
    try:
        layers, skipped = run.run(asked.text, asked.max_chars)
    except BaseException as error:  # also Ctrl-C, and whatever a plug-in raises: what was asked and answered so far is kept
        if asked.record_dir is not None:
            failed = records.write(
                asked.record_dir,
                replace(record, error=str(error) or type(error).__name__),
                run.answers,
            )
            error.add_note(f"the record of the run is {failed}")
        raise
    record = replace(record, layers=layers, skipped=tuple(skipped))
    folder = (
        None if asked.record_dir is None else records.write(asked.record_dir, record, run.answers)
    )
    return layers, Report(skipped=record.skipped), folder


def _load(
    layers: Layers, space: str, source: str, folder: Path | None, knowledge: Knowledge
) -> Report:
    stored = {item.id: item for item in knowledge.stored(merge.ids(layers), space)}
    fitting, skipped = merge.beside(layers, stored, source)
    report = Report(skipped=tuple(skipped)) + knowledge.load(fitting, space)
    if folder is not None:
        records.loaded(folder, report)
    return report


def _path(name: str, given: object) -> Path:
    if not isinstance(given, str | Path) or not str(given) or "\0" in str(given):
        raise Invalid(f"{name} must be a path, not {given!r}")
    return Path(given)


def _check(asked: Asked, llm: LLM) -> None:
    if not callable(getattr(llm, "complete", None)):
        raise Invalid(
            f"llm must be an LLM such as knowloom.open_llm('openai:MODEL') gives, not {type(llm).__name__}"
        )
    if not isinstance(asked.text, str):
        raise Invalid(f"a text to ingest must be text, not {type(asked.text).__name__}")
    if not asked.text.strip():
        raise Invalid("the text to ingest is empty")
    if len(asked.text) > MAX_TEXT:
        raise Invalid(
            f"the text to ingest has {len(asked.text):,} characters; the most is {MAX_TEXT:,}: split it"
        )
    if "\0" in asked.text or any("\ud800" <= one <= "\udfff" for one in asked.text):
        raise Invalid(
            "the text to ingest is binary or damaged: it has NUL characters or lone surrogates"
        )
    for name, value in (("space", asked.space), ("entity", asked.entity), ("source", asked.source)):
        if value is not None and not validation.name(name, value) and name != "source":
            raise Invalid(f"{name} must not be empty")
    for name, number, least, most in (
        ("max_retries", asked.max_retries, 0, MAX_RETRIES),
        ("max_chars", asked.max_chars, 500, 200_000),
    ):
        if type(number) is not int or not least <= number <= most:
            raise Invalid(f"{name} must be a whole number from {least} to {most:,}, not {number!r}")
