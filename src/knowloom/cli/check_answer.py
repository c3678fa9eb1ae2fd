"""The command `knowloom check-answer`, and checks of answers as plain dicts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from knowloom.cli.assemble import read_text
from knowloom.cli.session import Command, Session, tier
from knowloom.wire import encoding

if TYPE_CHECKING:
    from knowloom.capabilities.grounding.model import AnswerCheck, SentenceCheck

EXAMPLES = """\b
Examples:
  knowloom check-answer "Gift cards are not refundable." --question "How are gift cards refunded?" --space support
  knowloom check-answer --answer examples/docs/returns.md --context examples/docs/returns.md"""


@click.command("check-answer", cls=Command, epilog=EXAMPLES)
@click.argument("text", required=False)
@click.option(
    "--answer", metavar="FILE", help="The answer, instead of TEXT; - reads standard input."
)
@click.option(
    "--context",
    "contexts",
    multiple=True,
    metavar="FILE",
    help="A text it must be supported by; may be given several times.",
)
@click.option(
    "--question",
    metavar="TEXT",
    help="What was asked: the context for it is taken from the spaces.",
)
@click.option(
    "--space",
    "spaces",
    multiple=True,
    metavar="S",
    help="A space to look in; may be given several times.",
)
@click.option(
    "--recipe",
    metavar="NAME",
    help="How that context is gathered: see knowloom recipes. Default: knowledge.",
)
@tier
@click.option(
    "--max-tokens",
    type=click.IntRange(0),
    default=4000,
    metavar="N",
    help="The budget of that context. Default: 4000.",
)
@click.option(
    "--meaning",
    is_flag=True,
    help="Also take what says the same in other words for support, with the embedder.",
)
@click.pass_obj
def check_answer(
    session: Session,
    /,
    text: str | None,
    answer: str | None,
    contexts: Sequence[str],
    question: str | None,
    **asked: Any,
) -> None:
    """Tell what of an answer its context does not support.

    Without a language model: by words, names and numbers. The exit status is 1 if any sentence is unsupported or contradicted.
    """
    from knowloom.capabilities.grounding.check import check_answer

    if (text is None) == (answer is None):
        raise click.UsageError("give the answer as TEXT or with --answer FILE")
    if not contexts and not asked["spaces"]:
        raise click.UsageError(
            "nothing to hold it against: give --context FILE, or --space S and --question TEXT"
        )
    said = text if text is not None else read_text(str(answer))
    sources: list[Any] = [read_text(name) for name in contexts]
    if asked["spaces"]:
        sources += _found(session, question or said[:2000], asked)
    found = check_answer(said, sources, embedder=_embedder(session) if asked["meaning"] else None)
    if session.as_json:
        session.write(row(found))
    else:
        session.write_text("".join(_line(one) for one in found.sentences))
    sys.exit(0 if found.grounded else 1)


def _found(session: Session, question: str, asked: dict[str, Any]) -> list[Any]:
    from knowloom.capabilities.grounding.evidence import shown_items

    with session.open() as kb:
        options = {name: asked[name] for name in ("recipe", "tier") if asked[name] is not None}
        context = kb.context(
            question, spaces=asked["spaces"], max_tokens=asked["max_tokens"], **options
        )
    session.warn(*(f"{one.part}: {one.reason}" for one in context.degraded))
    return list(shown_items(context))


def _embedder(session: Session) -> Any:
    from knowloom.registry import open_embedder

    settings = session.settings()
    name = session.embedder or settings.embedder
    if name == "none":
        raise click.UsageError(
            "--meaning needs an embedder: name one with --embedder, such as minilm"
        )
    remote = (
        {"api_key": settings.openai_api_key, "timeout_s": settings.timeout_s}
        if name.startswith("openai")
        else {}
    )
    return open_embedder(name, **remote)


def row(found: AnswerCheck) -> encoding.Row:
    return {
        "grounded": found.grounded,
        "share": found.share,
        "sentences": [_sentence(one) for one in found.sentences],
    }


def _sentence(one: SentenceCheck) -> encoding.Row:
    said = {
        "text": one.text,
        "start": one.start,
        "end": one.end,
        "verdict": one.verdict,
        "reason": one.reason,
        "missing": list(one.missing),
    }
    item = None if one.item is None else {"space": one.item.space, "id": one.item.id}
    return said | {"item": item, "evidence": one.evidence, "score": one.score}


def _line(one: SentenceCheck) -> str:
    why = f"\n    {one.reason}" if one.reason and one.verdict != "nothing_to_check" else ""
    where = (
        f"\n    {one.item.id}: {one.evidence}"
        if one.item is not None and one.verdict != "supported"
        else ""
    )
    return f"{one.verdict}: {one.text}{why}{where}\n"


COMMANDS: tuple[click.Command, ...] = (check_answer,)
