"""Run Neo4j Community from Maven Central on loopback, for tests. It needs a JDK and mvn.

python -m servers.neo4j [install | start | stop | kill | status] [INSTANCE]
"""

from __future__ import annotations

import sys
from pathlib import Path

from servers.maven import HEAP, compile_main, copy_dependencies
from servers.process import Instance, install_once, main

VERSION = "5.26.1"
ARTIFACTS = (f"org.neo4j:neo4j:{VERSION}", f"org.neo4j:neo4j-bolt:{VERSION}")
OPENED = ("java.nio", "java.io", "sun.nio.ch", "java.lang")
# An embedded database with its Bolt connector open: DATA PORT [PASSWORD].
_MAIN = """
import java.nio.file.Path;
import java.util.Map;
import org.neo4j.configuration.GraphDatabaseSettings;
import org.neo4j.configuration.connectors.BoltConnector;
import org.neo4j.configuration.helpers.SocketAddress;
import org.neo4j.dbms.api.DatabaseManagementServiceBuilder;

public class Serve {
    public static void main(String[] words) throws Exception {
        var address = new SocketAddress("127.0.0.1", Integer.parseInt(words[1]));
        var secured = words.length > 2;
        var service = new DatabaseManagementServiceBuilder(Path.of(words[0]))
            .setConfig(BoltConnector.enabled, true)
            .setConfig(BoltConnector.listen_address, address)
            .setConfig(BoltConnector.advertised_address, address)
            .setConfig(GraphDatabaseSettings.auth_enabled, secured)
            .setConfig(GraphDatabaseSettings.pagecache_memory, 64L << 20)
            .build();
        Runtime.getRuntime().addShutdownHook(new Thread(service::shutdown));
        if (secured) setPassword(service, words[2]);
        System.out.println("READY");
        Thread.currentThread().join();
    }

    static void setPassword(org.neo4j.dbms.api.DatabaseManagementService service, String password) {
        try (var transaction = service.database("system").beginTx()) {
            transaction.execute("ALTER USER neo4j SET PASSWORD $p CHANGE NOT REQUIRED",
                Map.of("p", password)).close();
            transaction.commit();
        } catch (Exception unchanged) {
            System.out.println("the password was set before: " + unchanged);
        }
    }
}
"""


class Neo4j(Instance):
    """One server without authentication."""

    name = "neo4j"
    scheme = "bolt"
    password: tuple[str, ...] = ()

    def install(self) -> Path:
        return install_once(f"neo4j-{VERSION}", _unpack)

    def command(self, home: Path, port: int) -> list[str | Path]:
        opened = (f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED)
        memory = (f"-Xmx{HEAP}", "-XX:+UseSerialGC")
        path = f"{home}/classes:{home}/lib/*"
        return [
            "java",
            *memory,
            *opened,
            "-cp",
            path,
            "Serve",
            self.data,
            str(port),
            *self.password,
        ]

    def is_ready(self, port: int) -> bool:
        return any(line == "READY" for line in self._log.read_text(errors="replace").splitlines())


class SecuredNeo4j(Neo4j):
    """A server whose user `neo4j` has the password `correct-horse`."""

    name = "neo4j-secured"
    password = ("correct-horse",)


def _unpack(home: Path) -> None:
    copy_dependencies(home, ARTIFACTS, "-DincludeScope=runtime")
    compile_main(home, _MAIN)


if __name__ == "__main__":
    sys.exit(main(Neo4j, __doc__, sys.argv[1:]))
