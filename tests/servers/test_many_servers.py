"""Stateless servers on one PostgreSQL and a Redis cluster, of which parts are killed under load."""

from __future__ import annotations

import pytest

from bench.many_servers import WHOLE_S, run
from servers.process import ServerError


def test_nothing_acknowledged_is_lost_and_all_is_whole_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        figures = run(servers=2, seconds=3)
    except ServerError as error:
        pytest.skip(f"without PostgreSQL and Redis this is skipped: {error}")
    with capsys.disabled():
        print(figures)
    assert figures.pop("lost") == 0 and figures.pop("acknowledged") > 0
    assert max(figures.values()) < WHOLE_S, figures
