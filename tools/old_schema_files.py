"""Write a small file of each earlier SQLite schema with the code that introduced it.

Usage: python tools/old_schema_files.py FOLDER. The results are tests/stores/sqlite/old_files.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
# A commit of each schema. That of the third needs the values of a later one to be imported.
COMMITS = {1: ("02c9848^",), 2: ("e6c50da",), 3: ("be7d7ae", "0df5f80"), 4: ("77e64a1",)}
SCRIPT = """
import sys
import numpy
from datetime import UTC, datetime
from knowloom import Edge, Item
from knowloom.engine import Engine
from knowloom.ports import Stores
from knowloom.stores.sqlite.store import SqliteStore
store = SqliteStore.open(sys.argv[1])
kb = Engine(Stores(*[store] * 4), None, clock=lambda: datetime(2026, 11, 1, tzinfo=UTC))
long = " ".join(f"Step {number}: wait for the green light." for number in range(60))
kb.add(
    [
        Item("returns", "support", title="Returns", text="Within 14 days.", tags=("policy",)),
        Item("manual", "support", title="Manual", text=long),
        Item("cafe", "shop", text="The café of Ada Byron is on the pier."),
        Item("ada", "shop", kind="entity", type="Person", title="Ada Byron"),
        Item("gone", "shop", text="closed"),
    ],
    [Edge("returns", "manual", type="SEE", weight=0.5, space="support")],
)
kb.add(Item("returns", "support", title="Returns", text="Within 30 days.", tags=("policy",)))
kb.delete("gone", space="shop")
vector = numpy.array([0.6, 0.8], dtype=numpy.float32)
store.put_vectors({("support", "returns"): vector, ("shop", "cafe"): vector}, "test:2")
kb.close()
"""


def build(schema: int, commits: tuple[str, ...], folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "old.db"
        for commit, part in zip(commits, ("src", "src/knowloom/model"), strict=False):
            git = ["git", "-C", str(ROOT), "archive", commit, part]
            archive = subprocess.run(git, check=True, stdout=subprocess.PIPE).stdout
            subprocess.run(["tar", "x", "-C", scratch], input=archive, check=True)
        environment = {**os.environ, "PYTHONPATH": f"{scratch}/src"}
        subprocess.run([sys.executable, "-c", SCRIPT, str(file)], check=True, env=environment)
        data = gzip.compress(file.read_bytes(), 9, mtime=0)
        (folder / f"schema-{schema}.db.gz").write_bytes(data)


if __name__ == "__main__":
    for schema, commits in COMMITS.items():
        build(schema, commits, Path(sys.argv[1]))
