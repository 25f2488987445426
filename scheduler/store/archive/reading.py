"""Whole runs, as Redis has them, and back into Redis."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.process.packing import pack, unpack
from sleipnir.scheduler.runs.whole.parts import PARTS, PARTS_OF_VISITS, Part, PartForm, WholeRun
from sleipnir.scheduler.store.keys import run_key

_READ = {"hash": ("HGETALL",), "list": ("LRANGE", 0, -1), "stream": ("XRANGE", "-", "+")}


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run as it was read, and a digest that any later change of it would change."""

    whole: WholeRun
    seen: str


def read_whole(client: Any, run_ids: Sequence[str]) -> list[ReadRun | None]:
    """Return everything that Redis has of runs that have ended, in two round trips.

    None for those that it does not have. What changes meanwhile shows in `seen` only.
    """
    with client.pipeline(transaction=False) as pipe:
        for run_id in run_ids:
            pipe.hgetall(run_key("run", run_id))
            for kind, form in PARTS.items():
                _queue(pipe, run_key(kind, run_id), form)
        answers = iter(pipe.execute())
    found = [(run_id, next(answers), _taken(PARTS, answers)) for run_id in run_ids]
    visits = _read_visits(client, {run_id: [*parts.get("kept", ())] for run_id, _, parts in found})
    return [
        ReadRun(WholeRun(run_id, record, parts, visits[run_id]), _sum_of(record, parts))
        if record
        else None
        for run_id, record, parts in found
    ]


def _read_visits(
    client: Any, kept: Mapping[str, Iterable[Any]]
) -> dict[str, dict[str, dict[str, Part]]]:
    places = [(run_id, visit) for run_id, visits in kept.items() for visit in visits]
    found: dict[str, dict[str, dict[str, Part]]] = {run_id: {} for run_id in kept}
    if not places:
        return found
    with client.pipeline(transaction=False) as pipe:
        for run_id, visit in places:
            for kind, form in PARTS_OF_VISITS.items():
                _queue(pipe, run_key(kind, f"{run_id} {visit}"), form)
        answers = iter(pipe.execute())
    for run_id, visit in places:
        if parts := _taken(PARTS_OF_VISITS, answers):
            found[run_id][visit] = parts
    return found


def _queue(pipe: Any, key: str, form: PartForm) -> None:
    command, *arguments = _READ[form.shape]
    pipe.execute_command(command, key, *arguments)


def _taken(forms: Mapping[str, PartForm], answers: Iterator[Any]) -> dict[str, Part]:
    """Return the parts that the next answers have, without empty ones."""
    return {
        kind: _unpacked(form, answer)
        for kind, form, answer in ((kind, form, next(answers)) for kind, form in forms.items())
        if answer
    }


def _unpacked(form: PartForm, answer: Any) -> Part:
    if form.shape == "stream":
        return [(entry_id, entry["e"]) for entry_id, entry in answer]
    if form.holds == "objects":
        return [*map(unpack, answer)]
    return answer  # type: ignore[no-any-return] # of redis-py


def _sum_of(record: Mapping[str, str], parts: Mapping[str, Part]) -> str:
    """Return what `sum_of` of lua/lib/whole.lua does."""
    fields = [f"{name}\0{value}".encode(errors="surrogatepass") for name, value in record.items()]
    events: Any = parts.get("events", ())
    newest = events[-1][0] if events else ""
    text = b"\0".join([*sorted(fields), newest.encode()])
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


def words_of(run: WholeRun) -> list[str | bytes | int]:
    """Return the parts of a run as arguments of scripts, as lua/lib/whole.lua says."""
    words: list[str | bytes | int] = []
    for kind, part in run.parts.items():
        words += _words(kind, PARTS[kind], part)
    for visit, parts in run.visits.items():
        for kind, part in parts.items():
            words += _words(f"{kind} {visit}", PARTS_OF_VISITS[kind], part)
    return words


def _words(name: str, form: PartForm, part: Any) -> list[str | bytes | int]:
    if form.shape == "hash":
        values = [text for pair in part.items() for text in pair]
    elif form.shape == "stream":
        values = [text for pair in part for text in pair]
    else:
        values = [*map(pack, part)] if form.holds == "objects" else part
    return [name, form.shape, len(values), *values]
