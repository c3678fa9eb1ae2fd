"""A tour in three requests: load the example company and show the contexts, with reasons."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import knowloom
from knowloom.cli.console import create_console, show_progress
from knowloom.cli.context_tables import (
    render_chosen,
    render_left_out,
    render_panel,
    render_parts,
    render_token_bar,
)

EXAMPLE = Path(__file__).resolve().parent / "harbor"
REQUESTS = (
    ("How do I process a refund request?", ("support", "shared"), 700),
    ("How to query order data", ("analytics",), 600),
    ("What permissions are needed for financial reports", ("shared",), 600),
)
MAX_LEFT_OUT = 5  # rows


def main() -> None:
    console = create_console()
    file = Path(tempfile.mkdtemp(prefix="knowloom-demo-")) / "harbor.db"
    with knowloom.open(str(file)) as kb:
        with show_progress(create_console(stderr=True)) as progress:
            report = kb.load(EXAMPLE, progress=progress)
        console.print(
            f"{report.added} items and {report.edges} links of an invented company are in {file}\n"
        )
        for text, spaces, budget in REQUESTS:
            context = kb.explain(text, spaces=spaces, max_tokens=budget)
            console.print(render_panel(context))
            console.print(render_token_bar(context), render_parts(context), "", sep="\n")
            console.print(render_chosen(context), "", sep="\n")
            console.print(render_left_out(context, max_rows=MAX_LEFT_OUT), "", sep="\n")
    program = "knowloom" if shutil.which("knowloom") else f"{sys.executable} -m knowloom"
    console.print(
        f'Ask a question:     {program} explain "How long is the warranty of the Kestrel tent?" '
        f"--space shared --db {file}",
        f"Your own knowledge: {program} load FOLDER_OF_JSON_LINES, "
        f"then {program} context QUESTION --space FILE_NAME",
        soft_wrap=True,
        sep="\n",
    )


if __name__ == "__main__":
    try:
        main()
    except knowloom.KnowloomError as error:
        sys.exit(f"error: {error}")
