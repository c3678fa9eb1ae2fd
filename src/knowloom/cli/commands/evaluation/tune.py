"""The command `knowloom tune`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from knowloom.cli.evaluation_inputs import (
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
from knowloom.errors import unknown_name

if TYPE_CHECKING:
    from rich.console import RenderableType

    from knowloom.evaluation.tune import Tuning


class TuneArguments(TypedDict, total=False):
    """The options passed on to `knowloom.tune`."""

    measure: str
    folds: int
    spaces: Sequence[str]
    seed: int
    now: datetime


@click.command(
    cls=Command,
    epilog=examples(
        "knowloom tune examples/questions.jsonl --only walk_onward --measure recall@5 "
        "--with mode=walk --write patch.toml",
    ),
)
@input_options
@click.option(
    "--write",
    metavar="FILE",
    help="Write the numbers as TOML, for the setting retrieval (KNOWLOOM_RETRIEVAL); "
    "- for standard output.",
)
@click.option(
    "--measure",
    default="evidence@1024",
    metavar="NAME",
    help="Measure to optimise. Default: evidence@1024.",
)
@click.option(
    "--folds",
    default=4,
    type=click.IntRange(min=2),
    metavar="N",
    help="Number of cross-validation folds. Default: 4.",
)
@repeated("--only", "only", "NAME", "Tune only shares, sharpness, depth, walk_onward, ….")
@repeated("--with", "with_", "NAME=VALUE", "Option to ask with, as for knowloom eval.")
@click.pass_obj
def tune(
    session: Session,
    /,
    paths: Sequence[str],
    space_by: str,
    split: str,
    only: Sequence[str] = (),
    with_: Sequence[str] = (),
    write: str | None = None,
    **options: Unpack[TuneArguments],
) -> None:
    """Search for better retrieval numbers on training questions.

    They are adopted only if they are significantly better on held-out questions; otherwise the
    current ones stay. Takes minutes.
    """
    from knowloom.evaluation import json_report
    from knowloom.evaluation.tune import TABLE, tune

    validate_output(session, "--write", write)
    for name in only:
        if name not in TABLE:
            raise unknown_name("number to tune", name, TABLE)
    table = {name: choices for name, choices in TABLE.items() if not only or name in only}
    configuration = parse_configuration(session, with_)
    with (
        session.progress() as progress,
        open_inputs(session, paths, space_by, split, progress) as inputs,
        configuration.open(inputs) as kb,
    ):
        tuning = tune(
            kb,
            inputs.questions,
            table=table,
            progress=progress,
            **options,
            **configuration.options,
        )
    session.warn(*inputs.notes)
    if write is not None:
        with open_output(write) as file:
            file.write(tuning.patch())
    print_result(session, json_report.tuning_to_json(tuning), lambda: _render(tuning, write), write)


def _render(tuning: Tuning, path: str | None) -> list[RenderableType]:
    from knowloom.cli.evaluate_tables import render_tuning

    usage = f"\nthe numbers are in {path}: KNOWLOOM_RETRIEVAL={path} uses them"
    return [*render_tuning(tuning), *([usage] if path and path != "-" else [])]
