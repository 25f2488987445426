"""Whole runs, as Redis has them, and back into Redis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.records import dataclass
from sleipnir.scheduler.process.packing import pack, unpack
from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.runs.whole.parts import PARTS, PARTS_OF_VISITS, Part, PartForm, WholeRun
from sleipnir.scheduler.store.keys import run_key

if TYPE_CHECKING:
    from sleipnir.scheduler.store.transitions import Transitions

_FORMS = {**PARTS, **PARTS_OF_VISITS}
_READ = {"hash": ("HGETALL",), "list": ("LRANGE", 0, -1), "stream": ("XRANGE", "-", "+")}


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run as it was read, and a digest that any later change of it would change."""

    whole: WholeRun
    seen: str


def read_whole(store: Transitions, run_ids: Sequence[str]) -> list[ReadRun | None]:
    """Return everything that Redis has of runs that have ended, in two round trips.

    None for those that it does not have. What changes meanwhile shows in `seen` only, as that is
    read first.
    """
    found = _find(store, run_ids)
    with store.client.pipeline(transaction=False) as pipe:
        for run_id, stored in zip(run_ids, found, strict=True):
            for name in stored.parts:
                kind, _, visit = name.partition(" ")
                command, *arguments = _READ[_FORMS[kind].shape]
                key = run_key(kind, f"{run_id} {visit}" if visit else run_id)
                pipe.execute_command(command, key, *arguments)  # type: ignore[no-untyped-call] # of redis-py
        answers = iter(pipe.execute())
    return [_whole(run_id, stored, answers) for run_id, stored in zip(run_ids, found, strict=True)]


def _find(store: Transitions, run_ids: Sequence[str]) -> list[Any]:
    """Return what `find_parts` answers of each run."""
    transition, clock = store.transition("find_parts"), store.clock.argument()
    with store.client.pipeline(transaction=False) as pipe:
        for run_id in run_ids:
            transition(
                partition_of(run_id),
                run_id,
                " ".join(PARTS),
                " ".join(PARTS_OF_VISITS),
                clock=clock,
                client=pipe,
            )
        return [*map(transition.result, pipe.execute())]


def _whole(run_id: str, stored: Any, answers: Iterator[Any]) -> ReadRun | None:
    """Return a run; the next answers are its parts."""
    parts: dict[str, Part] = {}
    visits: dict[str, dict[str, Part]] = {}
    for name in stored.parts:
        kind, _, visit = name.partition(" ")
        if answer := next(answers):  # otherwise it has gone meanwhile
            of = visits.setdefault(visit, {}) if visit else parts
            of[kind] = _unpacked(_FORMS[kind], answer)
    texts = iter(stored.record)
    record = dict(zip(texts, texts, strict=True))
    return ReadRun(WholeRun(run_id, record, parts, visits), stored.seen) if record else None


def _unpacked(form: PartForm, answer: Any) -> Part:
    if form.shape == "stream":
        return [(entry_id, entry["e"]) for entry_id, entry in answer]
    if form.holds == "objects":
        return [*map(unpack, answer)]
    return answer  # type: ignore[no-any-return] # of redis-py


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
