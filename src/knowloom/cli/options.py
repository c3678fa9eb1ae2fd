"""Parameter types and options that several commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, get_args

import click

from knowloom import codec
from knowloom.cli.streams import read_stdin
from knowloom.errors import Invalid
from knowloom.filters.condition_json import where_to_json
from knowloom.filters.expressions import parse_expression
from knowloom.model import Kind
from knowloom.recipes import Mode
from knowloom.tiers import TIERS

STANDARD_INPUT = "-"
DEFAULT_SPACE_HELP = "Default: the only one, or default."
UNLIMITED = "none"  # a budget without a limit; click takes None for an option that is not set
KINDS = f"{', '.join(Kind)}"
MODES = get_args(Mode)

Decorator = Callable[[Any], Any]


def combine(*options: Decorator) -> Decorator:
    """Return a decorator that adds the options in the order of the arguments."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def examples(*lines: str) -> str:
    """Return the examples at the end of a help text, for `epilog`."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


# Parameter types


def parse_time(text: str) -> datetime:
    try:
        return codec.text_to_time(text)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a time such as 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from None


def parse_budget(text: str) -> int | str:
    if text != UNLIMITED and not text.isdecimal():
        raise click.BadParameter(f"must be an integer or none, got {text!r}")
    return text if text == UNLIMITED else int(text)


def parse_property(text: str) -> tuple[str, Any]:
    """Split NAME=VALUE; the value is decoded if it is JSON and text otherwise."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.BadParameter(f"must have the form NAME=VALUE, got {text!r}")
    with suppress(ValueError):
        return name, json.loads(value)
    return name, value


def parse_where(text: str) -> Any:
    """Return a condition such as price>=10 as JSON."""
    try:
        return where_to_json(parse_expression(text))
    except Invalid as error:
        raise click.BadParameter(str(error)) from None


def parse_selection(text: str) -> tuple[int, int]:
    start, colon, end = text.partition(":")
    if not (colon and start.isdecimal() and end.isdecimal()):
        raise click.BadParameter(f"must have the form START:END in characters, got {text!r}")
    return int(start), int(end)


# Options


def repeated(
    flag: str,
    name: str,
    metavar: str,
    help: str,
    *,
    type: Callable[[str], Any] = str,
    required: bool = False,
) -> Decorator:
    """Return an option that may be repeated."""
    return click.option(
        flag,
        name,
        type=type,
        required=required,
        multiple=True,
        metavar=metavar,
        help=f"{help} May be repeated.",
    )


def max_tokens_option(default: str, help: str = "Token budget; none for no limit.") -> Decorator:
    help = f"{help} Default: {default}."
    return click.option("--max-tokens", type=parse_budget, metavar="N|none", help=help)


def mode_option(*modes: str) -> Decorator:
    meanings = {
        "hybrid": "hybrid: keywords and embeddings",
        "bm25": "bm25: keywords only",
        "vector": "vector: embeddings only",
        "walk": "walk: also follows links",
    }
    help = "; ".join(meanings[mode] for mode in modes) + "."
    return click.option("--mode", type=click.Choice(modes), help=f"Search mode. {help}")


def space_option(help: str = "Space of the item.") -> Decorator:
    return click.option("--space", metavar="S", help=f"{help} {DEFAULT_SPACE_HELP}")


def two_names(flag: str, other: str, name: str, metavar: str, help: str, type: Any) -> Decorator:
    """Return an option with two flags, which must not be passed with different values."""

    def choose(ctx: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> Any:
        if len(set(values)) > 1:
            texts = " and ".join(map(str, dict.fromkeys(values)))
            raise click.BadParameter(f"{flag} and {other} are the same option, got {texts}")
        return values[0] if values else None

    help = f"{help} {other} is another name of it."
    return click.option(
        flag, other, name, type=type, multiple=True, callback=choose, metavar=metavar, help=help
    )


def read_query(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the query; - reads it from standard input."""
    if value != STANDARD_INPUT:
        return value
    if sys.stdin.isatty():
        click.echo("reading the request from standard input; Ctrl-D ends it", err=True)
    try:
        text = read_stdin().strip()
    except Invalid as error:
        raise click.BadParameter(str(error)) from None
    if not text:
        raise click.BadParameter("standard input is empty")
    return text


query_argument = click.argument("query", callback=read_query)
search_spaces = repeated("--space", "spaces", "S", f"Space to search. {DEFAULT_SPACE_HELP}")
optional_spaces = repeated("--space", "spaces", "S", "Only this space. Default: all.")
tier_option = click.option(
    "--tier", metavar="TIER", help=f"Feature tier: {', '.join(TIERS)}. Default: no restrictions."
)
model_option = combine(
    click.option(
        "--model",
        metavar="NAME",
        help="Model whose tokens are counted, or a tokenizer.json. "
        "Default: the setting, else gpt-4.",
    ),
    click.option(
        "--strict",
        is_flag=True,
        help="Bound the tokens of a model without a known tokenizer. Default: estimate them.",
    ),
)
format_option = click.option(
    "--format",
    metavar="NAME",
    help="json, markdown, plain or yaml. Default: the setting, else markdown.",
)
as_of_option = click.option(
    "--as-of", type=parse_time, metavar="TIME", help="Use the knowledge valid at that time."
)
now_option = click.option(
    "--now", type=parse_time, metavar="TIME", help="Time of the request, for reproducible output."
)
no_vectors_option = click.option(
    "--no-vectors", is_flag=True, help="Do not embed now; knowloom embed does it later."
)
secrets_option = click.option(
    "--secrets",
    type=click.Choice(("refuse", "redact", "flag")),
    help="Policy for texts with secrets. Default: the setting.",
)
min_confidence_option = click.option(
    "--min-confidence", type=float, metavar="X", help="Minimum confidence, from 0 to 1."
)
where_option = repeated(
    "--where",
    "where",
    "CONDITION",
    "Only items whose properties fulfil this: 'price>=10', 'team in sales,support', "
    "'draft missing', '$source^=docs/' or JSON.",
    type=parse_where,
)
filter_options = combine(
    repeated("--type", "types", "T", "Only items of this type."),
    repeated("--exclude-type", "exclude_types", "T", "No items of this type."),
    repeated("--tag", "tags", "T", "Only items with one of these tags."),
    where_option,
    click.option(
        "--limit",
        type=int,
        metavar="N",
        help="Maximum number of candidates. Default: 10 for search, the recipe's for a context.",
    ),
    mode_option(*MODES),
    click.option("--min-score", type=float, metavar="X", help="Minimum score, from 0 to 1."),
    click.option(
        "--min-answer-confidence",
        type=float,
        metavar="X",
        help="Return nothing if the confidence of the answer, from 0 to 1, is lower.",
    ),
    click.option(
        "--rerank/--no-rerank",
        default=None,
        help="Score the best hits by the reranker of the setting rerank. Default: if there is one.",
    ),
    as_of_option,
)
context_options = combine(
    query_argument,
    search_spaces,
    max_tokens_option("the setting, else 2000"),
    click.option(
        "--recipe",
        metavar="NAME",
        help="How to gather the context; see knowloom recipes. Default: knowledge.",
    ),
    click.option(
        "--agent",
        metavar="NAME",
        help="Agent whose recipes, budget and format to use, instead of --recipe; "
        "see knowloom agents.",
    ),
    tier_option,
    format_option,
    model_option,
    click.option(
        "--entity",
        metavar="ID",
        help="Entity the agent works for, such as user:maya: its profile and links are used.",
    ),
    filter_options,
    click.option("--depth", type=int, metavar="N", help="Maximum number of links to follow."),
    click.option(
        "--paths",
        is_flag=True,
        help='Show in the text which links led to an item, by title: "A" mentions "B".',
    ),
    click.option("--fence", is_flag=True, help="Mark the text of untrusted items as data."),
    click.option(
        "--citations/--no-citations",
        default=True,
        help="Number the items in the text and list their sources, or name them in YAML and JSON. "
        "Default: on.",
    ),
    now_option,
)
turn_options = combine(
    repeated("--seen", "seen", "ID", "Item that was shown before: not shown again."),
    click.option(
        "--after",
        metavar="FILE",
        help="Continue this context, a file written with --json; - is standard input.",
    ),
    click.option(
        "--new-tokens",
        type=click.IntRange(min=0),
        metavar="N",
        help="Token budget of what is new. Default: as many as fit.",
    ),
)
