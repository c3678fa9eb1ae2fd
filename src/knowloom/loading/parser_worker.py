"""The process that parses documents: a line of JSON and the bytes of a file, one answer per line.

It is started as a script. The system bounds its memory, and the parent kills it if it takes too
long.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, BinaryIO


def handle(request: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """Return the `document`, or an `error`; `ended` if the process should not go on."""
    from knowloom.errors import Invalid
    from knowloom.loading.document_parser import load_parser
    from knowloom.loading.parsed_documents import document_to_json

    try:
        document = load_parser(request["parser"])(raw, request["name"])
    except Invalid as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": f"needs more than {sys.argv[1]} MB of memory", "ended": True}
    except RecursionError:
        return {"error": "nested too deeply"}
    except Exception as error:  # the outermost handler: parsers raise anything for broken files
        detail = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")
        return {"error": f"cannot be parsed: {detail[:300]}"}
    if len(document.text) > request["text"]:
        limit = request["text"]
        return {"error": f"text must have <= {limit:,} characters, got {len(document.text):,}"}
    return {"document": document_to_json(document)}


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


def answer_requests(requests: BinaryIO) -> None:
    # Answers have their own descriptor: what a library prints must not pass for an answer.
    with os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n") as answers:
        os.dup2(2, 1)
        answers.write("ready\n")
        answers.flush()
        while line := requests.readline():
            request = json.loads(line)
            answer = handle(request, requests.read(request["bytes"]))
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
            if answer.get("ended"):
                return


if __name__ == "__main__":
    limit_memory(int(sys.argv[1]))
    answer_requests(sys.stdin.buffer)
