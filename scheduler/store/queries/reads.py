"""Reads as generators, independent of who carries them out.

A read yields commands, is sent their answers, and returns the result. So the client and its
asyncio twin share every read.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sleipnir.lazy import lazy_imports

# Most clients are not on asyncio, and most engines have no archive.
with lazy_imports():
    import asyncio

    from sleipnir.scheduler.store.archive import layered

if TYPE_CHECKING:
    from sleipnir.scheduler.store.archive.archived_runs import ArchivedRuns

T = TypeVar("T")

Command: TypeAlias = tuple[str | int, ...]
Reads: TypeAlias = Generator[Sequence[Command], list[Any], T]


def carry_out(redis: Any, reads: Reads[T]) -> T:
    """Carry out a read and return its result; commands yielded together take one round trip."""
    answers: list[Any] | None = None
    while True:
        try:
            commands = next(reads) if answers is None else reads.send(answers)
        except StopIteration as end:
            result: T = end.value
            return result
        with redis.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            answers = pipe.execute()


async def carry_out_async(redis: Any, reads: Reads[T], archived: ArchivedRuns | None) -> T:
    """Carry out a read with a client of `redis.asyncio`; `archived` adds what Redis lacks."""
    answers: list[Any] | None = None
    while True:
        try:
            commands = next(reads) if answers is None else reads.send(answers)
        except StopIteration as end:
            result: T = end.value
            return result
        async with redis.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            answers = await pipe.execute()
        if archived is not None:
            answers = await asyncio.to_thread(layered.complete, archived, commands, answers)
