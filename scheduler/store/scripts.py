"""Loads the Lua scripts: one transition per file, its header is the contract.

A header names the keys and arguments, which become locals of these names, the library
files it uses, the values it returns, and the codes it may return instead of `OK`:

    -- What the script does.
    -- KEYS partition
    -- ARGV run_id visit rest          `rest` takes all remaining arguments
    -- USES store dispatch
    -- OK   status left  one word a value, then blanks and what they are; none without this line
    -- ERR  stale_visit  when that happens

A library with a line `-- LAZY` holds functions that most calls of a script do not need. They are
created, with everything only they need, when one of them is first called. Whole libraries would
exceed Lua's 200 local names; without lazy ones the scripts of a hop take 12 % longer. Functions
that Redis keeps (`FUNCTION LOAD`) would need neither, but Redis 7.

The only key passed to a script is the hash tag of a partition: all keys of a run are in one
slot, and `lib/store.lua` builds their names. `now_ms` is the clock of Redis.

Scripts are atomic: `redis.call` is only for reading; writes go through `lib/atomic.lua`, which
every script includes, and which undoes them if anything fails later:

    write('HSET', run, 'status', status)      reads what it replaces, to be able to take it back
    write_undone_by({'ZREM', timers, member}, 'ZADD', timers, at, member)   where it is known
    add('HSET', target, pairs)                new fields or members, in pieces
    in_pieces('RPUSH', target, list)          `write` of many
    read_fields(target, names)                HMGET of many
    write_last('HSET', state, key, value)     once, at the end: large values are not read before
    remove(key, ...)                          keys, at the very end

A failure in the script raises `TransitionBroken`; Redis' own error is raised while it refuses
all writes.
"""

from __future__ import annotations

import hashlib
import re
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import redis
from redis.client import Pipeline
from redis.commands.core import Script
from redis.exceptions import NoScriptError

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import (
    DefinitionChanged,
    IdTaken,
    InboxFull,
    NameTaken,
    NotOpen,
    NotOver,
    NotReachable,
    NotWaiting,
    RunClosed,
    RunGone,
    ScheduleChanged,
    ScheduleExists,
    StaleStep,
    StaleVisit,
    StateTooLarge,
    StepFailing,
    TransitionBroken,
    TransitionRefused,
)

_HERE = Path(__file__).with_name("lua")

_REFUSALS: Mapping[str, type[Exception]] = {
    "run_closed": RunClosed,
    "stale_visit": StaleVisit,
    "stale_step": StaleStep,
    "step_failing": StepFailing,
    "state_too_large": StateTooLarge,
    "not_waiting": NotWaiting,
    "not_reachable": NotReachable,
    "not_open": NotOpen,
    "inbox_full": InboxFull,
    "not_due": TransitionRefused,
    "not_over": NotOver,
    "run_gone": RunGone,
    "id_taken": IdTaken,
    "schedule_exists": ScheduleExists,
    "schedule_changed": ScheduleChanged,
    "name_taken": NameTaken,
    "definition_changed": DefinitionChanged,
}

_DEFINED = re.compile(r"(local function|function|local) +([\w, ]+)")
_NAME = re.compile(r"\w+")
# Texts, comments and fields are skipped: they match as "".
_WORD = re.compile(r"'[^'\n]*'|--.*|\.\w+|(\w+)")

Constant = str | int
Woken = tuple[str, str, str, str, str]  # run id, visit, label, bundle digest, queue


@cache
def _files() -> Mapping[str, Path]:
    """Return the files of all transitions by name, unique across folders."""
    return {file.stem: file for file in _HERE.glob("*/*.lua") if file.parent.name != "lib"}


@cache
def source_of(name: str) -> str:
    """Return the source of a transition."""
    return _files()[name].read_text(encoding="utf-8")


@cache
def _library_source(name: str) -> str:
    return (_HERE / "lib" / f"{name}.lua").read_text(encoding="utf-8")


def read_all() -> None:
    """Read all files at start, so that an upgrade cannot mix versions in a running process.

    Scripts are composed when first called: composing all of them would take longer than the rest
    of a worker's start.
    """
    for name in script_names():
        source_of(name)
    for file in (_HERE / "lib").glob("*.lua"):
        _library_source(file.stem)


@dataclass(frozen=True, eq=False)
class _Part:
    """A definition that begins a line of a library, or another statement, which has no name."""

    text: str
    names: frozenset[str]
    lazy: bool

    @cached_property
    def words(self) -> frozenset[str]:
        """Names that it may refer to; most scripts leave most parts out."""
        return _words(self.text)


@cache
def _library(name: str) -> tuple[_Part, ...]:
    source = _library_source(name)
    lazy = "\n-- LAZY\n" in source
    code = re.sub(r"^ *--.*\n", "", source, flags=re.M)
    texts = re.split(r"^(?=(?!end\b)\w)", code, flags=re.M)
    return tuple(_part(text, lazy) for text in texts if text.strip())


def _part(text: str, lazy: bool) -> _Part:
    found = _DEFINED.match(text)
    kind, names = found.groups() if found else ("", "")
    return _Part(text.rstrip(), frozenset(_NAME.findall(names)), lazy and "function" in kind)


def _header(source: str, word: str) -> list[str]:
    return [
        part for line in re.findall(rf"^-- {word} +(.*)$", source, re.M) for part in line.split()
    ]


def result_names(source: str) -> list[str]:
    """Return the names of a script's values from its `OK` line."""
    line = re.search(r"^-- OK +(\w+(?: \w+)*)", source, re.M)
    return line[1].split() if line else []


def script_names() -> list[str]:
    """Return the names of all transitions."""
    return sorted(_files())


def compose(name: str, constants: Mapping[str, Constant]) -> str:
    """Return the whole text of one script: constants, named arguments, libraries, body."""
    return _composed(name, tuple(constants.items()))


@lru_cache(maxsize=256)  # the scripts of a few clients: those of one process are much alike
def _composed(name: str, constants: tuple[tuple[str, Constant], ...]) -> str:
    body = source_of(name)
    lines = ["local function transition()"]
    lines += [
        f"local {key} = {value if isinstance(value, int) else _quoted(value)}"
        for key, value in constants
    ]
    lines.append("local partition = KEYS[1]")
    arguments = ["clock", *_header(body, "ARGV")]
    for position, argument in enumerate(arguments, 1):
        if argument == "rest":
            lines.append(
                f"local rest = {{}}; for i = {position}, #ARGV do rest[#rest + 1] = ARGV[i] end"
            )
        else:
            lines.append(f"local {argument} = ARGV[{position}]")
    lines += [
        "local now_ms = tonumber(clock)",
        "if not now_ms then",
        "  local time = redis.call('TIME')",
        "  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)",
        "end",
    ]
    inner = "\n".join([*lines, *_definitions(_header(body, "USES"), body), body, "end"])
    ending = "return all_or_nothing(transition)"
    return "\n".join([*_definitions(["atomic"], inner + ending), inner, ending])


def _definitions(libraries: Sequence[str], text: str) -> list[str]:
    """Return the parts of libraries that `text` needs: every call creates its functions again.

    What only lazy functions refer to is created when one of them is first called.
    """
    parts = [part for library in libraries for part in _library(library)]
    words = _words(text)
    eager = _reached([part for part in parts if not part.lazy], words)
    words = words.union(*(part.words for part in eager))
    later = [part for part in _reached(parts, words) if part not in eager]
    doors = words & {name for part in later for name in part.names}
    if not doors:
        return [part.text for part in eager]
    return [
        f"local {', '.join(sorted(doors))}",
        *(part.text for part in eager if not _declares(part, doors)),
        "local function make_lazy()",
        *(_assigned(part, doors) for part in later if not _declares(part, doors)),
        "end",
        *(f"function {door}(...) make_lazy() return {door}(...) end" for door in sorted(doors)),
    ]


def _declares(part: _Part, doors: Set[str]) -> bool:
    """Return whether a part only declares names that are declared as doors already."""
    only_names = re.fullmatch(r"local (?!function)[\w, ]+", part.text)
    return bool(only_names) and part.names <= doors


def _assigned(part: _Part, doors: Set[str]) -> str:
    """Return a part in which the definition of a door assigns it; other names stay local."""
    return part.text.removeprefix("local ") if part.names & doors else part.text


def _reached(parts: Sequence[_Part], words: frozenset[str]) -> list[_Part]:
    reached: set[int] = set()
    while True:
        found = {
            i
            for i, part in enumerate(parts)
            if i not in reached and (not part.names or part.names & words)
        }
        if not found:
            return [parts[i] for i in sorted(reached)]
        reached |= found
        words = words.union(*(parts[i].words for i in found))


def _words(text: str) -> frozenset[str]:
    """Return the words that may refer to definitions: none of comments, texts or fields."""
    return frozenset(_WORD.findall(text))


def _quoted(text: str) -> str:
    fence = "=" * 4
    return f"[{fence}[{text}]{fence}]"


def _encoded(argument: bytes | str | int) -> bytes | int:
    # Texts and keys may contain lone surrogates; hiredis takes them as bytes only.
    return argument.encode(errors="surrogatepass") if isinstance(argument, str) else argument


def _record(name: str, fields: Sequence[str]) -> Any:
    return namedtuple(f"{name}_results", fields)


class Contract:
    """The arguments and values of one script, independent of who calls it."""

    def __init__(
        self,
        name: str,
        constants: Mapping[str, Constant],
        published: Callable[[Sequence[Woken]], None],
    ) -> None:
        self._name = name
        source = source_of(name)
        self._arguments = _header(source, "ARGV")
        self._results = _record(name, result_names(source))
        self._published = published
        self.text = compose(name, constants)

    @cached_property
    def sha(self) -> str:
        """The SHA1 digest by which Redis caches the script."""
        return hashlib.sha1(self.text.encode()).hexdigest()

    def encoded(
        self, arguments: Sequence[bytes | str | int], clock: str
    ) -> list[bytes | str | int]:
        """Return the arguments as they are sent.

        Raises:
            TypeError: there are too few or too many of them.
        """
        expected = len(self._arguments)
        open_ended = expected > 0 and self._arguments[-1] == "rest"
        if not (len(arguments) == expected or (open_ended and len(arguments) >= expected - 1)):
            raise TypeError(f"{self._name} takes {self._arguments}, got {len(arguments)} arguments")
        return [clock, *map(_encoded, arguments)]

    def result(self, answer: Any) -> Any:
        """Return a record of an answer's values; publish the visits that it woke."""
        if answer[0] == "broken":
            raise TransitionBroken(self._name, str(answer[1]))
        if answer[0] != "OK":
            raise _REFUSALS[answer[0]](f"{self._name}: {answer[0]}")
        if answer[1]:
            self._published(answer[1])
        try:
            return self._results._make(answer[2:])
        except TypeError as error:
            raise TypeError(
                f"{self._name} answers {self._results._fields}, got {len(answer) - 2} values"
            ) from error


class Transition(Contract):
    """One script bound to a client; calling it returns a record of the values of its `OK` line."""

    def __init__(
        self,
        name: str,
        client: redis.Redis,
        constants: Mapping[str, Constant],
        published: Callable[[Sequence[Woken]], None],
    ) -> None:
        super().__init__(name, constants, published)
        self._client = client
        self._script: Script = client.register_script(self.text)

    def __call__(
        self,
        partition: str,
        *arguments: bytes | str | int,
        clock: str = "",
        client: redis.Redis | None = None,
    ) -> Any:
        """Run the script, by `client` instead of its own if given.

        A pipeline only queues it: pass the answer to `result`.

        Raises:
            TransitionRefused: the subclass for the code that the script returned.
            TransitionBroken: the script failed; nothing was written.
            TypeError: wrong number of arguments, or of values in the answer.
        """
        encoded = self.encoded(arguments, clock)
        try:
            answer = self._script(keys=[partition], args=encoded, client=client)
        except NoScriptError:  # Redis has restarted since the script was loaded
            answer = (client or self._client).eval(self.text, 1, partition, *encoded)
        return None if isinstance(client, Pipeline) else self.result(answer)
