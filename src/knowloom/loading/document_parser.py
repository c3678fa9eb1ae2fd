"""Parse documents, those of foreign formats in a process of their own with limits."""

from __future__ import annotations

import atexit
import json
import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from knowloom.errors import Invalid, MissingExtra
from knowloom.isolation.process import ChildProcess
from knowloom.loading.file_formats import FileFormat, missing_packages
from knowloom.loading.parsed_documents import ParsedDocument, Parser, document_from_json

SCRIPT = Path(__file__).with_name("parser_worker.py")


@dataclass(frozen=True, slots=True)
class ParserLimits:
    """Limits of parsing one file in a process of its own."""

    timeout_s: float = 60.0
    memory_mb: int = 2_048  # of the process
    text: int = 20_000_000  # characters of the result


DEFAULT_LIMITS = ParserLimits()


def parse_document(
    format: FileFormat, raw: bytes, name: str, limits: ParserLimits = DEFAULT_LIMITS
) -> ParsedDocument:
    """Return the document of a file; raise Invalid if it cannot be read."""
    parser = format.parser
    if missing := missing_packages(format):
        if not format.fallback:
            advice = f"pip install 'knowloom[{format.extra}]'"
            raise MissingExtra(f"{format.kind} needs {', '.join(missing)}: {advice}")
        parser = format.fallback
    if format.isolated and parser != format.fallback:
        return _parse_isolated(parser, raw, name, limits)
    return load_parser(parser)(raw, name)


def load_parser(target: str) -> Parser:
    module, _, attribute = target.partition(":")
    parser: Parser = getattr(import_module(module), attribute)
    return parser


class ParserProcess(ChildProcess):
    """A process that parses documents, used by one thread at a time."""

    def __init__(self, memory_mb: int) -> None:
        super().__init__(SCRIPT, memory_mb, "documents")

    def parse(self, parser: str, raw: bytes, name: str, limits: ParserLimits) -> dict[str, Any]:
        """Return the answer: a `document`, or an `error` and whether the process `ended`."""
        request = {"parser": parser, "name": name, "bytes": len(raw), "text": limits.text}
        line, reason = self.ask([json.dumps(request).encode(), b"\n", raw], limits.timeout_s)
        if reason:
            return {"error": f"parsing {reason}", "ended": True}
        answer: dict[str, Any] = json.loads(line)
        return answer


_idle: list[ParserProcess] = []
_idle_lock = Lock()


def _parse_isolated(parser: str, raw: bytes, name: str, limits: ParserLimits) -> ParsedDocument:
    process = _take_process(limits.memory_mb)
    try:
        answer = process.parse(parser, raw, name, limits)
    except BaseException:
        process.close()  # it may still be answering
        raise
    if answer.get("ended"):
        process.close()
    else:
        with _idle_lock:
            _idle.append(process)
    if "error" in answer:
        raise Invalid(answer["error"])
    return document_from_json(answer["document"])


def _take_process(memory_mb: int) -> ParserProcess:
    with _idle_lock:
        while _idle:
            process = _idle.pop()
            if process.owner != os.getpid():
                continue  # a forked process inherits this list, but must not use or end them
            if process.is_alive and process.memory_mb == memory_mb:
                return process
            process.close()
    return ParserProcess(memory_mb)


def close_idle() -> None:
    """End the processes that wait for the next document."""
    with _idle_lock:
        while _idle:
            process = _idle.pop()
            if process.owner == os.getpid():
                process.close()


atexit.register(close_idle)
