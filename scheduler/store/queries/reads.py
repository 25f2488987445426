"""Reads as generators: what is asked of Redis, apart from how it is asked.

A read yields commands, is sent their answers, and returns what it makes of them. So the client
and its twin on asyncio share every read; only who carries it out differs.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Command: TypeAlias = tuple[str | int, ...]
Reads: TypeAlias = Generator[Sequence[Command], list[Any], T]


def carry_out(redis: Any, reads: Reads[T]) -> T:
    """What a read makes of the answers; the commands that it yields at once take one round trip."""
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


async def carry_out_async(redis: Any, reads: Reads[T]) -> T:
    """The same with a client of `redis.asyncio`."""
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
