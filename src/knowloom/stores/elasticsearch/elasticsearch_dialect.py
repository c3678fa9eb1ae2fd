"""Elasticsearch: its client, and vectors in a flat field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elastic_transport import ConnectionTimeout, TransportError
from elasticsearch import ApiError, Elasticsearch, UnsupportedProductError

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

MIN_VERSION = (8, 14)
_HEADERS = {"accept": "application/json", "content-type": "application/json"}
_LINES = {"accept": "application/json", "content-type": "application/x-ndjson"}


class ElasticsearchClient:
    """The official client, with errors that both dialects share."""

    def __init__(self, address: ClusterAddress) -> None:
        scheme = "https" if address.has_tls else "http"
        options: dict[str, Any] = {}
        if address.user:
            options["basic_auth"] = (address.user, address.password)
        if address.api_key:
            options["api_key"] = address.api_key
        if address.ca_certs:
            options["ca_certs"] = address.ca_certs
        self._client = Elasticsearch(
            [f"{scheme}://{host}:{port}" for host, port in address.hosts],
            request_timeout=address.timeout_s,
            max_retries=len(address.hosts),
            **options,
        )

    def send(self, method: str, path: str, body: str | None, parameters: Mapping[str, str]) -> Any:
        headers = _LINES if path in LINE_PATHS else _HEADERS
        try:
            response = self._client.perform_request(
                method, path, params=parameters, headers=headers, body=body
            )
        except ApiError as error:
            raise RequestFailedError(error.meta.status, _reason(error)) from None
        except ConnectionTimeout:
            raise TimeoutError from None
        except (TransportError, UnsupportedProductError) as error:
            raise ConnectionError(error.message) from None
        return response.body

    def close(self) -> None:
        self._client.close()


def _reason(error: ApiError) -> str:
    body = error.body
    details = body.get("error", body) if isinstance(body, dict) else body
    return str(details.get("reason", details) if isinstance(details, dict) else details)


class ElasticsearchDialect:
    """Vectors are scored one by one: the index of a flat field is a plain array."""

    def vector_mapping(self, dimensions: int) -> Json:
        return {
            "type": "dense_vector",
            "dims": dimensions,
            "index": True,
            "similarity": "max_inner_product",
            "index_options": {"type": "flat"},
        }

    def vector_query(self, vector: Vector, clauses: list[Json], size: int) -> Json:
        nearest = {
            "field": VECTOR_FIELD,
            "query_vector": vector.astype(float).tolist(),
            "k": size,
            "num_candidates": size,
            "filter": clauses,
        }
        return {"knn": nearest}

    def check_version(self, version: tuple[int, int]) -> str:
        return "" if version >= MIN_VERSION else "Elasticsearch must be 8.14 or newer"


class ElasticsearchLayer(IndexedLayer):
    """elasticsearch://user:password@host:9200/index"""

    @classmethod
    def open(cls, url: str) -> ElasticsearchLayer:
        address = parse_address("elasticsearch", url, {"api_key": "api_key"})
        return cls(Connection(address, ElasticsearchClient(address)), ElasticsearchDialect())
