"""Anthropic's batches: requests are sent with the batch, and results are one stream."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sleipnir.worker.llm.client import ModelCallFailed
from sleipnir.worker.llm.economy.batch_api import Listed, Polled, ResultLine
from sleipnir.worker.llm.economy.http import Http, number_in, text_in

logger = logging.getLogger("sleipnir.worker")

_PAGE = 1000
# What a live call would have answered with for these types of errors.
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}


class AnthropicBatches:
    """Implements `BatchApi`.

    Args:
        url: of single messages.
        headers: as single messages are sent with.
    """

    keeps_group = False

    def __init__(self, url: str, headers: Mapping[str, str], line_bytes: int) -> None:
        self._http = Http(headers, line_bytes)
        self._url = f"{url}/batches"

    def line_of(self, request_id: str, body: str) -> str:
        return f'{{"custom_id": {json.dumps(request_id)}, "params": {body}}}'

    def upload(self, name: str, lines: Path) -> str:
        return ""

    def create(self, group_id: str, file_id: str, lines: Path) -> str:
        return text_in(self._http.post_content(self._url, _joined(lines)), "id")

    def poll(self, batch_id: str) -> Polled:
        batch = self._http.get(f"{self._url}/{batch_id}")
        status = text_in(batch, "processing_status")
        ended = status == "ended"
        return Polled(
            status=status,
            ended=ended,
            counts=_counts(batch),
            results=(self._results_of(batch),) if ended and batch.get("results_url") else (),
        )

    def _results_of(self, batch: Mapping[str, Any]) -> str:
        """Return where the results are, which must be where the key may be sent."""
        url = text_in(batch, "results_url")
        there, here = urlsplit(url), urlsplit(self._url)
        if (there.scheme, there.netloc) != (here.scheme, here.netloc):
            raise ModelCallFailed("the provider's results are on another server")
        return url

    def results(self, polled_results: str) -> Iterator[ResultLine]:
        for text in self._http.lines(polled_results):
            try:
                line = _line(json.loads(text))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                logger.warning("a line of %s is not a result", polled_results)
                continue
            yield line

    def listed(self, since_ms: int) -> Iterator[Listed]:
        after = ""
        while True:
            page = self._http.get(f"{self._url}?limit={_PAGE}{after}")
            batches = [each for each in page.get("data") or () if isinstance(each, dict)]
            for batch in batches:
                if _created_ms(batch) >= since_ms:
                    yield Listed(text_in(batch, "id"), "", _counts(batch)["total"])
            oldest = min((_created_ms(each) for each in batches), default=0)
            if not page.get("has_more") or not batches or oldest < since_ms:
                return
            after = f"&after_id={text_in(batches[-1], 'id')}"

    def cancel(self, batch_id: str) -> None:
        self._http.post(f"{self._url}/{batch_id}/cancel", {})

    def delete(self, batch_id: str, files: tuple[str, ...]) -> None:
        if batch_id:
            self._http.delete(f"{self._url}/{batch_id}")


def _joined(lines: Path) -> Iterator[bytes]:
    """Yield the body of a request with all lines."""
    yield b'{"requests": ['
    with lines.open("rb") as content:
        for number, line in enumerate(content):
            yield (b", " if number else b"") + line.rstrip(b"\n")
    yield b"]}"


def _counts(batch: Mapping[str, Any]) -> dict[str, int]:
    given = batch.get("request_counts")
    counts = given if isinstance(given, dict) else {}
    names = ("processing", "succeeded", "errored", "canceled", "expired")
    found = {name: number_in(counts, name) for name in names}
    total = sum(found.values())
    failed = total - found["processing"] - found["succeeded"]
    return {"completed": found["succeeded"], "failed": failed, "total": total}


def _created_ms(batch: Mapping[str, Any]) -> int:
    try:
        return int(datetime.fromisoformat(str(batch.get("created_at"))).timestamp() * 1000)
    except ValueError:
        raise ModelCallFailed("the provider's list of batches has no times") from None


def _line(line: Mapping[str, Any]) -> ResultLine:
    request_id, result = str(line["custom_id"]), line["result"]
    match result["type"]:
        case "succeeded":
            return ResultLine(request_id, completion=result["message"])
        case "canceled" | "expired":
            return ResultLine(request_id, expired=True)
    error = result.get("error")
    if isinstance(error, dict) and isinstance(error.get("error"), dict):
        error = error["error"]
    kind = str(error.get("type")) if isinstance(error, dict) else ""
    failure = {"status": _STATUSES.get(kind, 0), "body": {"error": error}}
    return ResultLine(request_id, failure=failure)
