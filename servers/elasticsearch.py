"""Run Elasticsearch from Maven Central on loopback, for tests. It needs Java and mvn.

    python -m servers.elasticsearch [install | start | stop | kill | status] [INSTANCE]

The distribution for integration tests is the real server without `GET /`, language analyzers,
scripts, and delete, update and reindex by query. It refuses to run as root.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

from servers.maven import HEAP, copy_dependencies
from servers.process import (
    Instance,
    ProcessSettings,
    accepts_http,
    free_port,
    hand_over,
    install_once,
    main,
    unprivileged_user,
)

VERSION = "8.19.21"
ARTIFACT = f"org.elasticsearch.distribution.integ-test-zip:elasticsearch:{VERSION}:zip"
READY = "_cluster/health?wait_for_status=yellow&timeout=2s"


class Elasticsearch(Instance):
    """One node without security."""

    name = "elasticsearch"
    scheme = "http"

    def install(self) -> Path:
        return install_once(f"elasticsearch-{VERSION}", _unpack)

    def command(self, home: Path, port: int) -> list[str | Path]:
        config = self.folder / "config"
        for folder in (config, self.folder / "logs", self.folder / "tmp"):
            folder.mkdir(exist_ok=True)
        for file in (home / "server" / "config").iterdir():
            if file.is_file():
                shutil.copy(file, config)
        self.pid_file.unlink(missing_ok=True)
        (config / "elasticsearch.yml").write_text("\n".join(self._configuration(port)))
        hand_over(self.folder)
        return [home / "server" / "bin" / "elasticsearch", "-p", self.pid_file]

    @property
    def pid_file(self) -> Path:
        return self.folder / "tmp" / "pid"

    def record_pid(self, pid: int) -> None:
        """Do nothing: `pid` is the launcher, whose child is the server and writes its own."""

    def _configuration(self, port: int) -> list[str]:
        return [
            *("cluster.name: knowloom-test", f'node.name: "{self.instance}"'),
            *(f"path.data: {self.data}", f"path.logs: {self.folder}/logs"),
            *("network.host: 127.0.0.1", f"http.port: {port}", f"transport.port: {free_port()}"),
            *("xpack.security.enabled: false", "discovery.type: single-node"),
            "cluster.routing.allocation.disk.threshold_enabled: false",
        ]

    def settings(self) -> ProcessSettings:
        java = Path(shutil.which("java") or "java").resolve().parent.parent
        environment = {
            **os.environ,
            "ES_JAVA_HOME": os.environ.get("JAVA_HOME", str(java)),
            "ES_PATH_CONF": str(self.folder / "config"),
            "ES_TMPDIR": str(self.folder / "tmp"),
            "HOME": str(self.folder / "tmp"),
            "ES_JAVA_OPTS": f"-Xms{HEAP} -Xmx{HEAP}",
            "CLI_JAVA_OPTS": "-Xmx64m",
        }
        return {"env": environment, **unprivileged_user()}

    def is_ready(self, port: int) -> bool:
        return accepts_http(f"http://127.0.0.1:{port}/{READY}")


def _unpack(home: Path) -> None:
    library = copy_dependencies(home, [ARTIFACT], "-DexcludeTransitive", "-DincludeTypes=zip")
    with zipfile.ZipFile(next(library.glob("*.zip"))) as archive:
        archive.extractall(home)
    shutil.rmtree(library)
    next(home.glob("elasticsearch-*")).rename(home / "server")
    for path in (home / "server").rglob("*"):
        is_program = path.is_dir() or path.parent.name == "bin"
        path.chmod(0o755 if is_program else 0o644)


if __name__ == "__main__":
    sys.exit(main(Elasticsearch, __doc__, sys.argv[1:]))
