"""Two runs compared."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from sleipnir.scheduler.client.rerun.documents import DifferenceDocument, MadeDocument, PairDocument
from sleipnir.scheduler.runs.documents import about
from sleipnir.scheduler.views.types.agents import FileChangeDocument


class ComparedRunDocument(TypedDict):
    run_id: str
    agent: str
    digest: str
    status: str
    is_final: bool


class PartedNodeDocument(MadeDocument):
    id: str
    differs: list[str]
    prompt: Annotated[
        PairDocument, about("what its model was sent first, if that is stored; else null")
    ]


class PartingDocument(TypedDict):
    step: PairDocument
    nodes: list[PartedNodeDocument]


class ComparisonDocument(DifferenceDocument):
    a: ComparedRunDocument
    b: ComparedRunDocument
    output: Annotated[PairDocument | None, about("null: the same")]
    first: Annotated[PartingDocument | None, about("first point of divergence")]
    inputs: dict[str, PairDocument]
    files: Annotated[list[FileChangeDocument] | None, about("null: unknown")]


class ComparisonPageDocument(ComparisonDocument):
    next: Annotated[int | None, about("`from` of the nodes that follow; null: there are none")]
    more: Annotated[dict[str, int], about("how many rows are left out of each other table")]
