"""Embedders: the shared contract, and the behaviour of each implementation."""

from __future__ import annotations

import logging
import time
import timeit
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import pytest

import knowloom
from fake_openai import VECTORS, FakeOpenAI, vector
from knowloom import registry
from knowloom.embedders.cache import CachedEmbedder
from knowloom.embedders.minilm import MiniLM
from knowloom.embedders.openai import OpenAIEmbedder
from knowloom.errors import Invalid, Unavailable
from knowloom.ports import Embedder, Vector
from knowloom.testing import EmbedderContract

KEY = "sk-a-very-secret-key"
TEXT = "Ms Cooper's card was charged twice in Lisbon"
Serve = Callable[..., tuple[OpenAIEmbedder, FakeOpenAI]]

REFUSALS = [
    "400",
    "401",
    "403",
    "404",
    "413",
    "422",
    "302",
    "401 echoing the key",
    "400 echoing the text",
]
PASSING = [
    "429",
    "500",
    "502",
    "503",
    "429 after 7",
    "503 echoing the key",
    "500 echoing the text",
    "drop connection",
    "half an answer",
]
UNREADABLE = ["garbage", "truncated json", "bad compression"]
MISSHAPEN = [
    "no data",
    "data is null",
    "rows are texts",
    "a bare list",
    "no index",
    "error with status 200",
]
MISCOUNTED = ["missing row", "extra row", "repeated row", "same index twice"]
BROKEN = [*UNREADABLE, *MISSHAPEN, *MISCOUNTED, *VECTORS]


def ignore(_: float) -> None:
    """A sleep that takes no time."""


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server that follows a script, and an embedder that uses it."""
    with ExitStack() as stack:

        def start(*script: str, **settings: Any) -> tuple[OpenAIEmbedder, FakeOpenAI]:
            server = stack.enter_context(FakeOpenAI(script))
            usual: dict[str, Any] = {
                "base_url": server.base_url,
                "model": "fake",
                "api_key": KEY,
                "sleep": ignore,
            }
            embedder = OpenAIEmbedder(**usual | settings)
            return stack.enter_context(closing(embedder)), server

        yield start


def failure(embedder: Embedder, *texts: str) -> Unavailable:
    """Return the error that embedding the texts raises."""
    with pytest.raises(Unavailable) as caught:
        embedder.embed(texts or [TEXT, "other"])
    return caught.value


class SharedBufferEmbedder:
    """An embedder that writes every vector to the same buffer."""

    name = fingerprint = "one buffer"
    dimensions = 256

    def __init__(self) -> None:
        self.buffer = np.zeros(256, np.float32)

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.buffer[:] = 0
        self.buffer[ord(texts[0])] = 1
        return [self.buffer]


class TestOpenAI(EmbedderContract):
    @pytest.fixture
    def embedder(self, serve: Serve) -> Embedder:
        return serve(batch_size=2)[0]


class TestOpenAIWithDimensions(EmbedderContract):
    @pytest.fixture
    def embedder(self, serve: Serve) -> Embedder:
        return serve(dimensions=5)[0]


class TestCached(EmbedderContract):
    @pytest.fixture
    def embedder(self, serve: Serve) -> Embedder:
        return CachedEmbedder(serve()[0])


class TestCachedWithRoomForOne(EmbedderContract):
    @pytest.fixture
    def embedder(self, serve: Serve) -> Embedder:
        return CachedEmbedder(serve()[0], max_size=1)


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    """Loaded once: it takes a fifth of a second."""
    return MiniLM()


class TestMiniLM(EmbedderContract):
    @pytest.fixture
    def embedder(self, minilm: MiniLM) -> Embedder:
        return minilm

    def test_a_refund_question_is_nearer_to_a_refund_text_than_to_a_shipping_one(
        self, embedder: Embedder
    ) -> None:
        texts = [
            "Can I get my money back?",
            "Refunds are paid within 14 days.",
            "Parcels are shipped on Mondays.",
        ]
        question, refund, shipping = embedder.embed(texts)
        assert question @ refund > question @ shipping + 0.1

    def test_a_reference_text_has_the_reference_vector(self, embedder: Embedder) -> None:
        (vector,) = embedder.embed(["How do I get a refund?"])
        np.testing.assert_allclose(
            vector[:6], [-0.0632, 0.0107, 0.0448, 0.0258, -0.0124, 0.0003], atol=0.02
        )

    def test_batching_does_not_change_the_vectors(self, embedder: Embedder) -> None:
        one_by_one = [embedder.embed([text])[0] for text in self.TEXTS]
        np.testing.assert_array_equal(embedder.embed(self.TEXTS), one_by_one)


# Requests


def test_texts_go_out_in_batches(serve: Serve) -> None:
    embedder, server = serve(batch_size=2)
    embedder.embed(["a", "b", "c", "d", "e"])
    assert [request.texts for request in server.requests] == [["a", "b"], ["c", "d"], ["e"]]


def test_no_texts_make_no_request(serve: Serve) -> None:
    embedder, server = serve()
    embedder.embed([])
    assert server.requests == []


def test_an_empty_text_is_sent_as_a_space(serve: Serve) -> None:
    embedder, server = serve()
    embedder.embed(["", "full"])
    assert server.requests[0].texts == [" ", "full"]


def test_a_long_text_is_cut_to_the_limit_of_servers(serve: Serve) -> None:
    embedder, server = serve()
    embedder.embed(["long " * 20_000])
    assert server.requests[0].texts == ["long " * 1_200]


def test_a_lone_surrogate_is_sent_as_a_question_mark(serve: Serve) -> None:
    embedder, server = serve()
    embedder.embed(["broken \ud83e emoji"])
    assert server.requests[0].texts == ["broken ? emoji"]


def test_the_key_is_sent_as_bearer(serve: Serve) -> None:
    embedder, server = serve(api_key=f"{KEY}\n")
    embedder.embed(["a"])
    assert server.requests[0].authorization == f"Bearer {KEY}"


@pytest.mark.parametrize("key", [None, "", " "])
def test_without_a_key_no_authorization_is_sent(serve: Serve, key: str | None) -> None:
    embedder, server = serve(api_key=key)
    embedder.embed(["a"])
    assert server.requests[0].authorization == ""


def test_dimensions_are_sent_only_if_configured(serve: Serve) -> None:
    asking, silent = serve(dimensions=5), serve()
    _ = asking[0].embed(["a"]), silent[0].embed(["a"])
    assert asking[1].requests[0].body == {"model": "fake", "input": ["a"], "dimensions": 5}
    assert silent[1].requests[0].body == {"model": "fake", "input": ["a"]}


# Answers


def test_a_vector_is_normalised_to_unit_length(serve: Serve) -> None:
    (got,) = serve()[0].embed(["a"])
    raw = np.array(vector("a", 8))
    np.testing.assert_allclose(got, raw / np.linalg.norm(raw), atol=1e-6)


def test_shuffled_rows_are_put_back_in_order(serve: Serve) -> None:
    embedder, _ = serve("ok", "shuffled")
    in_order, shuffled = embedder.embed(["a", "b", "c"]), embedder.embed(["a", "b", "c"])
    np.testing.assert_array_equal(in_order, shuffled)


def test_dimensions_are_learned_by_a_single_lazy_request(serve: Serve) -> None:
    embedder, server = serve()
    assert server.requests == []
    assert (embedder.dimensions, embedder.dimensions) == (8, 8)
    assert len(server.requests) == 1


def test_dimensions_are_learned_from_any_answer(serve: Serve) -> None:
    embedder, server = serve()
    embedder.embed(["a"])
    assert (embedder.dimensions, len(server.requests)) == (8, 1)


def test_configured_dimensions_need_no_request(serve: Serve) -> None:
    embedder, server = serve(dimensions=5)
    assert embedder.dimensions == 5
    assert server.requests == []


@pytest.mark.parametrize("settings", [{"dimensions": 8}, {}])
def test_an_answer_of_other_dimensions_is_refused(serve: Serve, settings: dict[str, int]) -> None:
    embedder, _ = serve("ok", "wrong dimensions", **settings)
    embedder.embed(["a"])
    assert "7 dimensions instead of 8" in str(failure(embedder))


@pytest.mark.parametrize("behaviour", BROKEN)
def test_a_broken_answer_is_an_error_and_is_not_retried(serve: Serve, behaviour: str) -> None:
    embedder, server = serve(behaviour)
    error = failure(embedder)
    assert str(error).startswith("fake at 127.0.0.1: ") and error.code == "embedding_failed"
    assert len(server.requests) == 1


@pytest.mark.parametrize("behaviour", [name for name in VECTORS if name != "wrong dimensions"])
def test_dimensions_are_not_learned_from_a_broken_vector(serve: Serve, behaviour: str) -> None:
    embedder, _ = serve(behaviour)
    failure(embedder, "a")
    assert embedder.dimensions == 8


def test_values_that_are_not_numbers_are_not_quoted(serve: Serve) -> None:
    error = failure(serve("base64")[0])
    assert "AACAPw" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        ("garbage", "not JSON"),
        ("truncated json", "not JSON"),
        ("bad compression", "unreadable"),
        ("no data", "lacks data"),
        ("no index", "lacks data, index"),
        ("missing row", "one embedding for each of 2 texts, got 1"),
        ("extra row", "one embedding for each of 2 texts, got 3"),
        ("nan", "zero, infinite or not all numbers"),
        ("base64", "not a list of numbers"),
    ],
)
def test_a_broken_answer_is_described(serve: Serve, behaviour: str, problem: str) -> None:
    assert problem in str(failure(serve(behaviour)[0]))


# Transient and permanent failures


@pytest.mark.parametrize("behaviour", PASSING)
def test_transient_failures_are_retried(serve: Serve, behaviour: str) -> None:
    embedder, server = serve(behaviour, behaviour)
    assert len(embedder.embed(["a", "b"])) == 2
    assert len(server.requests) == 3


@pytest.mark.parametrize("behaviour", PASSING)
def test_a_lasting_failure_is_raised_after_the_retries(serve: Serve, behaviour: str) -> None:
    embedder, server = serve(*[behaviour] * 9, max_retries=2)
    error = failure(embedder)
    assert str(error).startswith("fake at 127.0.0.1: ") and error.code == "embedding_failed"
    assert len(server.requests) == 3


def test_without_retries_the_first_failure_is_final(serve: Serve) -> None:
    embedder, server = serve("500", max_retries=0)
    failure(embedder)
    assert len(server.requests) == 1


def test_a_late_batch_is_retried_alone(serve: Serve) -> None:
    embedder, server = serve("ok", "500", batch_size=1)
    embedder.embed(["a", "b"])
    assert [request.texts for request in server.requests] == [["a"], ["b"], ["b"]]


def test_a_slow_server_times_out(serve: Serve) -> None:
    embedder, server = serve("slow", "slow", timeout_s=0.1, max_retries=1)
    started = time.monotonic()
    assert "no answer within 0.1 s" in str(failure(embedder))
    assert len(server.requests) == 2 and time.monotonic() - started < 2


def test_a_refused_connection_is_retried_and_reported(serve: Serve) -> None:
    with FakeOpenAI() as gone:
        waits: list[float] = []
    embedder, _ = serve(base_url=gone.base_url, sleep=waits.append)
    error = failure(embedder)
    assert "refused" in str(error) and error.code == "embedding_failed"
    assert len(waits) == 3


def test_waits_double(serve: Serve) -> None:
    waits: list[float] = []
    serve("500", "503", "drop connection", sleep=waits.append)[0].embed(["a"])
    assert waits == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("retry_after", "wait_s"),
    [
        ("7", 7.0),
        ("2.5", 2.5),
        ("0", 0.5),
        ("-5", 0.5),
        ("nan", 0.5),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 0.5),
    ],
)
def test_retry_after_is_honoured_within_reason(
    serve: Serve, retry_after: str, wait_s: float
) -> None:
    waits: list[float] = []
    serve(f"429 after {retry_after}", sleep=waits.append)[0].embed(["a"])
    assert waits == [wait_s]


def test_a_retry_after_beyond_the_timeout_is_not_awaited(
    serve: Serve,
) -> None:
    waits: list[float] = []
    with pytest.raises(Unavailable, match="status 429") as caught:
        serve("429 after 31", timeout_s=30, sleep=waits.append)[0].embed(["a"])
    assert waits == [] and type(caught.value) is Unavailable


def test_many_retries_never_wait_longer_than_a_minute(serve: Serve) -> None:
    waits: list[float] = []
    serve(*["500"] * 9, max_retries=9, sleep=waits.append)[0].embed(["a"])
    assert max(waits) == 60.0


@pytest.mark.parametrize("behaviour", REFUSALS)
def test_a_refusal_is_final_and_reports_its_status(serve: Serve, behaviour: str) -> None:
    embedder, server = serve(behaviour)
    error = failure(embedder)
    assert (
        f"fake at 127.0.0.1: status {behaviour[:3]}: " in str(error)
        and error.code == "embedding_failed"
    )
    assert len(server.requests) == 1


def test_a_refusal_quotes_the_message_of_the_server(serve: Serve) -> None:
    assert str(failure(serve("404")[0])) == "fake at 127.0.0.1: status 404: refused with 404."


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"error": {"message": "no model", "code": 7}}', "no model"),
        ('{"error": "no model"}', "no model"),
        ('{"message": "no model"}', "no model"),
        ('{"detail": "no model"}', "no model"),
        ('{"detail": [{"loc": ["body"]}]}', "{'detail': [{'loc': ['body']}]}"),
        ("<h1>no\n  model</h1>", "<h1>no model</h1>"),
        ("", ""),
        ("x" * 201, "x" * 200),
    ],
)
def test_a_servers_message_is_found_and_shortened(serve: Serve, body: str, message: str) -> None:
    assert (
        str(failure(serve(f"404 with body {body}")[0]))
        == f"fake at 127.0.0.1: status 404: {message}"
    )


def test_a_wrong_path_is_a_refusal(serve: Serve) -> None:
    _, server = serve()
    with closing(
        OpenAIEmbedder(base_url=server.base_url + "/v2", model="fake", sleep=ignore)
    ) as lost:
        assert "status 404: no such path" in str(failure(lost))


def test_the_embedder_works_after_a_failure(serve: Serve) -> None:
    embedder, _ = serve("401")
    failure(embedder)
    assert len(embedder.embed(["a"])) == 1


def test_a_closed_embedder_raises(serve: Serve) -> None:
    embedder, _ = serve()
    for _ in range(2):
        embedder.close()
    assert "closed" in str(failure(embedder))


# Secrets


@pytest.mark.parametrize("behaviour", [*REFUSALS, *PASSING, *BROKEN])
def test_neither_key_nor_text_is_in_errors_or_logs(
    serve: Serve, behaviour: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    error = failure(serve(*[behaviour] * 2, max_retries=1)[0])
    output = caplog.text + repr(error) + "".join(traceback.format_exception(error))
    assert "fake at 127.0.0.1" in output
    assert not [secret for secret in (KEY, TEXT, "Cooper", "Lisbon") if secret in output]


@pytest.mark.parametrize("secret", [KEY, TEXT])
@pytest.mark.parametrize("before", [0, 150, 185, 195])
def test_a_cut_message_contains_no_part_of_a_secret(serve: Serve, secret: str, before: int) -> None:
    embedder, _ = serve(f"400 with body {'x' * before}{secret}")
    assert secret[:4] not in str(failure(embedder))


def test_part_of_a_text_is_not_quoted(serve: Serve) -> None:
    embedder, _ = serve(f"400 with body bad input: ...{TEXT[5:25]}...")
    assert str(failure(embedder)).endswith("status 400: (a message that repeats the text, omitted)")


def test_an_unrelated_message_is_kept_beside_short_texts(serve: Serve) -> None:
    embedder, _ = serve("404 with body no such model: a")
    assert "no such model: a" in str(failure(embedder, "a", "no"))


def test_a_retry_is_logged_with_its_numbers(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    serve("503")[0].embed([TEXT])
    assert caplog.messages == [
        "fake at 127.0.0.1: status 503: refused with 503.; retry 1 of 3 in 0.5 s"
    ]


def test_the_key_is_not_in_the_repr(serve: Serve) -> None:
    assert repr(serve()[0]) == "OpenAIEmbedder(fake at 127.0.0.1)"


@pytest.mark.parametrize("key", ["sk-line\nbreak", "sk-kéy", "sk two words"])
def test_a_key_that_is_no_header_value_is_refused_without_quoting_it(key: str) -> None:
    with pytest.raises(Invalid) as caught:
        OpenAIEmbedder(api_key=key)
    assert "api_key" in str(caught.value) and "sk" not in str(caught.value)


# Addresses


def test_an_address_names_model_and_server(serve: Serve) -> None:
    _, server = serve()
    with closing(
        OpenAIEmbedder.open(f"nomic-embed-text@{server.base_url}/", sleep=ignore)
    ) as embedder:
        embedder.embed(["a"])
    assert (server.requests[0].body["model"], server.requests[0].path) == (
        "nomic-embed-text",
        "/v1/embeddings",
    )


@pytest.mark.parametrize(
    ("rest", "fingerprint"),
    [
        ("", "openai:api.openai.com:text-embedding-3-small:"),
        ("text-embedding-3-large", "openai:api.openai.com:text-embedding-3-large:"),
        ("nomic-embed-text@http://127.0.0.1:11434/v1", "openai:127.0.0.1:11434:nomic-embed-text:"),
        (
            "@cf/baai/bge-m3@https://api.cloudflare.com/v1",
            "openai:api.cloudflare.com:@cf/baai/bge-m3:",
        ),
        ("@http://127.0.0.1:8080", "openai:127.0.0.1:8080:text-embedding-3-small:"),
        ("BAAI/bge-m3:latest", "openai:api.openai.com:BAAI/bge-m3:latest:"),
    ],
)
def test_an_address_is_read_into_a_fingerprint(rest: str, fingerprint: str) -> None:
    with closing(OpenAIEmbedder.open(rest, api_key=KEY)) as embedder:
        assert embedder.fingerprint == fingerprint


def test_the_fingerprint_includes_only_configured_dimensions(
    serve: Serve,
) -> None:
    (learning, _), (fixed, _) = serve(), serve(dimensions=5)
    assert learning.dimensions == 8
    here, there = (embedder._transport._url.port for embedder in (learning, fixed))
    assert (learning.fingerprint, fixed.fingerprint) == (
        f"openai:127.0.0.1:{here}:fake:",
        f"openai:127.0.0.1:{there}:fake:5",
    )


@pytest.mark.parametrize(
    ("base_url", "server"),
    [
        ("https://api.openai.com/v1", "api.openai.com"),
        ("https://api.openai.com:443/v1/", "api.openai.com"),
        ("http://here", "here"),
        ("http://here:80/v1", "here"),
        ("http://here:443/v1", "here:443"),
        ("http://127.0.0.1:11434/v1", "127.0.0.1:11434"),
        ("http://127.0.0.1:8080/v1", "127.0.0.1:8080"),
        ("http://127.0.0.1:8080", "127.0.0.1:8080"),
        ("https://gate/one/v1", "gate/one/v1"),
        ("http://gate:8080/two/", "gate:8080/two"),
    ],
)
def test_the_fingerprint_includes_host_port_and_path(base_url: str, server: str) -> None:
    with closing(OpenAIEmbedder(base_url=base_url, model="m")) as embedder:
        assert embedder.fingerprint == f"openai:{server}:m:"


def test_settings_apply_unless_the_address_overrides_them() -> None:
    with closing(
        OpenAIEmbedder.open("bge@http://here/v1", base_url="http://there/v1", dimensions=5)
    ) as embedder:
        assert embedder.fingerprint == "openai:here:bge:5"


@pytest.mark.parametrize(
    "rest", ["bge@localhost:8080", "bge@ftp://host/v1", "bge@", "bge@user:secret@host"]
)
def test_an_address_without_http_is_refused_before_anything_is_sent_elsewhere(rest: str) -> None:
    with pytest.raises(Invalid, match="openai:model@http://host:port/v1") as caught:
        OpenAIEmbedder.open(rest)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "base_url",
    [
        "127.0.0.1:8080",
        "localhost",
        "",
        "http://",
        "http://host:port",
        "https://user:secret@host/v1",
    ],
)
def test_an_invalid_base_url_is_refused(base_url: str) -> None:
    with pytest.raises(Invalid, match="base_url") as caught:
        OpenAIEmbedder(base_url=base_url)
    assert "secret" not in str(caught.value)


WRONG_SETTINGS: list[dict[str, Any]] = [
    *({"batch_size": value} for value in (0, "8", None)),
    *({"max_retries": value} for value in (-1, "x", 1.5, True)),
    *({"dimensions": value} for value in (0, -3, "8", 8.0)),
    *({"timeout_s": value} for value in (-1, 0, "x", None, float("nan"), float("inf"))),
    *({name: 5} for name in ("base_url", "model", "api_key")),
]


@pytest.mark.parametrize("settings", WRONG_SETTINGS)
def test_an_invalid_number_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=next(iter(settings))):
        OpenAIEmbedder(**settings)


@pytest.mark.parametrize("open_it", [knowloom.open_llm, registry.open_embedder])
def test_an_unknown_setting_is_refused_with_the_available_ones(
    open_it: Callable[..., Any],
) -> None:
    with pytest.raises(
        Invalid,
        match=r"unknown setting of openai 'timeout'; available: api_key, base_url, .*timeout_s",
    ):
        open_it("openai:m", timeout=5)


# The cache


def test_only_misses_reach_the_embedder_in_one_batch_and_once_each(serve: Serve) -> None:
    inner, server = serve()
    cache = CachedEmbedder(inner)
    _ = cache.embed(["a"]), cache.embed(["b", "a", "c", "b"])
    assert [request.texts for request in server.requests] == [["a"], ["b", "c"]]


def test_hits_and_misses_are_counted(serve: Serve) -> None:
    cache = CachedEmbedder(serve()[0])
    _ = cache.embed(["a"]), cache.embed(["b", "a", "c", "b"])
    assert (cache.hits, cache.misses) == (2, 3)


def test_cached_vectors_are_those_of_the_embedder(serve: Serve) -> None:
    inner, _ = serve()
    cache = CachedEmbedder(inner)
    for _ in range(2):
        np.testing.assert_array_equal(cache.embed(["a", "b", "a"]), inner.embed(["a", "b", "a"]))


def test_the_cache_has_the_identity_of_its_embedder(serve: Serve) -> None:
    inner, _ = serve(dimensions=5)
    cache = CachedEmbedder(inner)
    assert (cache.name, cache.dimensions, cache.fingerprint) == ("openai", 5, inner.fingerprint)


def test_the_least_recently_used_vector_is_evicted_first(serve: Serve) -> None:
    inner, server = serve()
    cache = CachedEmbedder(inner, max_size=2)
    for text in ["a", "b", "a", "c", "a", "b"]:
        cache.embed([text])
    assert [request.texts for request in server.requests] == [["a"], ["b"], ["c"], ["b"]]


def test_a_batch_larger_than_the_cache_is_still_answered(serve: Serve) -> None:
    inner, _ = serve()
    texts = ["a", "b", "c", "d", "a"]
    np.testing.assert_array_equal(
        CachedEmbedder(inner, max_size=2).embed(texts), inner.embed(texts)
    )


def test_vectors_of_another_fingerprint_are_not_mixed_up(serve: Serve) -> None:
    inner, server = serve()
    cache = CachedEmbedder(inner)
    cache.embed(["a"])
    inner.fingerprint = "another"
    cache.embed(["a"])
    assert len(server.requests) == 2


@pytest.mark.parametrize("round", ["miss", "hit"])
def test_callers_cannot_change_cached_vectors(serve: Serve, round: str) -> None:
    cache = CachedEmbedder(serve()[0])
    remembered = [cache.embed(["a"])[0] for _ in range(1 + (round == "hit"))][-1]
    with pytest.raises(ValueError, match="read-only"):
        remembered[0] = 7


def test_a_failure_is_not_cached(serve: Serve) -> None:
    inner, server = serve("nan", "ok")
    cache = CachedEmbedder(inner)
    failure(cache, "a", "b")
    assert len(cache.embed(["a", "b"])) == 2
    assert [request.texts for request in server.requests] == [["a", "b"], ["a", "b"]]


def test_a_failure_leaves_earlier_vectors_in_place(serve: Serve) -> None:
    inner, server = serve("ok", "401")
    cache = CachedEmbedder(inner)
    cache.embed(["a"])
    failure(cache, "a", "b")
    assert len(cache.embed(["a"])) == 1 and len(server.requests) == 2


def test_a_lone_surrogate_is_cached_apart_from_the_empty_text(serve: Serve) -> None:
    cache = CachedEmbedder(serve()[0])
    for text in ["\ud83e", "", "\ud83e"]:
        cache.embed([text])
    assert (cache.hits, cache.misses) == (1, 2)


def test_an_embedder_that_reuses_its_buffer_does_not_change_cached_vectors() -> None:
    cache = CachedEmbedder(SharedBufferEmbedder())
    first = cache.embed(["a"])[0].tolist()
    cache.embed(["b"])
    assert cache.embed(["a"])[0].tolist() == first


def test_threads_share_a_small_cache_and_get_right_answers(serve: Serve) -> None:
    inner, _ = serve()
    cache, texts = CachedEmbedder(inner, max_size=3), ["a", "b", "c", "d", "e"]
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda turn: cache.embed(texts[turn % 5 :] + texts[: turn % 5]), range(100))
        )
    expected = inner.embed(texts)
    for turn, answer in enumerate(answers):
        np.testing.assert_array_equal(answer, expected[turn % 5 :] + expected[: turn % 5])
    assert cache.hits + cache.misses == 500


def test_a_hit_does_not_wait_for_another_threads_miss(serve: Serve) -> None:
    inner, server = serve("ok", "slow", timeout_s=5, max_retries=0)
    cache = CachedEmbedder(inner)
    cache.embed(["a"])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(cache.embed, ["b"])
        while len(server.requests) < 2:
            time.sleep(0.001)
        assert len(cache.embed(["a"])) == 1 and not waiting.done()
        server.closing.set()
        assert isinstance(waiting.exception(), Unavailable)


def test_a_hit_costs_at_most_twenty_microseconds(serve: Serve) -> None:
    cache, question = (
        CachedEmbedder(serve()[0]),
        ["How do I get a refund for a parcel that came too late?"],
    )
    cache.embed(question)
    assert min(timeit.repeat(lambda: cache.embed(question), number=100, repeat=30)) / 100 < 20e-6


def test_a_cache_without_room_is_refused(serve: Serve) -> None:
    with pytest.raises(Invalid, match="max_size must be an integer >= 1, got 0"):
        CachedEmbedder(serve()[0], max_size=0)
