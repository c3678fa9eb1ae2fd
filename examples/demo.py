"""A tour in three requests: loads the example company into a temporary file and shows what knowloom weaves for each, and why."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import knowloom
from knowloom.cli import console as screen

EXAMPLE = Path(__file__).resolve().parent / "harbor"
REQUESTS = (
    ("How do I process a refund request?", ("support", "shared"), 700),
    ("How to query order data", ("analytics",), 600),
    ("What permissions are needed for financial reports", ("shared",), 600),
)
LEFT_OUT = 5  # rows shown of what did not make it


def main() -> None:
    console = screen.console()
    file = Path(tempfile.mkdtemp(prefix="knowloom-demo-")) / "harbor.db"
    with knowloom.open(str(file)) as kb:
        with screen.progress(screen.console(stderr=True)) as tell:
            report = kb.load(EXAMPLE, progress=tell)
        console.print(
            f"{report.added} items and {report.edges} links of an invented company are in {file}\n"
        )
        for text, spaces, budget in REQUESTS:
            context = kb.explain(text, spaces=spaces, max_tokens=budget)
            console.print(screen.panel(context))
            console.print(
                screen.token_bar(context),
                screen.parts(context),
                "",
                screen.chosen(context),
                "",
                sep="\n",
            )
            console.print(screen.left_out(context, most=LEFT_OUT), "", sep="\n")
    program = "knowloom" if shutil.which("knowloom") else f"{sys.executable} -m knowloom"
    console.print(
        f'Ask it something:   {program} explain "How long is the warranty of the Kestrel tent?" --space shared --db {file}',
        soft_wrap=True,
    )
    console.print(
        f"Your own knowledge: {program} load FOLDER_OF_JSON_LINES, then {program} context QUESTION --space FILE_NAME",
        soft_wrap=True,
    )


if __name__ == "__main__":
    try:
        main()
    except knowloom.KnowloomError as error:
        sys.exit(f"error: {error}")
