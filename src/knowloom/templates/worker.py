"""The process that renders user templates: one JSON request per line, one answer per line.

It is started as a script, imports nothing of knowloom, and receives plain values only. Fuel bounds
the steps of a Jinja2 template, the system bounds the memory, and the parent kills the process if it
takes too long.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

Render = Callable[[dict[str, Any]], str]
MAX_COMPILED = 100  # cached templates

TAG = re.compile(r"\{\{(?:!--.*?--|.*?)\}\}", re.S)


class TemplateFailure(Exception):
    """An error in a template, and its line."""

    def __init__(self, reason: str, line: int | None) -> None:
        super().__init__(reason)
        self.line = line


def jinja2(source: str, fuel: int) -> Render:
    from minijinja import Environment, TemplateError

    def translate(error: TemplateError) -> TemplateFailure:
        reason = str(error).split("\n", 1)[0]
        if error.kind == "OutOfFuel":
            reason = f"ran out of its {fuel:,} steps"
        return TemplateFailure(re.sub(r" \(in section:\d+\)$", "", reason), error.line)

    environment = Environment(
        fuel=fuel,
        debug=False,
        undefined_behavior="strict",
        auto_escape_callback=lambda _: False,
        pycompat=True,
    )
    environment.keep_trailing_newline = True
    try:
        environment.add_template("section", source)
    except TemplateError as error:
        raise translate(error) from None

    def render(values: dict[str, Any]) -> str:
        try:
            return environment.render_template("section", **values)
        except TemplateError as error:
            raise translate(error) from None

    return render


def handlebars(source: str, fuel: int) -> Render:
    from dotpromptz_handlebars import Handlebars, StrictModeError

    environment = Handlebars(escape_html=False, strict=True)
    environment.register_helper("log", lambda args, options: "")  # the default one prints
    try:
        compiled = environment.compile(source)
    except (ValueError, IndexError) as error:
        raise TemplateFailure(str(error), find_line(source, str(error))) from None

    def render(values: dict[str, Any]) -> str:
        try:
            return compiled(values)
        except (ValueError, TypeError, IndexError, StrictModeError) as error:
            raise TemplateFailure(str(error), find_line(source, str(error))) from None

    return render


def find_line(source: str, reason: str) -> int | None:
    """Return the line of a Handlebars error, which the error does not contain: that of an unclosed
    tag or block, or of the first tag with a name from the message."""
    position = _find_unclosed(source)
    if position is None:
        names = re.findall(r"[\w@./\[\]-]+", reason)
        positions = (
            tag.start()
            for name in sorted(names, key=lambda name: (-len(name), name))
            for tag in TAG.finditer(source)
            if name in tag[0]
        )
        position = next(positions, None)
    return None if position is None else source.count("\n", 0, position) + 1


def _find_unclosed(source: str) -> int | None:
    opened: list[tuple[str, int]] = []
    end = 0
    for tag in TAG.finditer(source):
        end = tag.end()
        words = tag[0].strip("{}~ \n").replace("#", "# ", 1).replace("/", "/ ", 1).split()
        if words[:1] == ["#"] and len(words) > 1:
            opened.append((words[1].lstrip(">*"), tag.start()))
        elif words[:1] == ["/"] and len(words) > 1:
            if not opened or opened[-1][0] != words[1]:
                return tag.start()
            opened.pop()
    rest = source.find("{{", end)
    if rest >= 0:
        return rest
    return opened[-1][1] if opened else None


ENGINES: dict[str, Callable[[str, int], Render]] = {"handlebars": handlebars, "jinja2": jinja2}
_compiled: dict[tuple[str, str, int], Render] = {}


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """Return `text`, or `reason` and `line`, or a package that is `missing`. A request without
    `values` is only compiled."""
    try:
        limit_cpu(request.get("cpu_s", 0))
        render = _compile(request["engine"], request["source"], request["fuel"])
        text = render(request["values"]) if "values" in request else ""
    except TemplateFailure as failure:
        return {"reason": str(failure), "line": failure.line}
    except ImportError as error:
        return {"missing": error.name or str(error)}
    except Exception as error:  # the outermost handler: templates can raise anything
        return {"reason": f"{type(error).__name__}: {error}".rstrip(": "), "line": None}
    finally:
        limit_cpu(0)
    limit = request["output"]
    if len(text) > limit:
        reason = f"output must have at most {limit:,} characters, got {len(text):,}"
        return {"reason": reason, "line": None}
    return {"text": text}


def _compile(engine: str, source: str, fuel: int) -> Render:
    key = (engine, source, fuel)
    if key not in _compiled:
        if len(_compiled) >= MAX_COMPILED:
            _compiled.clear()
        _compiled[key] = ENGINES[engine](source, fuel)
    return _compiled[key]


def limit_cpu(seconds: float) -> None:
    """Let the system end this process after so many seconds of processor time; 0 for never."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def address_space_mb() -> int:
    """Return the address space of this process, 0 where the system does not tell it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE") // 2**20 + 1
    except OSError:
        return 0


def limit_memory(megabytes: int) -> None:
    """Limit the memory of this process where the system supports it: not on Windows."""
    try:
        import resource
    except ImportError:
        return
    for what, limit in ((resource.RLIMIT_AS, megabytes * 2**20), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(what)[1]
        bound = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(what, (bound, bound))


def main() -> None:
    for package in ("minijinja", "dotpromptz_handlebars"):  # the clock must not count imports
        with suppress(ImportError):
            import_module(package)
    limit_memory(int(sys.argv[1]) + address_space_mb())
    # Answers have their own descriptor: what a library prints must not pass for an answer.
    with os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n") as answers:
        os.dup2(2, 1)
        answers.write("ready\n")
        answers.flush()
        for line in sys.stdin.buffer:
            answers.write(json.dumps(handle(json.loads(line))) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
