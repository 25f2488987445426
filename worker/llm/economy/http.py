"""HTTP requests about batches, within bounds, by the connections of all model calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

import httpx

from sleipnir.worker.llm.client import ModelCallFailed, ReplyTooLarge
from sleipnir.worker.llm.provider.failures import failure_of
from sleipnir.worker.llm.provider.transport import DEADLINE, LIMIT_BYTES, REPLIES, shared_transport

# Of one request; of an upload or a file of results.
_LIMIT_S = 60.0
_FILE_LIMIT_S = 1800.0
# Of the answers about batches; of a file of results, which is read as it arrives.
_ANSWER_BYTES = 16 * 1024 * 1024
_FILE_BYTES = 8 * 1024 * 1024 * 1024
_FIELD_CHARS = 500


class Http:
    """Requests with the headers of one provider; all raise `ModelCallFailed`.

    Args:
        line_bytes: of one line of a file of results; longer ones are left out.
    """

    def __init__(self, headers: Mapping[str, str], line_bytes: int) -> None:
        self._headers = dict(headers)
        self._line_bytes = line_bytes

    def get(self, url: str) -> dict[str, Any]:
        """Return the JSON object at an address."""
        return self._object("GET", url)

    def post(self, url: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a JSON object and return the answer."""
        return self._object("POST", url, json=body)

    def post_content(self, url: str, content: Iterator[bytes]) -> dict[str, Any]:
        """Send JSON a piece at a time and return the answer."""
        headers = {"Content-Type": "application/json"}
        return self._object("POST", url, _FILE_LIMIT_S, content=content, headers=headers)

    def delete(self, url: str) -> None:
        """Delete what is at an address."""
        self._object("DELETE", url)

    def upload(self, url: str, fields: Mapping[str, str], name: str, file: Path) -> dict[str, Any]:
        """Send a file as a form and return the answer."""
        with file.open("rb") as content:
            files = {"file": (name, content, "application/jsonl")}
            return self._object("POST", url, _FILE_LIMIT_S, data=fields, files=files)

    def lines(self, url: str) -> Iterator[str]:
        """Yield the lines of a file as they arrive, in bounded memory."""
        with _bounded(_FILE_LIMIT_S, _FILE_BYTES) as failed:
            request = _client().build_request("GET", url, headers=self._headers)
            try:
                response = _client().send(request, stream=True)
                if not response.is_success:
                    response.read()
                    response.raise_for_status()
                yield from lines_in(response.iter_bytes(), self._line_bytes)
            except (httpx.HTTPError, OSError, ReplyTooLarge) as error:
                raise failed(error) from error

    def _object(
        self,
        method: str,
        url: str,
        limit_s: float = _LIMIT_S,
        headers: Mapping[str, str] | None = None,
        **content: Any,
    ) -> dict[str, Any]:
        with _bounded(limit_s, _ANSWER_BYTES) as failed:
            all_headers = {**self._headers, **(headers or {})}
            try:
                response = _client().request(method, url, headers=all_headers, **content)
                response.raise_for_status()
                answer = response.json()
            except (httpx.HTTPError, OSError, ValueError, RecursionError, ReplyTooLarge) as error:
                raise failed(error) from error
        if not isinstance(answer, dict):
            raise ModelCallFailed("the provider's answer about a batch is not an object")
        return answer


class _Explaining:
    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s

    def __call__(self, error: Exception) -> ModelCallFailed:
        return failure_of(error, self._limit_s, ())


@contextmanager
def _bounded(limit_s: float, limit_bytes: int) -> Iterator[_Explaining]:
    """Hold the calling thread's requests to these bounds while the block lasts."""
    replies = ExitStack()
    values: dict[ContextVar[Any], Any] = {
        REPLIES: replies,
        DEADLINE: monotonic() + limit_s,
        LIMIT_BYTES: limit_bytes,
    }
    tokens = [(variable, variable.set(value)) for variable, value in values.items()]
    try:
        yield _Explaining(limit_s)
    finally:
        replies.close()
        for variable, token in tokens:
            variable.reset(token)


@cache
def _client() -> httpx.Client:
    return httpx.Client(
        transport=shared_transport(), follow_redirects=True, headers={"User-Agent": "sleipnir"}
    )


def lines_in(pieces: Iterator[bytes], most_bytes: int) -> Iterator[str]:
    """Yield whole lines; one that is too long is left out."""
    rest, skips = b"", False
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            if not skips and line.strip():
                yield line.decode("utf-8", "replace")
            skips = False
        if len(rest) > most_bytes:
            rest, skips = b"", True
    if rest.strip() and not skips:
        yield rest.decode("utf-8", "replace")


def text_in(answer: Mapping[str, Any], name: str) -> str:
    """Return a text of an answer.

    Raises:
        ModelCallFailed: it is missing, or too long.
    """
    value = answer.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _FIELD_CHARS:
        told = json.dumps(answer)[:200]
        raise ModelCallFailed(f"the provider's answer about a batch has no {name}: {told}")
    return value


def number_in(answer: Mapping[str, Any], name: str) -> int:
    """Return a whole number of an answer, 0 if there is none."""
    value = answer.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
