"""Java programs from Maven Central: copy an artifact's dependencies, compile a main class."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from servers.process import require, run

HEAP = os.environ.get("KNOWLOOM_HEAP", "512m")

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>knowloom.servers</groupId><artifactId>server</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<type>{}</type></dependency>"
)


def copy_dependencies(home: Path, artifacts: Sequence[str], *options: str) -> Path:
    """Copy artifacts (`group:name:version[:type]`) and what they need into `home/lib`."""
    require("mvn", "java")
    rows = [_DEPENDENCY.format(*f"{artifact}:jar".split(":")[:4]) for artifact in artifacts]
    pom = home / "pom.xml"
    pom.write_text(_POM.format(dependencies="".join(rows)))
    library = home / "lib"
    command: list[str | Path] = ["mvn", "-B", "-q", "-f", pom, "dependency:copy-dependencies"]
    run([*command, f"-DoutputDirectory={library}", *options], home)
    return library


def compile_main(home: Path, source: str) -> None:
    """Compile the class `Serve` against `home/lib` into `home/classes`."""
    require("javac")
    path = home / "Serve.java"
    path.write_text(source)
    options = ("--release", "17", "-nowarn", "-cp", f"{home}/lib/*", "-d", home / "classes")
    run(["javac", *options, path], home)
