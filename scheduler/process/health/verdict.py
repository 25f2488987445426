"""Decides whether a process is live and ready, from what is known of it and its children."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sleipnir.records import dataclass

# Of a child that has just been started, nothing is asked.
STARTING_S = 60.0
# A child that lived shorter than this has failed to start.
SHORT_LIFE_S = 5.0
# Of a loop: since it turned last.
STANDS_STILL_S = 10.0


@dataclass(frozen=True, slots=True)
class ChildHealth:
    """A child of a supervisor, as of now."""

    name: str
    is_alive: bool
    age_s: float  # since its latest start
    known_s: float  # since its first start
    last_life_s: float | None = None  # of the process before; None: it has not been restarted
    silent_s: float = 0.0  # since it told of itself
    takes: bool = True  # messages; False until it has said so
    redis_age_s: float = 0.0  # since Redis has answered it


def not_live(children: Iterable[ChildHealth], silence_s: float) -> Iterator[str]:
    """Yield why a supervisor is not live: never because of Redis, a broker, or a long node.

    Args:
        silence_s: after which a child hangs.
    """
    for child in children:
        lived_s = child.last_life_s
        if not child.is_alive:
            if child.known_s >= STARTING_S and lived_s is not None and lived_s <= SHORT_LIFE_S:
                yield f"{child.name} does not start: it last lived for {lived_s:.1f} s"
        # One that was never heard of may still be starting.
        elif child.silent_s > silence_s and (
            child.silent_s < child.age_s or child.age_s >= STARTING_S
        ):
            yield f"{child.name} hangs: it has not been heard of for {child.silent_s:.0f} s"


def not_ready(
    children: Iterable[ChildHealth], longest_redis_s: float, *, is_draining: bool
) -> Iterator[str]:
    """Yield why no visits should be expected of it, besides what makes it not live."""
    if is_draining:
        yield "draining"
    for child in children:
        if not child.is_alive or not child.takes:
            yield f"{child.name} takes no messages"
        else:
            yield from redis_silent(child.name, child.redis_age_s + child.silent_s, longest_redis_s)


def redis_silent(name: str, age_s: float, longest_s: float) -> Iterator[str]:
    """Yield that Redis has not answered a process for too long."""
    if age_s > longest_s:
        yield f"Redis has not answered {name} for {age_s:.0f} s"
