"""Searches for runs by what no index covers: texts, cost, duration."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sleipnir.scheduler.runs.reasons import cause_of
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.queries.base import Queries
from sleipnir.scheduler.store.queries.filters import RunFilter, SearchedFields

_FIELDS = ("agent", "batch", "item", "error", "cost", "started", "ended", "earlier_ms")
_PROMPT_KEY = "initial_prompt"
# The part of a prompt that is searched; one of more bytes than that is not read at all.
_MOST_CHARACTERS = 1_000
_MOST_PROMPT_BYTES = 16 * 1024


class SearchQueries(Queries):
    """Queries of records for searches."""

    def _found(self, run_ids: Sequence[str], wanted: RunFilter, now_ms: int) -> list[str]:
        """Return those of the runs that match the search."""
        has_text = wanted.text is not None
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(run_key("run", run_id), _FIELDS)
            for run_id in run_ids if has_text else ():
                pipe.hstrlen(run_key("state", run_id), _PROMPT_KEY)
            answers = pipe.execute()
        records, sizes = answers[: len(run_ids)], answers[len(run_ids) :]
        prompts = self._short_prompts(run_ids, sizes) if has_text else [""] * len(run_ids)
        searched = (
            _searched(run_id, dict(zip(_FIELDS, values, strict=True)), prompt, now_ms)
            for run_id, values, prompt in zip(run_ids, records, prompts, strict=True)
        )
        return [fields.run_id for fields in searched if fields.meet(wanted)]

    def prompts(self, run_ids: Sequence[str]) -> list[str]:
        """Return the beginnings of their prompts; \"\" for those too long to be read."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hstrlen(run_key("state", run_id), _PROMPT_KEY)
            return self._short_prompts(run_ids, pipe.execute())

    def _short_prompts(self, run_ids: Sequence[str], sizes: Sequence[int]) -> list[str]:
        """Return the beginnings of their prompts; \"\" for those too long to be read.

        Of those without one, records of archived runs have the beginning.
        """
        short = [
            run_id
            for run_id, size in zip(run_ids, sizes, strict=True)
            if 0 < size <= _MOST_PROMPT_BYTES
        ]
        archived = [run_id for run_id, size in zip(run_ids, sizes, strict=True) if not size]
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in short:
                pipe.hget(run_key("state", run_id), _PROMPT_KEY)
            for run_id in archived:
                pipe.hget(run_key("run", run_id), "prompt")
            answers = pipe.execute()
        read = dict(zip(short, map(_beginning, answers), strict=False))
        read.update(zip(archived, (text or "" for text in answers[len(short) :]), strict=True))
        return [read.get(run_id, "") for run_id in run_ids]


def _beginning(text: str | None) -> str:
    prompt = None if text is None else json.loads(text)
    return prompt[:_MOST_CHARACTERS] if isinstance(prompt, str) else ""


def _searched(
    run_id: str, record: dict[str, str | None], prompt: str, now_ms: int
) -> SearchedFields:
    error, started = record["error"], record["started"]
    failure = json.loads(error) if error else None
    latest_ms = 0 if started is None else int(record["ended"] or now_ms) - int(started)
    named = [record[name] or "" for name in ("agent", "batch", "item")]
    return SearchedFields(
        run_id=run_id,
        texts=(*named, failure["message"] if failure else "", prompt),
        cause=cause_of(failure["code"], failure["node"], failure["message"]) if failure else None,
        cost_usd=float(record["cost"] or 0),
        took_s=(int(record["earlier_ms"] or 0) + latest_ms) / 1000,
    )
