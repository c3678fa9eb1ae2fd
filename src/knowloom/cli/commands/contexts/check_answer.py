"""The command `knowloom check-answer`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from knowloom.cli.options import examples, repeated, tier_option, where_option
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.cli.streams import read_document

if TYPE_CHECKING:
    from knowloom.capabilities.grounding.model import SentenceCheck
    from knowloom.ports import Embedder

MAX_QUESTION = 2000  # characters of an answer that stand in for the question


class CheckContextArguments(TypedDict, total=False):
    """The options of the context that an answer is checked against."""

    recipe: str
    tier: str
    max_tokens: int
    where: Sequence[Mapping[str, Any]]


@click.command(
    "check-answer",
    cls=Command,
    epilog=examples(
        'knowloom check-answer "Gift cards are not refundable." '
        '--question "How are gift cards refunded?" --space support',
        "knowloom check-answer --answer examples/docs/returns.md "
        "--context examples/docs/returns.md",
    ),
)
@click.argument("text", required=False)
@click.option(
    "--answer", metavar="FILE", help="File with the answer, instead of TEXT; - is standard input."
)
@repeated("--context", "contexts", "FILE", "Text that must support the answer.")
@click.option("--question", metavar="TEXT", help="Question whose context is taken from the spaces.")
@repeated(
    "--space",
    "spaces",
    "S",
    "Space to search. Default: without --context, the only one, or default.",
)
@click.option(
    "--recipe",
    metavar="NAME",
    help="How to gather that context; see knowloom recipes. Default: knowledge.",
)
@tier_option
@where_option
@click.option(
    "--max-tokens",
    type=click.IntRange(0),
    default=4000,
    metavar="N",
    help="Token budget of that context. Default: 4000.",
)
@click.option(
    "--meaning", is_flag=True, help="Also accept paraphrases as support, with the embedder."
)
@click.pass_obj
def check_answer(
    session: Session,
    /,
    meaning: bool,
    text: str | None = None,
    answer: str | None = None,
    question: str | None = None,
    contexts: Sequence[str] = (),
    spaces: Sequence[str] | None = None,
    **options: Unpack[CheckContextArguments],
) -> None:
    """Report unsupported sentences of an answer.

    Uses words, names and numbers, no language model. The exit status is 1 if any sentence is
    unsupported or contradicted.
    """
    from knowloom.capabilities.grounding.check import check_answer
    from knowloom.wire.grounding import answer_check_to_json

    reply = _read_answer(text, answer)
    sources: list[Any] = [read_document(path) for path in contexts]
    if spaces or not contexts:
        sources += _search_items(session, question or reply[:MAX_QUESTION], spaces, **options)
    check = check_answer(reply, sources, embedder=_open_embedder(session) if meaning else None)
    if session.as_json:
        session.write_json(answer_check_to_json(check))
    else:
        session.write_text("".join(_format_sentence(sentence) for sentence in check.sentences))
    sys.exit(0 if check.grounded else 1)


def _read_answer(text: str | None, path: str | None) -> str:
    if text is not None and path is None:
        return text
    if path is not None and text is None:
        return read_document(path)
    raise click.UsageError("pass the answer either as TEXT or with --answer FILE")


def _search_items(
    session: Session,
    question: str,
    spaces: Sequence[str] | None,
    **options: Unpack[CheckContextArguments],
) -> list[Any]:
    from knowloom.capabilities.grounding.evidence import shown_items

    with session.open() as kb:
        context = kb.context(question, spaces=spaces, **options)
    session.warn_degraded(context.degraded)
    return list(shown_items(context))


def _open_embedder(session: Session) -> Embedder:
    from knowloom.embedders.cache import calibrate_in_memory
    from knowloom.registry import open_embedder

    name = session.embedder_name()
    if name == "none":
        raise click.UsageError("--meaning needs an embedder: pass --embedder, such as minilm")
    return calibrate_in_memory(open_embedder(name, **session.embedder_settings()))


def _format_sentence(sentence: SentenceCheck) -> str:
    lines = [f"{sentence.verdict}: {sentence.text}"]
    if sentence.reason and sentence.verdict != "nothing_to_check":
        lines.append(sentence.reason)
    if sentence.item is not None and sentence.verdict != "supported":
        lines.append(f"{sentence.item.id}: {sentence.evidence}")
    return "\n    ".join(lines) + "\n"
