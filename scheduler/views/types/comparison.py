"""Two runs compared."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from sleipnir.scheduler.runs.documents import about
from sleipnir.scheduler.views.types.agents import FileChangeDocument
from sleipnir.scheduler.views.types.records import PairDocument


class ComparedRunDocument(TypedDict):
    run_id: str
    agent: str
    digest: str
    status: str
    is_final: bool


class ComparedRouteDocument(TypedDict):
    common: list[list[str]]
    a: list[list[str]]
    b: list[list[str]]


class ComparedNodeDocument(TypedDict):
    id: str
    step: PairDocument
    output: PairDocument
    writes: PairDocument
    error: PairDocument
    elapsed_s: PairDocument
    usage: PairDocument


class PartedNodeDocument(TypedDict):
    id: str
    differs: list[str]
    writes: PairDocument
    output: PairDocument
    error: PairDocument


class PartingDocument(TypedDict):
    step: PairDocument
    nodes: list[PartedNodeDocument]


class ComparedStateDocument(TypedDict):
    added: dict[str, Any]
    removed: dict[str, Any]
    changed: dict[str, PairDocument]


class ComparisonDocument(TypedDict):
    a: ComparedRunDocument
    b: ComparedRunDocument
    equal: bool
    route: ComparedRouteDocument
    nodes: list[ComparedNodeDocument]
    state: ComparedStateDocument
    totals: dict[str, PairDocument]
    output: Annotated[PairDocument | None, about("null: the same")]
    first: Annotated[PartingDocument | None, about("first point of divergence")]
    inputs: dict[str, PairDocument]
    next: Annotated[int | None, about("`from` of the nodes that follow; null: there are none")]
    more: Annotated[dict[str, int], about("how many rows are left out of each other table")]
    files: Annotated[list[FileChangeDocument] | None, about("null: unknown")]
