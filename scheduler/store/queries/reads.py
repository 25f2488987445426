"""Reads as generators, independent of who carries them out.

A read yields commands, is sent their answers, and returns the result. So the client and its
asyncio twin share every read.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias, TypeVar

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


async def carry_out_async(redis: Any, reads: Reads[T]) -> T:
    """Carry out a read with a client of `redis.asyncio`."""
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
