"""Function calls as servers stream them, in all shapes that are known."""

from __future__ import annotations

from typing import Any

NOTE, WIPE = ("note", '{"text": "a}{b"}'), ("wipe", "{}")


def piece(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {**fields, "function": {key: said for key, said in function.items() if said is not None}}


# How servers stream calls; the calls are those that the server's plain reply would have.
SHAPES: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]]]] = {
    "as OpenAI does": (
        [
            piece("note", "", index=0, id="a"),
            piece(None, '{"text": "a}', index=0),
            piece(None, '{b"}', index=0),
            piece("wipe", "", index=1, id="b"),
            piece(None, "{}", index=1),
        ],
        [NOTE, WIPE],
    ),
    "side by side": (
        [
            piece("note", "", index=0, id="a"),
            piece("wipe", "{", index=1, id="b"),
            piece(None, '{"text": "a}{b"}', index=0),
            piece("", "}", index=1, id=""),
        ],
        [NOTE, WIPE],
    ),
    "last one first": (
        [piece(*WIPE, index=1, id="b"), piece(*NOTE, index=0, id="a")],
        [NOTE, WIPE],
    ),
    "one index, ids apart": (
        [piece(*NOTE, index=0, id="a"), piece("wipe", "", index=0, id="b")],
        [NOTE, ("wipe", "")],
    ),
    "one index, ids apart, in pieces": (
        [
            piece("note", "", index=0, id="a"),
            piece(None, '{"text": "a}', index=0),
            piece(None, '{b"}', index=0),
            piece("wipe", "{", index=0, id="b"),
            piece(None, "}", index=0),
        ],
        [NOTE, WIPE],
    ),
    "one index, ids apart, side by side": (
        [
            piece("note", '{"text": ', index=0, id="a"),
            piece("wipe", "{", index=0, id="b"),
            piece(None, '"a}{b"}', index=0, id="a"),
            piece(None, "}", index=0, id="b"),
        ],
        [NOTE, WIPE],
    ),
    "one index, id before name": (
        [
            piece(index=0, id="a"),
            piece("note", index=0),
            piece(None, NOTE[1], index=0),
            piece(index=0, id="b"),
            piece("wipe", "{}", index=0),
        ],
        [NOTE, WIPE],
    ),
    "one index, no ids": ([piece(*NOTE, index=0), piece(*WIPE, index=0)], [NOTE, WIPE]),
    "one index, no ids, one function": (
        [piece(*NOTE, index=0), piece("note", '{"text": 2}', index=0)],
        [NOTE, ("note", '{"text": 2}')],
    ),
    "one id, one index": (
        [piece(*NOTE, index=0, id="x"), piece(*WIPE, index=0, id="x")],
        [NOTE, WIPE],
    ),
    "one id, indexes apart": (
        [piece(*NOTE, index=0, id="x"), piece(*WIPE, index=1, id="x")],
        [NOTE, WIPE],
    ),
    "index as text": (
        [
            piece("note", "", index="0", id="a"),
            piece("wipe", "{", index="1", id="b"),
            piece(None, NOTE[1], index="0"),
            piece(None, "}", index="1"),
        ],
        [NOTE, WIPE],
    ),
    "no index": ([piece(*NOTE, id="a"), piece(*WIPE, id="b")], [NOTE, WIPE]),
    "no index, in pieces": (
        [piece("note", '{"text": "a}', id="a"), piece(None, '{b"}'), piece(*WIPE, id="b")],
        [NOTE, WIPE],
    ),
    "no index, side by side": (
        [
            piece("note", '{"text": ', id="a"),
            piece("wipe", "{", id="b"),
            piece(None, '"a}{b"}', id="a"),
            piece(None, "}", id="b"),
        ],
        [NOTE, WIPE],
    ),
    "neither index nor id": (
        [piece("note", '{"text": "a}'), piece(None, '{b"}'), piece(*WIPE), piece("wipe", "{} ")],
        [NOTE, WIPE, ("wipe", "{} ")],
    ),
    "arguments as an object": (
        [piece(*WIPE, index=0), piece("wipe", {"at": 1}, index=1)],
        [WIPE, ("wipe", '{"at": 1}')],
    ),
    "neither index nor id nor arguments": (
        [piece("ping", ""), piece(*NOTE), piece("wipe")],
        [("ping", ""), NOTE, ("wipe", "")],
    ),
    "name in each piece": (
        [
            piece("note", "", index=0, id="a"),
            piece("note", '{"text": "a}', index=0, id="a"),
            piece("note", '{b"}', index=0, id="a"),
            piece("note", "", index=0, id="a"),
        ],
        [NOTE],
    ),
    "name in each piece, neither index nor id": (
        [piece("note", '{"text": "a}'), piece("note", '{b"}'), piece("note", ""), piece(*WIPE)],
        [NOTE, WIPE],
    ),
    "name in pieces": (
        [
            piece("no", index=0, id="a"),
            piece("te", index=0),
            piece(None, NOTE[1], index=0),
            piece("wi", index=1, id="b"),
            piece("pe", "{}", index=1),
        ],
        [NOTE, WIPE],
    ),
    "name longer in each piece": (
        [piece("no", index=0, id="a"), piece("note", index=0), piece("note", NOTE[1], index=0)],
        [NOTE],
    ),
}
