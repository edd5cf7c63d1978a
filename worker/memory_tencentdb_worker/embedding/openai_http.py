"""An embedder at an endpoint of the OpenAI kind, over HTTP; ZeroEntropy's differs in names only."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import httpx

from memory_tencentdb_worker.config.model import Embedding
from memory_tencentdb_worker.embedding.answers import tokens_of, unit_vector, vectors_in_order
from memory_tencentdb_worker.embedding.base import EmbeddingUse, ReportUse, Vector
from memory_tencentdb_worker.endpoints import (
    error_text,
    is_loopback,
    judge_failure,
    retry_after_seconds,
    scrub,
    shown_address,
)
from memory_tencentdb_worker.errors import EmbeddingRefused, EmbeddingTerminal, EmbeddingTransient
from memory_tencentdb_worker.models import EmbeddingSpace
from memory_tencentdb_worker.text.tokens import count_tokens, cut_to_chars

FIRST_BATCH = 256
SHORTENINGS = 4  # a refused text is tried at 1/2, 1/4, 1/8 and 1/16 of its length
SHORTEST_CHARS = 32
_OPTIONAL_FIELDS = ("dimensions", "encoding_format")

log = logging.getLogger(__name__)

Kind = Literal["query", "passage"]


@dataclass(frozen=True)
class _Dialect:
    path: str
    rows: str  # where the answer holds the vectors
    by_kind: Mapping[str, dict[str, object]]


_OPENAI = _Dialect("/embeddings", "data", {"query": {}, "passage": {}})
_ZEROENTROPY = _Dialect(
    "/models/embed", "results", {"query": {"input_type": "query"}, "passage": {"input_type": "document"}}
)


class OpenAIEmbedder:
    """Any thread may call. What the endpoint teaches (the largest batch, fields it rejects) is kept until `close`.

    With provider "qclaw" requests go to `proxy_url`, and the header `Remote-URL` says where they are meant to go.
    """

    def __init__(self, settings: Embedding, report: ReportUse | None = None) -> None:
        """`report` is told of every request."""
        self._settings, self._report = settings, report
        self._key = settings.api_key.get_secret_value()
        self._dialect = _ZEROENTROPY if settings.provider == "zeroentropy" else _OPENAI
        self._target = settings.base_url.rstrip("/").removesuffix(self._dialect.path) + self._dialect.path
        self._headers = {"Authorization": f"Bearer {self._key}"}
        self._url = self._target
        if settings.provider == "qclaw":
            self._url = settings.proxy_url
            self._headers["Remote-URL"] = self._target
        self._space = EmbeddingSpace(provider=settings.provider, model=settings.model, dimensions=settings.dimensions)
        self._fields: dict[str, object] = {"encoding_format": "float"}
        if settings.send_dimensions:
            self._fields["dimensions"] = settings.dimensions
        self._learned = threading.Lock()  # guards the two fields below and _fields
        self._largest_batch = FIRST_BATCH
        self._client = _client(self._url)

    @property
    def space(self) -> EmbeddingSpace:
        return self._space

    @property
    def endpoint(self) -> str:
        """Without credentials, for logs and `status`."""
        return shown_address(self._target)

    def embed(self, texts: Sequence[str], *, kind: Kind, timeout_seconds: float) -> list[Vector | None]:
        """`kind` makes no difference to OpenAI's protocol. `timeout_seconds` is for all requests together."""
        call = _Call(self, kind, time.monotonic() + timeout_seconds)
        limit = self._settings.max_input_chars
        sent = {place: cut_to_chars(text, limit) for place, text in enumerate(texts) if text.strip()}
        vectors = dict(zip(sent, call.embed_all(list(sent.values())), strict=True))
        if call.spoiled and not any(vectors.values()):
            raise EmbeddingRefused("no vector of the answer can be used: null, zero or not numbers", code="bad_vectors")
        return [vectors.get(place) for place in range(len(texts))]

    def close(self) -> None:
        self._client.close()

    # ------------------------------------------------------------------ what is learned

    @property
    def largest_batch(self) -> int:
        with self._learned:
            return self._largest_batch

    def learn_batch(self, size: int) -> None:
        with self._learned:
            self._largest_batch = min(self._largest_batch, max(size, 1))

    def fields(self) -> dict[str, object]:
        with self._learned:
            return dict(self._fields)

    def forget_field(self, name: str) -> None:
        with self._learned:
            self._fields.pop(name, None)
        log.warning("embedding endpoint %s rejects the field %s; it is left out from now on", self.endpoint, name)

    # ------------------------------------------------------------------ one request

    def post(self, texts: list[str], kind: Kind, deadline: float) -> list[object] | None:
        """The raw vectors in the order of the texts, None when the answer does not say which is whose. Raises
        EmbeddingRefused for a 4xx that is about these texts."""
        fields = self.fields()
        of_kind = self._dialect.by_kind[kind]
        response = self._reported({"model": self._settings.model, "input": texts, **of_kind, **fields}, texts, deadline)
        if response.status_code >= 300:
            named = [name for name in _OPTIONAL_FIELDS if name in fields and name in response.text]
            # "does not support matryoshka representation" is how fixed-width models decline `dimensions`
            if not named and "matryoshka" in response.text.lower() and "dimensions" in fields:
                named = ["dimensions"]
            if named and response.status_code in (400, 422):
                self.forget_field(named[0])
                return self.post(texts, kind, deadline)
            raise self._failure(response)
        try:
            document: object = response.json()
        except ValueError as problem:  # an HTML page, an empty body: a gateway's doing
            raise EmbeddingTransient(
                f"{self.endpoint} answered with something else than JSON", code="garbage"
            ) from problem
        return vectors_in_order(document, len(texts), self._dialect.rows)

    def _reported(self, body: dict[str, object], texts: Sequence[str], deadline: float) -> httpx.Response:
        begun, outcome, tokens = time.monotonic(), "unreachable", None
        try:
            response = self._sent(body, deadline)
            outcome = "ok" if response.status_code < 300 else f"http_{response.status_code}"
            tokens = tokens_of(response.content)
        except EmbeddingTransient as problem:
            outcome = problem.code
            raise
        finally:
            if self._report is not None:
                elapsed_ms = round((time.monotonic() - begun) * 1000)
                estimate = sum(map(count_tokens, texts))
                self._report(EmbeddingUse(self._settings.model, len(texts), tokens, estimate, elapsed_ms, outcome))
        return response

    def _sent(self, body: dict[str, object], deadline: float) -> httpx.Response:
        try:
            try:
                return self._request(body, deadline)
            except httpx.RemoteProtocolError:  # a kept-alive connection that the other side had closed
                return self._request(body, deadline)
        except httpx.TimeoutException as problem:
            raise EmbeddingTransient(f"{self.endpoint} did not answer in time", code="timeout") from problem
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            text = scrub(f"{self.endpoint} cannot be reached: {problem}", self._key)
            raise EmbeddingTransient(text, code="unreachable") from problem

    def _request(self, body: dict[str, object], deadline: float) -> httpx.Response:
        """Reads piece by piece, so that an endpoint that drips its answer cannot outlast the deadline."""
        remaining = _remaining(deadline)
        with self._client.stream("POST", self._url, json=body, headers=self._headers, timeout=remaining) as response:
            pieces = []
            for piece in response.iter_bytes():
                pieces.append(piece)
                _remaining(deadline)
        headers = {name: value for name, value in response.headers.items() if name.lower() == "retry-after"}
        return httpx.Response(response.status_code, content=b"".join(pieces), headers=headers)

    def _failure(self, response: httpx.Response) -> EmbeddingRefused | EmbeddingTerminal | EmbeddingTransient:
        verdict = judge_failure(response.status_code, response.text)
        text = scrub(f"{self.endpoint}: {response.status_code} {error_text(response.text)}", self._key)
        if verdict.kind == "transient":
            wait_seconds = retry_after_seconds(response.headers, int(time.time() * 1000))
            return EmbeddingTransient(text, retry_after_seconds=wait_seconds, code=verdict.code)
        if verdict.kind == "terminal":
            return EmbeddingTerminal(f"{text} (model {self._settings.model})", code=verdict.code)
        return EmbeddingRefused(text, code=verdict.code)


class _Call:
    """One `embed`: splits and shortens until every text has a vector or is known to be refused."""

    def __init__(self, embedder: OpenAIEmbedder, kind: Kind, deadline: float) -> None:
        self._embedder, self._kind, self._deadline = embedder, kind, deadline
        self.spoiled = 0  # vectors that came back unusable
        self._refused_alone = 0  # texts refused in a request of their own

    def embed_all(self, texts: list[str]) -> list[Vector | None]:
        vectors: list[Vector | None] = []
        while len(vectors) < len(texts):
            size = self._embedder.largest_batch
            vectors += self._batch(texts[len(vectors) : len(vectors) + size])
        return vectors

    def _batch(self, texts: list[str]) -> list[Vector | None]:
        try:
            raw = self._embedder.post(texts, self._kind, self._deadline)
        except EmbeddingRefused:
            if len(texts) == 1:
                return [self._shortened(texts[0])]
            return self._halves(texts)
        if raw is not None:
            return [self._checked(vector) for vector in raw]
        if len(texts) == 1:
            self.spoiled += 1
            return [None]
        return [vector for text in texts for vector in self._batch([text])]

    def _halves(self, texts: list[str]) -> list[Vector | None]:
        """Either the batch was too large, or a text in it is refused. It was the size when both halves go through
        without a text being refused alone."""
        middle, refused = (len(texts) + 1) // 2, self._refused_alone
        first = self._batch(texts[:middle])
        vectors = first + self.embed_all(texts[middle:])
        if all(vectors) and self._refused_alone == refused:
            self._embedder.learn_batch(middle)
        return vectors

    def _shortened(self, text: str) -> Vector | None:
        """A character limit is a guess at a token limit; Chinese text takes more tokens a character (B80)."""
        self._refused_alone += 1
        for _ in range(SHORTENINGS):
            text = cut_to_chars(text, len(text) // 2)
            if len(text) < SHORTEST_CHARS:
                return None
            try:
                raw = self._embedder.post([text], self._kind, self._deadline)
            except EmbeddingRefused:
                continue
            return self._checked(raw[0]) if raw else None
        return None

    def _checked(self, raw: object) -> Vector | None:
        vector = unit_vector(raw, self._embedder.space.dimensions)
        self.spoiled += vector is None
        return vector


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise EmbeddingTransient("the embedding endpoint did not answer in time", code="timeout")
    return remaining


def _client(url: str) -> httpx.Client:
    """Loopback is reached directly. Proxy settings that httpx cannot read (field traps M12, B23, B24) are ignored."""
    if is_loopback(url):
        return httpx.Client(trust_env=False)
    try:
        return httpx.Client()
    except (ImportError, ValueError, httpx.InvalidURL) as problem:
        log.warning("the proxy settings of the environment cannot be used and are ignored: %s", problem)
        return httpx.Client(trust_env=False)
