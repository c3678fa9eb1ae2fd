"""OpenSearch: its client, and vectors scored by the k-NN plugin's own script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opensearchpy import ConnectionError as LostConnectionError
from opensearchpy import ConnectionTimeout, OpenSearch, TransportError

from knowloom.ports import Vector
from knowloom.stores.elasticsearch.cluster_address import ClusterAddress, parse_address
from knowloom.stores.elasticsearch.connection import (
    LINE_PATHS,
    Connection,
    Json,
    RequestFailedError,
)
from knowloom.stores.elasticsearch.index_definition import VECTOR_FIELD
from knowloom.stores.elasticsearch.layer import IndexedLayer

MIN_VERSION, MAX_VERSION = (2, 17), (7, 0)  # Elasticsearch has the versions from 7 on
_LINES = {"content-type": "application/x-ndjson"}


class OpenSearchClient:
    """The official client, with errors that both dialects share."""

    def __init__(self, address: ClusterAddress) -> None:
        options: dict[str, Any] = {}
        if address.user:
            options["http_auth"] = (address.user, address.password)
        if address.ca_certs:
            options["ca_certs"] = address.ca_certs
        self._client = OpenSearch(
            [{"host": host.strip("[]"), "port": port} for host, port in address.hosts],
            use_ssl=address.has_tls,
            verify_certs=address.has_tls,
            timeout=address.timeout_s,
            max_retries=len(address.hosts),
            **options,
        )

    def send(self, method: str, path: str, body: str | None, parameters: Mapping[str, str]) -> Any:
        headers = _LINES if path in LINE_PATHS else {}
        try:
            return self._client.transport.perform_request(
                method, path, params=dict(parameters), body=body, headers=headers
            )
        except ConnectionTimeout:
            raise TimeoutError from None
        except LostConnectionError as error:
            raise ConnectionError(error.error) from None
        except TransportError as error:
            status = error.status_code
            raise RequestFailedError(
                status if isinstance(status, int) else 0, _reason(error)
            ) from None

    def close(self) -> None:
        self._client.close()


def _reason(error: TransportError) -> str:
    details = error.info.get("error", "") if isinstance(error.info, dict) else error.info
    reason = details.get("reason", "") if isinstance(details, dict) else details
    return str(reason or error.error)


class OpenSearchDialect:
    """Vectors are scored one by one: without `index.knn` the field has no graph."""

    def vector_mapping(self, dimensions: int) -> Json:
        return {"type": "knn_vector", "dimension": dimensions}

    def vector_query(self, vector: Vector, clauses: list[Json], size: int) -> Json:
        parameters = {
            "field": VECTOR_FIELD,
            "query_value": vector.astype(float).tolist(),
            "space_type": "innerproduct",
        }
        scored = {
            "script_score": {
                "query": {"exists": {"field": VECTOR_FIELD}},
                "script": {"lang": "knn", "source": "knn_score", "params": parameters},
            }
        }
        best = {"nested": {"path": "vectors", "score_mode": "max", "query": scored}}
        return {"query": {"bool": {"filter": clauses, "must": [best]}}}

    def check_version(self, version: tuple[int, int]) -> str:
        is_supported = MIN_VERSION <= version < MAX_VERSION
        return "" if is_supported else "OpenSearch must be 2.17 or newer"


class OpenSearchLayer(IndexedLayer):
    """opensearch://user:password@host:9200/index"""

    @classmethod
    def open(cls, url: str) -> OpenSearchLayer:
        address = parse_address("opensearch", url, {})
        return cls(Connection(address, OpenSearchClient(address)), OpenSearchDialect())
