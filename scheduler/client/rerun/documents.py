"""The JSON of `diff --json`, as types; imported for types only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from typing_extensions import TypedDict

from sleipnir.scheduler.runs.documents import about


class PairDocument(TypedDict):
    a: Any
    b: Any


class ComparedRouteDocument(TypedDict):
    common: Sequence[Sequence[str]]
    a: Sequence[Sequence[str]]
    b: Sequence[Sequence[str]]


class MadeDocument(TypedDict):
    """What a node has made in each run."""

    output: PairDocument
    writes: PairDocument
    error: PairDocument
    route: Annotated[
        PairDocument, about("`index` and `label` of what its conditions chose, or null")
    ]


class ComparedNodeDocument(MadeDocument):
    id: str
    step: PairDocument
    elapsed_s: PairDocument
    usage: PairDocument


class ComparedStateDocument(TypedDict):
    added: dict[str, Any]
    removed: dict[str, Any]
    changed: dict[str, PairDocument]


class DifferenceDocument(TypedDict):
    """What `diff` prints."""

    equal: bool
    route: ComparedRouteDocument
    nodes: list[ComparedNodeDocument]
    state: ComparedStateDocument
    totals: dict[str, PairDocument]
