"""The command `knowloom ask`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

import click

from knowloom.cli.language_models import llm_option, open_llm
from knowloom.cli.options import context_options, examples
from knowloom.cli.program import Command
from knowloom.cli.session import Session

if TYPE_CHECKING:
    from knowloom.capabilities.grounding.answers import Answer
    from knowloom.options import ContextArguments


NUMBERED = ("markdown", "plain")  # formats that number their sources


@click.command(
    cls=Command,
    epilog=examples(
        'knowloom ask "How do I process a refund request?" --llm openai:gpt-4o-mini',
        'knowloom ask "Who approves refunds?" --llm openai:llama3@http://127.0.0.1:11434/v1',
    ),
)
@context_options
@llm_option
@click.pass_obj
def ask(
    session: Session,
    /,
    query: str,
    spaces: Sequence[str] | None = None,
    llm: str | None = None,
    **options: Unpack[ContextArguments],
) -> None:
    """Answer a question with a language model.

    The question and its context are sent to any OpenAI-compatible server, and to nothing else. It
    prints the answer, the sources that it cites, and the sentences that the context does not
    support.
    """
    from knowloom.capabilities.grounding.answers import ask
    from knowloom.wire.grounding import answer_to_json

    names = ("model",) if options.get("agent") else ("max_tokens", "model")
    arguments = session.with_defaults({"format": "markdown", **options}, *names)
    if arguments["format"] not in NUMBERED or options.get("citations") is False:
        formats = " or ".join(NUMBERED)
        raise click.UsageError(f"an answer cites numbered sources: --citations, in {formats}")
    with (
        open_llm(session, llm) as model,
        session.open(needs_embedder=options.get("mode") != "bm25") as kb,
    ):
        answer = ask(kb, query, llm=model, spaces=spaces, options=arguments)
    session.warn_degraded(answer.context.degraded)
    if session.as_json:
        session.write_json(answer_to_json(answer))
        return
    session.write_text(_format_answer(answer))
    if answer.cut:
        session.warn("the answer is incomplete: the model reached its length limit")


def _format_answer(answer: Answer) -> str:
    """Return the answer, its sources, and the sentences that the context does not support."""
    lines = [answer.text, "", "Sources:"]
    lines += [f"[{cited.number}] {cited.source}" for cited in answer.citations]
    if not answer.citations:
        lines.append("none cited")
    lines += [f"[{number}] is not in the context" for number in answer.unknown_numbers]
    check = answer.check
    doubtful = (*check.contradicted, *check.unsupported)
    if check.grounded:
        lines += ["", "Grounding: the context supports every sentence that can be checked."]
    else:
        lines += ["", f"Grounding: {len(doubtful)} of {len(check.sentences)} sentences in doubt"]
    for sentence in doubtful:
        lines.append(f"- {sentence.verdict}: {sentence.text}")
        lines += [f"  {sentence.reason}"] if sentence.reason else []
    return "\n".join(lines) + "\n"
