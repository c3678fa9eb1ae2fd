"""Every set-up of stores gives the answers of one file, whatever is written, in every order.

A short run by default; KNOWLOOM_DIFFERENTIAL=10000 sets the number of operations.
"""

from __future__ import annotations

import os
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from differential import Verified
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from knowloom.stores.postgresql.store import PostgresqlStore
from postgresql_server import EMPTY, execute, require_server, url_of

OPERATIONS = int(os.environ.get("KNOWLOOM_DIFFERENTIAL", "0"))
STEPS = 40
LOCAL = {
    "sqlite": {"store": "{folder}/k.db"},
    "memory": {"store": "memory:"},
    "layers": {
        "store": "{folder}/truth.db",
        "words": "memory:words",
        "vectors": "{folder}/vectors.db",
        "graph": "networkx:{folder}/graph.json",
    },
    "shared layers": {
        "store": "memory:truth",
        "words": "{folder}/layer.db",
        "vectors": "{folder}/layer.db",
        "graph": "{folder}/layer.db",
    },
    "profiles": {
        "store": "{folder}/others.db",
        "metadata": "file:{folder}/profiles",
        "graph": "file:{folder}/graph",
    },
}


def run_machine(setups: dict[str, dict[str, str]], prepare: object, examples: int) -> None:
    """Run the same examples each time, or other ones until there were enough operations."""
    machine: Any = type(
        "Machine", (Verified,), {"setups": setups, "prepare": staticmethod(prepare)}
    )
    check = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=not OPERATIONS,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    for number in count():
        if OPERATIONS:
            seed(number)(machine)
        run_state_machine_as_test(machine, settings=check)
        print(f"{machine.operations} operations on {', '.join(setups)}", flush=True)
        if machine.operations >= OPERATIONS:
            break


@pytest.mark.usefixtures("small_limits")
def test_local_stores_do_not_diverge() -> None:
    run_machine(LOCAL, lambda: None, 5)


def test_postgresql_does_not_diverge() -> None:
    server = require_server()
    urls = {name: f"postgresql://{url_of(server, f'differential_{name}')}" for name in "abcd"}
    setups = {
        "sqlite": LOCAL["sqlite"],
        "postgresql": {"store": urls["a"]},
        "postgresql layers": {
            "store": "{folder}/truth.db",
            "words": urls["b"],
            "vectors": urls["b"],
            "graph": urls["c"],
        },
        "postgresql truth": {
            "store": urls["d"],
            "words": "memory:words",
            "vectors": "{folder}/vectors.db",
            "graph": "file:{folder}/graph",
        },
    }
    for name in urls:
        with closing(PostgresqlStore.open(url_of(server, f"differential_{name}"))):
            pass  # creates the tables

    def empty() -> None:
        for name in urls:
            execute(server, f"SET search_path TO differential_{name}; {EMPTY}")

    run_machine(setups, empty, 2)
