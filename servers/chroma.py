"""Run a Chroma server from the installed package `chromadb` on loopback, for tests.

python -m servers.chroma [install | start | stop | kill | status] [INSTANCE]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from servers.process import Instance, ProcessSettings, ServerError, accepts_http, main


class Chroma(Instance):
    """One server without authentication."""

    name = "chroma"
    scheme = "http"

    def install(self) -> Path:
        program = Path(sys.executable).parent / "chroma"
        if not program.exists():
            raise ServerError("chromadb is not installed: pip install 'knowloom[chroma]'")
        return program

    def command(self, home: Path, port: int) -> list[str | Path]:
        return [home, "run", "--host", "127.0.0.1", "--port", str(port), "--path", self.data]

    def settings(self) -> ProcessSettings:
        return {"env": {**os.environ, "ANONYMIZED_TELEMETRY": "False"}}

    def is_ready(self, port: int) -> bool:
        return accepts_http(f"http://127.0.0.1:{port}/api/v2/heartbeat")


if __name__ == "__main__":
    sys.exit(main(Chroma, __doc__, sys.argv[1:]))
