"""A sample of three layers, and helpers for tests that load files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from knowloom.engine import Engine
from knowloom.report import Report
from paths import ROOT

MAYA: dict[str, Any] = json.loads((ROOT / "examples" / "maya.json").read_text("utf-8"))


def write_files(folder: Path, **files: str) -> Path:
    """Write a file for each name, in which "__" stands for a slash and "_" for a dot."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def ids(kb: Engine) -> list[str]:
    return [item.id for item in kb.items()]


def counts(report: Report) -> tuple[int, int, int, int]:
    return (report.added, report.updated, report.unchanged, report.removed)


def reasons(report: Report) -> list[str]:
    return [skip.why for skip in report.skipped]
