"""Kill upgrades of old SQLite files at evenly spread writes, and check what is left.

Usage: python tools/upgrade_kills.py [POINTS]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "stores" / "sqlite")]


def main() -> None:
    from killed_upgrades import SCHEMAS, count_writes, unpack
    from test_upgrades import check_killed_upgrade

    points = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for schema in SCHEMAS:
        with tempfile.TemporaryDirectory() as folder:
            writes = count_writes(unpack(schema, Path(folder)))
        share = points // len(SCHEMAS)
        numbers = sorted({1 + place * (writes - 1) // (share - 1) for place in range(share)})
        for number in numbers:
            with tempfile.TemporaryDirectory() as folder:
                check_killed_upgrade(schema, number, Path(folder))
        print(f"schema {schema}: killed at {len(numbers)} of {writes} writes, nothing lost")


if __name__ == "__main__":
    main()
