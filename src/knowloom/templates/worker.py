"""The process that renders users' templates. It reads one JSON request per line and answers each with one line.

It is started as a script, knows nothing of the rest of knowloom, and gets plain values only. Fuel bounds the steps of a Jinja2 template;
memory is bounded by the system; for anything that takes too long the process is ended from outside.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

Render = Callable[[dict[str, Any]], str]
MAX_COMPILED = 100  # compiled templates

TAG = re.compile(r"\{\{(?:!--.*?--|.*?)\}\}", re.S)


class TemplateFailure(Exception):
    """What is wrong with a template, and on which line."""

    def __init__(self, reason: str, line: int | None) -> None:
        super().__init__(reason)
        self.line = line


def jinja2(source: str, fuel: int) -> Render:
    from minijinja import Environment, TemplateError

    def told(error: TemplateError) -> TemplateFailure:
        reason = (
            f"ran out of its {fuel:,} steps"
            if error.kind == "OutOfFuel"
            else str(error).split("\n", 1)[0]
        )
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
        raise told(error) from None

    def render(values: dict[str, Any]) -> str:
        try:
            return environment.render_template("section", **values)
        except TemplateError as error:
            raise told(error) from None

    return render


def handlebars(source: str, fuel: int) -> Render:
    from dotpromptz_handlebars import Handlebars, StrictModeError

    environment = Handlebars(escape_html=False, strict=True)
    environment.register_helper("log", lambda args, options: "")  # the usual one prints
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
    """The line that an error of Handlebars is about, which it does not say: of a tag never closed, of a block that does not match, or
    the first with a tag that has a name from the message in it."""
    place = _unclosed(source)
    if place is None:
        names = re.findall(r"[\w@./\[\]-]+", reason)
        found = (
            tag.start()
            for name in sorted(names, key=lambda name: (-len(name), name))
            for tag in TAG.finditer(source)
            if name in tag[0]
        )
        place = next(found, None)
    return None if place is None else source.count("\n", 0, place) + 1


def _unclosed(source: str) -> int | None:
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
    return rest if rest >= 0 else opened[-1][1] if opened else None


ENGINES: dict[str, Callable[[str, int], Render]] = {"handlebars": handlebars, "jinja2": jinja2}
_compiled: dict[tuple[str, str, int], Render] = {}


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """`text`, or `reason` and `line`; `missing` names a package that is not installed. Without `values` it is only compiled."""
    key = (request["engine"], request["source"], request["fuel"])
    try:
        if key not in _compiled:
            if len(_compiled) >= MAX_COMPILED:
                _compiled.clear()
            _compiled[key] = ENGINES[request["engine"]](request["source"], request["fuel"])
        text = _compiled[key](request["values"]) if "values" in request else ""
    except TemplateFailure as refused:
        return {"reason": str(refused), "line": refused.line}
    except ImportError as error:
        return {"missing": error.name or str(error)}
    except (
        Exception
    ) as error:  # the outermost line of this process: whatever a template brings about is told
        return {"reason": f"{type(error).__name__}: {error}".rstrip(": "), "line": None}
    if len(text) > request["output"]:
        return {
            "reason": f"gives {len(text):,} characters, the limit is {request['output']:,}",
            "line": None,
        }
    return {"text": text}


def limit_memory(megabytes: int) -> None:
    """Where the system can do that: not on Windows."""
    try:
        import resource
    except ImportError:
        return
    for what, most in ((resource.RLIMIT_AS, megabytes * 2**20), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def main() -> None:
    limit_memory(int(sys.argv[1]))
    with os.fdopen(
        os.dup(1), "w", encoding="utf-8", newline="\n"
    ) as answers:  # what a library prints must not pass for an answer
        os.dup2(2, 1)
        answers.write("ready\n")
        answers.flush()
        for line in sys.stdin.buffer:
            answers.write(json.dumps(handle(json.loads(line))) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
