"""OpenAI's batches: a file of requests is uploaded, answered, and a file of results fetched."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sleipnir.worker.llm.economy.batch_api import Listed, Polled, ResultLine
from sleipnir.worker.llm.economy.http import Http, number_in, text_in
from sleipnir.worker.llm.provider.openai_servers import ModelAddress

logger = logging.getLogger("sleipnir.worker")

_PATH = "/v1/chat/completions"
_OURS = "sleipnir"  # the name of the group in the metadata of its batch
_FILES_KEPT_S = 2 * 86_400
_PAGE = 100
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
# Codes of requests that got no answer because their batch ended first.
_NOT_DONE = frozenset({"batch_expired", "batch_cancelled", "batch_canceled", "request_expired"})


class OpenAiBatches:
    """Implements `BatchApi`."""

    keeps_group = True

    def __init__(self, address: ModelAddress, line_bytes: int) -> None:
        self._http = Http(address.headers, line_bytes)
        self._url = address.url_of

    def line_of(self, request_id: str, body: str) -> str:
        head = json.dumps({"custom_id": request_id, "method": "POST", "url": _PATH})
        return f'{head[:-1]}, "body": {body}}}'

    def upload(self, name: str, lines: Path) -> str:
        fields = {
            "purpose": "batch",
            "expires_after[anchor]": "created_at",
            "expires_after[seconds]": str(_FILES_KEPT_S),
        }
        answer = self._http.upload(self._url("files"), fields, f"{name}.jsonl", lines)
        return text_in(answer, "id")

    def create(self, group_id: str, file_id: str, lines: Path) -> str:
        body = {
            "input_file_id": file_id,
            "endpoint": _PATH,
            "completion_window": "24h",
            "metadata": {_OURS: group_id},
        }
        return text_in(self._http.post(self._url("batches"), body), "id")

    def poll(self, batch_id: str) -> Polled:
        batch = self._http.get(self._url(f"batches/{batch_id}"))
        status = text_in(batch, "status")
        found = (batch.get("output_file_id"), batch.get("error_file_id"))
        results = tuple(each for each in found if isinstance(each, str) and each)
        return Polled(
            status=status,
            ended=status in _ENDED,
            counts=_counts(batch),
            results=results,
            begun=status != "validating" and (status != "failed" or bool(results)),
            refused=_errors(batch) if status == "failed" and not results else "",
        )

    def results(self, polled_results: str) -> Iterator[ResultLine]:
        for text in self._http.lines(self._url(f"files/{polled_results}/content")):
            try:
                line = _line(json.loads(text))
            except (ValueError, TypeError, AttributeError, RecursionError):
                logger.warning("a line of provider file %s is not a result", polled_results)
                continue
            yield line

    def listed(self, since_ms: int) -> Iterator[Listed]:
        after = ""
        while True:
            page = self._http.get(self._url(f"batches?limit={_PAGE}{after}"))
            batches = [each for each in page.get("data") or () if isinstance(each, dict)]
            for batch in batches:
                metadata = batch.get("metadata")
                ours = metadata.get(_OURS) if isinstance(metadata, dict) else None
                if number_in(batch, "created_at") * 1000 >= since_ms:
                    counts = _counts(batch)
                    yield Listed(text_in(batch, "id"), str(ours or ""), counts["total"])
            oldest = min((number_in(each, "created_at") for each in batches), default=0)
            if not page.get("has_more") or not batches or oldest * 1000 < since_ms:
                return
            after = f"&after={text_in(batches[-1], 'id')}"

    def cancel(self, batch_id: str) -> None:
        self._http.post(self._url(f"batches/{batch_id}/cancel"), {})

    def delete(self, batch_id: str, files: tuple[str, ...]) -> None:
        for file_id in files:
            self._http.delete(self._url(f"files/{file_id}"))


def _counts(batch: Mapping[str, Any]) -> dict[str, int]:
    given = batch.get("request_counts")
    counts = given if isinstance(given, dict) else {}
    return {name: number_in(counts, name) for name in ("completed", "failed", "total")}


def _errors(batch: Mapping[str, Any]) -> str:
    given = batch.get("errors")
    data = given.get("data") if isinstance(given, dict) else None
    errors = [each for each in data or () if isinstance(each, dict)]
    told = [f"{each.get('code')}: {each.get('message')}" for each in errors[:3]]
    return "; ".join(told) or "the provider does not say why"


def _line(line: Mapping[str, Any]) -> ResultLine:
    request_id = str(line["custom_id"])
    response, error = line.get("response"), line.get("error")
    if isinstance(response, dict):
        status, body = number_in(response, "status_code"), response.get("body")
        if status == 200 and isinstance(body, dict):
            return ResultLine(request_id, completion=body)
        return ResultLine(request_id, failure={"status": status, "body": body})
    code = str(error.get("code")) if isinstance(error, dict) else ""
    if code in _NOT_DONE:
        return ResultLine(request_id, expired=True)
    return ResultLine(request_id, failure={"status": 0, "body": {"error": error}})
