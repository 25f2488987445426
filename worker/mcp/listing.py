"""A server's list of tools, made such that one odd tool does not take the others away.

The SDK refuses a whole list for one part that does not fit the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mcp_types import methods
from pydantic import ValidationError

from sleipnir.worker.mcp.schemas import SchemaUnusable, argument_schema

_LISTING = "tools/list"
_PATHS_SHOWN = 3

# Called with what is odd, by the task that asks for a list.
_ON_ODD: ContextVar[Callable[[str], None]] = ContextVar("_ON_ODD", default=lambda _: None)


@contextmanager
def noting_odd_tools(on_odd: Callable[[str], None]) -> Iterator[None]:
    """Have `on_odd` called with a sentence for each part of a list that is left out."""
    token = _ON_ODD.set(on_odd)
    try:
        yield
    finally:
        _ON_ODD.reset(token)


def read_leniently(session: Any) -> None:
    """Have the SDK's session see lists of tools as `_fitting` returns them."""
    dispatcher = session._dispatcher
    send = dispatcher.send_raw_request

    async def send_raw_request(method: str, params: Any, opts: Any = None) -> Any:
        result = await send(method, params, opts)
        if method == _LISTING and isinstance(result, dict):
            return _fitting(result, session.protocol_version)
        return result

    dispatcher.send_raw_request = send_raw_request


def _fitting(result: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a list of tools with only what the protocol wants and this product uses."""
    listed = result.get("tools")
    if listed is None:
        listed = []
    if not isinstance(listed, list):
        return dict(result)  # the SDK says what is wrong
    tools = [tool for place, each in enumerate(listed) if (tool := _tool(each, place, version))]
    # Only the newest protocol has the other fields, and there they are mandatory.
    fitting = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    cursor = result.get("nextCursor")
    if isinstance(cursor, str):
        fitting["nextCursor"] = cursor
    elif cursor is not None:
        _ON_ODD.get()(
            "its list of tools goes on at a cursor that is not a text: the rest is left out"
        )
    return fitting


def _tool(declared: Any, place: int, version: str) -> dict[str, Any] | None:
    note = _ON_ODD.get()
    if not isinstance(declared, dict):
        note(f"tool {place + 1} of its list is left out: it is not an object")
        return None
    name = declared.get("name")
    if not isinstance(name, str) or not name:
        note(f"tool {place + 1} of its list is left out: its name is not a text, or is empty")
        return None
    try:
        schema, left_out = argument_schema(declared.get("inputSchema"))
    except SchemaUnusable as error:
        note(f"tool '{name}' is left out: {error}")
        return None
    tool: dict[str, Any] = {"name": name, "inputSchema": schema}
    description = declared.get("description")
    if isinstance(description, str):
        tool["description"] = description
    elif description is not None:
        left_out.append("description")
    output = declared.get("outputSchema")
    if output is not None and not _fits({**tool, "outputSchema": output}, version):
        left_out.append("outputSchema")
    elif output is not None:
        tool["outputSchema"] = output
    if left_out:
        more = f" and {len(left_out) - _PATHS_SHOWN} more" * (len(left_out) > _PATHS_SHOWN)
        note(f"tool '{name}' is used without its odd {', '.join(left_out[:_PATHS_SHOWN])}{more}")
    return tool


def _fits(tool: Mapping[str, Any], version: str) -> bool:
    listed = {"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    try:
        methods.validate_server_result(_LISTING, version, listed)
    except ValidationError:
        return False
    except KeyError:  # as the SDK does
        pass
    return True
