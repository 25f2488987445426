"""Reads of runs as from Redis alone: what was archived of them is added to its answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from redis.commands import CoreCommands

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.whole.parts import PARTS, PARTS_OF_VISITS, WholeRun
from sleipnir.scheduler.store.archive.summary import SUMMARY

_KEY = re.compile(r"(?:\{p\d+\}|\{[^}]*\}p\d+):([a-z_]+):([0-9a-f]{16})(?: (.+))?")
_RECORD: Final = "run"
_OF_RUNS: Final = frozenset({*PARTS, _RECORD} - {"children"})  # the list of children stays

Words = Sequence[Any]


class Completes(Protocol):
    """Who has what was archived of runs."""

    def wholes(self, run_ids: Sequence[str]) -> Mapping[str, WholeRun]:
        """Return those of several runs that are archived."""
        ...


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a run that a command reads."""

    kind: str
    run_id: str
    visit: str | None

    @classmethod
    def of(cls, key: Any) -> _Part | None:
        found = _KEY.fullmatch(key) if isinstance(key, str) else None
        if found is None:
            return None
        kind, run_id, visit = found.groups()
        known = kind in (PARTS_OF_VISITS if visit else _OF_RUNS)
        return cls(kind, run_id, visit) if known else None

    def in_(self, run: WholeRun) -> Any:
        """Return the part as it was archived; empty if there was none."""
        if self.kind == _RECORD:
            return run.record
        parts = run.parts if self.visit is None else run.visits.get(self.visit, {})
        return parts.get(self.kind, ())


def complete(archived: Completes, commands: Sequence[Words], answers: list[Any]) -> list[Any]:
    """Return answers of Redis to reads, with what it lacks of runs that are archived."""
    lacking = {
        index: parts
        for index, (words, answer) in enumerate(zip(commands, answers, strict=True))
        if (parts := [*_lacking(words, answer)])
    }
    if not lacking:
        return answers
    run_ids = sorted({part.run_id for parts in lacking.values() for part in parts})
    wholes = archived.wholes(run_ids)
    completed = list(answers)
    for index, parts in lacking.items():
        found = {part: wholes[part.run_id] for part in parts if part.run_id in wholes}
        if found:
            completed[index] = _completed(commands[index], answers[index], found)
    return completed


def _lacking(words: Words, answer: Any) -> Iterator[_Part]:
    """Yield the parts of which a command's answer may lack something."""
    if words[0] == "XREAD":
        if not answer:
            yield from (part for part in map(_Part.of, _streams(words)) if part is not None)
        return
    part = _Part.of(words[1]) if len(words) > 1 else None
    if part is None:
        return
    if part.kind == _RECORD:
        if words[0] == "HGETALL":
            is_lacking = "archived" in answer
        else:
            values = answer if words[0] == "HMGET" else [answer]
            is_lacking = words[0] in ("HMGET", "HGET") and any(
                value is None and name not in SUMMARY
                for name, value in zip(words[2:], values, strict=True)
            )
    else:
        is_lacking = not answer or (words[0] == "HMGET" and not any(answer))
    if is_lacking:
        yield part


def _streams(words: Words) -> dict[str, str]:
    """Return the streams that XREAD reads, each with the id after which it does."""
    names = [*words[1 + _position(words, "STREAMS") :]]
    half = len(names) // 2
    return dict(zip(names[:half], names[half:], strict=True))


def _position(words: Words, name: str) -> int:
    return [word.decode() if isinstance(word, bytes) else word for word in words].index(name)


def _completed(words: Words, answer: Any, found: Mapping[_Part, WholeRun]) -> Any:
    if words[0] == "XREAD":
        streams = ((key, _Part.of(key), after) for key, after in _streams(words).items())
        read = (
            (key, _after(part.in_(found[part]), after))
            for key, part, after in streams
            if part is not None and part in found
        )
        return [[key, entries] for key, entries in read if entries]
    ((part, run),) = found.items()
    stored = part.in_(run)
    match [*words]:
        case ["HGETALL", _]:
            return {**dict(stored), **answer}
        case ["HMGET", _, *names]:
            return [
                dict(stored).get(name) if value is None else value
                for name, value in zip(names, answer, strict=True)
            ]
        case ["HGET", _, name]:
            return dict(stored).get(name)
        case ["HKEYS", _]:
            return list(stored)
        case ["HLEN" | "LLEN", _]:
            return len(stored)
        case ["LRANGE", _, start, stop]:
            return _range(stored, int(start), int(stop))
        case ["XREVRANGE", _, last, "-", *counted]:
            before = _before(stored, last)
            return before[: int(counted[1])] if counted else before
        case _:
            return answer


def _range(entries: Sequence[str], start: int, stop: int) -> list[str]:
    """Return what LRANGE would of a list."""
    size = len(entries)
    first = max(0, size + start) if start < 0 else start
    return [*entries[first : (size + stop if stop < 0 else stop) + 1]]


def _after(entries: Sequence[tuple[str, str]], event_id: str) -> list[tuple[str, dict[str, str]]]:
    return [(key, {"e": text}) for key, text in entries if _instant(key) > _instant(event_id)]


def _before(entries: Sequence[tuple[str, str]], last: str) -> list[tuple[str, dict[str, str]]]:
    """Return the entries before `(<id>`, or all for `+`, the newest first."""
    until = None if last == "+" else _instant(last.removeprefix("("))
    found = [(key, {"e": text}) for key, text in entries if until is None or _instant(key) < until]
    return found[::-1]


def _instant(event_id: str) -> tuple[int, int]:
    at_ms, _, number = event_id.partition("-")
    return int(at_ms), int(number or 0)


class LayeredRedis(CoreCommands):
    """A client for reads that completes its answers."""

    _event_dispatcher: Any = None  # redis-py's, of which commands make no use

    def __init__(self, client: Any, archived: Completes) -> None:
        self._client = client
        self._archived = archived

    def execute_command(self, *words: Any, **options: Any) -> Any:
        """Carry out one read."""
        answer = self._client.execute_command(*words, **options)
        return complete(self._archived, [words], [answer])[0]

    def pipeline(self, transaction: bool = True) -> LayeredPipeline:
        """Return a pipeline of reads."""
        return LayeredPipeline(self._client.pipeline(transaction=transaction), self._archived)

    def pubsub(self, **options: Any) -> Any:
        """Return a subscription; nothing is archived of channels."""
        return self._client.pubsub(**options)


class LayeredPipeline(CoreCommands):
    """A pipeline of reads that completes its answers."""

    _event_dispatcher: Any = None

    def __init__(self, pipe: Any, archived: Completes) -> None:
        self._pipe = pipe
        self._archived = archived
        self._commands: list[Words] = []

    def __enter__(self) -> LayeredPipeline:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._pipe.reset()

    def execute_command(self, *words: Any, **options: Any) -> LayeredPipeline:
        """Add a read."""
        self._commands.append(words)
        self._pipe.execute_command(*words, **options)
        return self

    def execute(self) -> list[Any]:
        """Carry out the reads."""
        commands, self._commands = self._commands, []
        return complete(self._archived, commands, self._pipe.execute())
