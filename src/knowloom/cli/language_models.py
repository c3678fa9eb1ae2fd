"""The language model of a command, or the error that says what to set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from knowloom.cli.session import Session
from knowloom.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from knowloom.ports import LLM

LOCAL = "openai:llama3@http://127.0.0.1:11434/v1"
llm_option = click.option(
    "--llm",
    metavar="NAME",
    help="openai:MODEL or openai:MODEL@URL. Default: the setting llm (KNOWLOOM_LLM).",
)


@contextmanager
def open_llm(session: Session, name: str | None) -> Iterator[LLM]:
    """Open the model of the option or of the settings; errors in the block say what to set."""
    import knowloom

    settings = session.llm_settings()
    address = name or session.settings().llm
    if not address:
        raise click.UsageError(
            f"no LLM: pass --llm, such as openai:gpt-4o-mini or {LOCAL}, or set KNOWLOOM_LLM"
        )
    key = settings.get("api_key")
    if not key and address.startswith("openai:") and "@http" not in address:
        raise Invalid(
            f"no API key for {address!r}: set OPENAI_API_KEY (or KNOWLOOM_LLM_API_KEY), or name "
            f"a server that needs none: {LOCAL}",
            "no_api_key",
        )
    llm = knowloom.open_llm(address, **settings)
    try:
        yield llm
    except Unavailable as error:
        if error.code == "llm_failed" and (advice := _advise(str(error), bool(key))):
            raise Unavailable(f"{error}; {advice}", error.code) from error
        raise
    finally:
        llm.close()  # type: ignore[attr-defined]


def _advise(problem: str, has_key: bool) -> str:
    """Return what to set after a failure; "" if no setting would help."""
    if "no connection" in problem:
        return "is the server running? --llm or KNOWLOOM_LLM names its URL: openai:MODEL@URL"
    if "status 401" in problem or "status 403" in problem:
        state = "check" if has_key else "set"
        return f"{state} OPENAI_API_KEY or KNOWLOOM_LLM_API_KEY"
    if "status 404" in problem:
        return "check the model and the URL of --llm or KNOWLOOM_LLM: openai:MODEL@URL"
    return "a longer KNOWLOOM_LLM_TIMEOUT_S may help" if "no answer within" in problem else ""
