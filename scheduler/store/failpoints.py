"""Failpoints: faults on request, to test processes that die or stall at an exact place.

    SLEIPNIR_FAILPOINT=<when>.<function>:<action>[:<n>]

when      before | after (it has returned) | amid (0.1 s after it was called)
function  a method of a part of RunStore; in a worker also `execute`, which runs a node's body
action    kill (SIGKILL to itself) | stop (SIGSTOP) | raise (as if the connection were lost) |
          freeze (hold the interpreter, as a search with a bad pattern does)
n         only the n-th call; every call by default

A process reads the variable once, at start; without it nothing is wrapped.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any

from sleipnir.scheduler.errors import SettingInvalid
from sleipnir.scheduler.store.errors import ConnectionError

VARIABLE = "SLEIPNIR_FAILPOINT"
_AMID_S = 0.1

_FORM = re.compile(r"(before|after|amid)\.(\w+):(kill|stop|raise|freeze)(?::([1-9]\d*))?")


def install_requested(*owners: Any) -> None:
    """Install the failpoint requested by the environment, if any; see `install`."""
    requested = os.environ.get(VARIABLE)
    if requested:
        install(requested, *owners)


def install(requested: str, *owners: Any) -> None:
    """Wrap the function that a failpoint names, in one of `owners`, classes or modules.

    Raises:
        SettingInvalid: it is not a failpoint, or no owner has such a function.
    """
    form = _FORM.fullmatch(requested)
    if form is None:
        raise SettingInvalid(
            f"{VARIABLE}: expected <before|after|amid>.<function>:<kill|stop|raise|freeze>[:<n>], "
            f"got {requested!r}"
        )
    when, name, action, number = form.groups()
    owner = next((owner for owner in owners if hasattr(owner, name)), None)
    if owner is None:
        raise SettingInvalid(f"{VARIABLE}: there is no function '{name}' to fail at")
    strike = _nth(int(number), _ACTIONS[action]) if number else _ACTIONS[action]
    setattr(owner, name, _wrapped(getattr(owner, name), when, strike))


def _wrapped(
    function: Callable[..., Any], when: str, strike: Callable[[], None]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def failing(*arguments: Any, **named: Any) -> Any:
        if when == "before":
            strike()
        elif when == "amid":
            threading.Timer(_AMID_S, strike).start()
        result = function(*arguments, **named)
        if when == "after":
            strike()
        return result

    return failing


def _nth(number: int, strike: Callable[[], None]) -> Callable[[], None]:
    reached = itertools.count(1)  # its `next` is thread-safe

    def strike_once() -> None:
        if next(reached) == number:
            strike()

    return strike_once


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _raise() -> None:
    raise ConnectionError(f"{VARIABLE} asked for it")


def _freeze() -> None:
    # C code that never ends and lets no other thread run.
    sum(itertools.repeat(0))


_ACTIONS: Mapping[str, Callable[[], None]] = {
    "kill": _kill,
    "stop": _stop,
    "raise": _raise,
    "freeze": _freeze,
}
