"""Calls one function of a Python tool file: python3 call.py FILE FUNCTION

Standard library only, and valid on old Pythons: it runs under the interpreter that a tool chooses.
Imports little: pathlib or inspect alone would cost a third of a short call's time.
"""

from __future__ import annotations

import json
import os
import sys
import types
from typing import Any


def main() -> None:
    file, name = sys.argv[1:]
    sys.path[0] = os.path.dirname(file)  # replaces our own: a tool may have a helper named `call`
    # Users follow it line by line.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] # Python's own stream
    with open(os.environ["LLM_TOOL_DATA_FILE"], "rb") as data:
        arguments = json.load(data)
    try:
        function = getattr(loaded(file), name)
        result = plain(finished(function(**without_gaps(function, arguments))))
    except Exception as error:
        import traceback

        trace = error.__traceback__
        traceback.print_exception(None, error, trace and trace.tb_next)  # without this frame
        sys.exit(1)
    if result is not None:
        with open(os.environ["LLM_OUTPUT"], "wb") as output:
            output.write(text_of(result).encode("utf-8", "backslashreplace"))


def loaded(file: str) -> types.ModuleType:
    """Load the tool as a module. Compiled in memory, as its directory may be read-only."""
    module = types.ModuleType(os.path.splitext(os.path.basename(file))[0])
    module.__file__ = file
    sys.modules[module.__name__] = module  # dataclasses and pickle look there
    with open(file, "rb") as source:
        exec(compile(source.read(), file, "exec", dont_inherit=True), module.__dict__)
    return module


def without_gaps(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with None for optional ones that were left out and have no default.

    Required ones have been checked before.
    """
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None:
        return arguments
    positional = code.co_varnames[: code.co_argcount]
    by_name = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    with_default = {*(function.__kwdefaults__ or ())}
    with_default.update(positional[len(positional) - len(function.__defaults__ or ()) :])
    gaps = {*positional, *by_name} - with_default - arguments.keys()
    return {**dict.fromkeys(gaps), **arguments}


def finished(result: Any) -> Any:
    """Return the result, once it is awaited if need be."""
    if hasattr(result, "__aiter__"):
        result = collected(result)
    if not hasattr(result, "__await__"):
        return result
    import asyncio

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


async def collected(generator: Any) -> list[Any]:
    return [each async for each in generator]


def plain(value: Any) -> Any:
    """Return a collection that JSON does not know as a list; a set in order, if it has one."""
    if isinstance(value, (set, frozenset)):
        try:
            return sorted(value)
        except TypeError:
            return sorted(value, key=repr)
    return list(value) if isinstance(value, tuple) or hasattr(value, "__next__") else value


def text_of(result: object) -> str:
    """Return what is written for the engine to read."""
    if isinstance(result, (bool, int, float, dict, list)):
        return json.dumps(result, ensure_ascii=False, default=as_json)
    return str(result)


def as_json(value: object) -> object:
    """Return what stands for a value inside a result."""
    made = plain(value)
    return made if isinstance(made, list) else str(value)


main()
