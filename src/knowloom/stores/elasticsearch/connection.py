"""Requests to a cluster, and its failures as knowloom's errors, with the host and no secret."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from knowloom.errors import HIDDEN, Corrupt, Unavailable
from knowloom.stores.elasticsearch.cluster_address import ClusterAddress

Json = dict[str, Any]

LINE_PATHS = ("/_bulk", "/_msearch")  # whose bodies have a line for each part
# By HTTP status: the code of the error, and advice.
_ADVICE: Mapping[int, tuple[str, str]] = {
    401: ("access_denied", "check the user, the password and the API key"),
    403: ("access_denied", "grant the user the privileges to manage and write the index"),
    404: ("no_index", "the index was deleted: open the stores again and run reindex"),
    408: ("timeout", "raise timeout in the URL"),
    429: ("busy", "the cluster has too much to do: retry"),
    503: ("unreachable", "a part of the index is not available: check the nodes"),
}
_BLOCKS = {
    "read-only / allow delete": ("disk_full", "free some space on the nodes"),
    "disk usage exceeded": ("disk_full", "free some space on the nodes"),
    "read-only": ("read_only", "remove the block index.blocks.read_only"),
    "blocked by": ("read_only", "remove the block of the index"),
}


class RequestFailedError(Exception):
    """The cluster refused a request; `status` is that of HTTP, 0 without an answer in time."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class HttpClient(Protocol):
    """The client of a dialect."""

    def send(self, method: str, path: str, body: str | None, parameters: Mapping[str, str]) -> Any:
        """Send a request with a body of JSON, and return the JSON of the answer.

        Raise TimeoutError without an answer in time, OSError if no node can be reached, and
        RequestFailedError for any other answer.
        """

    def close(self) -> None: ...


class Connection:
    """A client, and typed errors."""

    def __init__(self, address: ClusterAddress, client: HttpClient) -> None:
        self.address, self._client = address, client
        self._is_closed = False

    def check_open(self) -> None:
        if self._is_closed:
            raise Unavailable(f"{self.address.name} was closed", "closed")

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._client.close()

    def request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        allow: Sequence[int] = (),
        **parameters: str,
    ) -> Json:
        """Send a request; return {} for a status of `allow`."""
        text = None if body is None else json.dumps(body)
        return self._send(method, path, text, parameters, allow)

    def search(self, index: str, body: Json) -> Json:
        """Search an index."""
        return self.search_all(index, [body])[0]

    def search_all(self, index: str, bodies: Sequence[Json]) -> list[Json]:
        """Run searches in one request. An answer of some shards only is an error."""
        header = {"index": index, "allow_partial_search_results": False}
        lines = (json.dumps(line) for body in bodies for line in (header, body))
        text = "".join(f"{line}\n" for line in lines)
        results: list[Json] = self._send("POST", "/_msearch", text, {}, ())["responses"]
        for result in results:
            if "error" in result:
                raise self.describe(result["status"], str(result["error"].get("reason")))
            if result["timed_out"] or result["_shards"]["failed"]:
                raise self.describe(503, "some shards did not answer")
        return results

    def bulk(self, lines: Iterable[str]) -> list[Json]:
        """Run actions on aliases that must exist; return the result of each."""
        body = "".join(f"{line}\n" for line in lines)
        result = self._send("POST", "/_bulk", body, {"require_alias": "true"}, ())
        return [next(iter(item.values())) for item in result["items"]]

    def _send(
        self,
        method: str,
        path: str,
        body: str | None,
        parameters: Mapping[str, str],
        allow: Sequence[int],
    ) -> Json:
        self.check_open()
        try:
            answer: Json = self._client.send(method, path, body, parameters)
        except RequestFailedError as error:
            if error.status in allow:
                return {}
            raise self.describe(error.status, error.reason) from None
        except TimeoutError:
            limit = f"no answer within {self.address.timeout_s:g} s"
            raise Unavailable(f"{self.address.name}: {limit}", "timeout") from None
        except OSError as error:
            raise self.describe(0, str(error)) from None
        return answer

    def describe(self, status: int, reason: str) -> Unavailable:
        """Return the error of a request that failed."""
        for secret in self.address.secrets:
            reason = reason.replace(secret, HIDDEN)
        reason = " ".join(reason.split())[:300]
        block = next((_BLOCKS[text] for text in _BLOCKS if text in reason), None)
        default = ("unreachable", "check the address and that the server runs")
        by_status = _ADVICE.get(status, default if not status else ("unavailable", ""))
        code, advice = block or by_status
        kind = Corrupt if status == 400 else Unavailable
        message = f"{self.address.name}: {reason}{advice and f' ({advice})'}"
        return kind(message, "" if status == 400 else code)
