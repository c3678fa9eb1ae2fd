"""The command `knowloom eval`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from knowloom.cli.evaluation_inputs import (
    Configuration,
    EvaluationInputs,
    input_options,
    open_inputs,
    parse_configuration,
    print_result,
    validate_output,
)
from knowloom.cli.options import examples, repeated
from knowloom.cli.program import Command
from knowloom.cli.session import Session
from knowloom.cli.streams import open_output

if TYPE_CHECKING:
    from rich.console import RenderableType

    from knowloom.evaluation.compare import Comparison
    from knowloom.evaluation.results import Evaluation
    from knowloom.ports import Progress


class MeasureArguments(TypedDict, total=False):
    """The options that both configurations are measured with."""

    ks: Sequence[int]
    budgets: Sequence[int]
    spaces: Sequence[str]
    now: datetime


def _parse_numbers(text: str) -> tuple[int, ...]:
    with suppress(ValueError):
        return tuple(int(part) for part in text.split(",")) if text else ()
    raise click.BadParameter(f"must be integers such as 2,5,10, got {text!r}")


@click.command(
    "eval",
    cls=Command,
    epilog=examples(
        "knowloom eval examples/questions.jsonl",
        "knowloom eval examples/harbor examples/questions.jsonl --with mode=walk "
        "--against mode=bm25 --html report.html",
    ),
)
@input_options
@click.option(
    "--k",
    "ks",
    default="2,5,10",
    type=_parse_numbers,
    metavar="N,N",
    help="Cutoffs of search results. Default: 2,5,10.",
)
@click.option(
    "--budgets",
    default="512,1024,2048",
    type=_parse_numbers,
    metavar="N,N",
    help="Budgets of contexts, in tokens. Default: 512,1024,2048.",
)
@repeated(
    "--with", "with_", "NAME=VALUE", "Option to ask with: mode=walk, depth=0, a TOML file, …."
)
@repeated(
    "--against",
    "against",
    "NAME=VALUE",
    "Compare with these options, in the same form; default for none.",
)
@click.option(
    "--measure",
    default="",
    metavar="NAME",
    help="Measure of the verdict, such as recall@5. Default: nDCG@10, else the first that differs.",
)
@click.option(
    "--html",
    metavar="FILE",
    help="Write a page with plots and every changed question; - for standard output.",
)
@click.pass_obj
def evaluate(
    session: Session,
    /,
    paths: Sequence[str],
    space_by: str,
    split: str,
    seed: int,
    measure: str,
    with_: Sequence[str] = (),
    against: Sequence[str] = (),
    html: str | None = None,
    **options: Unpack[MeasureArguments],
) -> None:
    """Measure retrieval on questions, or compare two ways.

    QUESTIONS is a file of lines such as {"question": "…", "expected": ["id"], "spaces":
    ["support"]}, or a folder with corpus.jsonl and queries.jsonl. KNOWLEDGE is a store, or a file
    or folder that is loaded temporarily. Default: --db.
    """
    from knowloom.evaluation import compare

    validate_output(session, "--html", html)
    arguments = [against, with_] if against else [with_]
    configurations = [parse_configuration(session, part) for part in arguments]
    with (
        session.progress() as progress,
        open_inputs(session, paths, space_by, split, progress) as inputs,
    ):
        evaluations = [
            _measure(session, inputs, configuration, progress, **options)
            for configuration in configurations
        ]
    comparison = compare.compare(*evaluations, measure=measure, seed=seed) if against else None
    if measure:
        evaluations[0].values(measure)  # raises for an unknown measure, also without a comparison
    problems = dict.fromkeys(problem for each in evaluations for problem in each.problems)
    session.warn(*inputs.notes, *problems)
    if html is not None:
        _write_page(html, evaluations[-1], comparison, seed)
    row = _to_json(evaluations, comparison, seed)
    print_result(session, row, lambda: _render(evaluations[-1], comparison, html), html)


def _measure(
    session: Session,
    inputs: EvaluationInputs,
    configuration: Configuration,
    progress: Progress | None,
    **options: Unpack[MeasureArguments],
) -> Evaluation:
    from knowloom.evaluation.evaluate import evaluate

    with configuration.open(inputs) as kb:
        missing = kb.maintenance.stats().without_vector if kb.reader.dimensions is not None else 0
        if missing:
            session.warn(
                f"{missing:,} items have no vector and are found by keywords only: "
                "run knowloom embed"
            )
        return evaluate(
            kb,
            inputs.questions,
            name=configuration.name,
            progress=progress,
            **options,
            **configuration.options,
        )


def _to_json(
    evaluations: Sequence[Evaluation], comparison: Comparison | None, seed: int
) -> dict[str, Any]:
    from knowloom.evaluation import json_report

    row: dict[str, Any] = (
        {"comparison": json_report.comparison_to_json(comparison)} if comparison else {}
    )
    row["configurations"] = [
        json_report.evaluation_to_json(each, seed) | {"answers": json_report.answers_to_json(each)}
        for each in evaluations
    ]
    return row


def _render(
    evaluation: Evaluation, comparison: Comparison | None, html: str | None
) -> list[RenderableType]:
    from knowloom.cli.evaluate_tables import render_comparison, render_evaluation

    tables = render_comparison(comparison) if comparison else render_evaluation(evaluation)
    return [*tables, *([f"\nthe page is in {html}"] if html and html != "-" else [])]


def _write_page(
    path: str, evaluation: Evaluation, comparison: Comparison | None, seed: int
) -> None:
    from knowloom.evaluation import html_report

    with open_output(path) as file:
        file.write(html_report.render_page(comparison or evaluation, seed))
