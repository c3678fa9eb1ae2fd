"""A tour: load a folder of ordinary documents and an example company, and show the contexts."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console

import knowloom
from knowloom.cli.console import create_console, show_progress
from knowloom.cli.context_tables import (
    render_chosen,
    render_left_out,
    render_panel,
    render_parts,
    render_token_bar,
)

EXAMPLES = Path(__file__).resolve().parent
QUESTIONS = (
    ("What do I do if a parcel arrives damaged?", 300),
    ("Who approves a refund of 300 dollars?", 300),
)
REQUESTS = (
    ("How do I process a refund request?", ("support", "shared"), 700),
    ("How to query order data", ("analytics",), 600),
    ("What permissions are needed for financial reports", ("shared",), 600),
)
MAX_LEFT_OUT = 5  # rows


def show_documents(kb: knowloom.Engine, console: Console) -> None:
    """Load Markdown, reStructuredText, HTML, CSV, text and code, and ask what is in them."""
    report = kb.load(EXAMPLES / "handbook")
    files = ", ".join(f"{count.files} {count.kind}" for count in report.files)
    console.print(f"A folder of ordinary documents ({files}) became {report.added} items.\n")
    for skipped in report.skipped:
        console.print(f"skipped {skipped.where}: {skipped.why}", soft_wrap=True)
    for text, budget in QUESTIONS:
        context = kb.context(text, spaces=["handbook"], max_tokens=budget, citations=True)
        console.rule(text, align="left")
        console.print(context.text, "", markup=False, highlight=False, soft_wrap=True, sep="\n")


def show_reasons(kb: knowloom.Engine, console: Console) -> None:
    """Load prepared knowledge, and show what its contexts have and lack, with the reasons."""
    with show_progress(create_console(stderr=True)) as progress:
        report = kb.load(EXAMPLES / "harbor", progress=progress)
    console.print(f"{report.added} items and {report.edges} links of an invented company:\n")
    for text, spaces, budget in REQUESTS:
        context = kb.explain(text, spaces=spaces, max_tokens=budget)
        console.print(render_panel(context))
        console.print(render_token_bar(context), render_parts(context), "", sep="\n")
        console.print(render_chosen(context), "", sep="\n")
        console.print(render_left_out(context, max_rows=MAX_LEFT_OUT), "", sep="\n")


def main() -> None:
    console = create_console()
    file = Path(tempfile.mkdtemp(prefix="knowloom-demo-")) / "demo.db"
    with knowloom.open(str(file)) as kb:
        show_documents(kb, console)
        show_reasons(kb, console)
    program = "knowloom" if shutil.which("knowloom") else f"{sys.executable} -m knowloom"
    console.print(
        f'Ask a question:     {program} explain "How long is the warranty of the Kestrel tent?" '
        f"--space shared --db {file}",
        f'Your own documents: {program} load FOLDER && {program} context "QUESTION"',
        soft_wrap=True,
        sep="\n",
    )


if __name__ == "__main__":
    try:
        main()
    except knowloom.KnowloomError as error:
        sys.exit(f"error: {error}")
