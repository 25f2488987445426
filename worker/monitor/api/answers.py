"""Answers of the API that no view makes: about acts, the user, and refusals."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from sleipnir.scheduler.runs.documents import about


class MeDocument(TypedDict):
    name: str
    role: str
    via: str


class RefusedReasonDocument(TypedDict):
    message: str
    runs: int


class BulkDocument(TypedDict):
    bulk_id: str
    act: str
    total: int
    done: int
    refused: int
    reasons: list[RefusedReasonDocument]
    is_over: bool
    problem: str | None


class DrainedDocument(TypedDict):
    workers: Annotated[list[str], about("that were asked; they hear of it within 5 s")]
    draining: bool


class SubmittedDocument(TypedDict):
    run_id: str


class StartedBatchDocument(TypedDict):
    batch: str


class SteeredDocument(TypedDict):
    run_id: str
    status: str
    digest: Annotated[str, about("the version of its agent")]


class AnsweredQuestionDocument(TypedDict):
    run_id: str
    node: str


class ProblemDocument(TypedDict):
    code: str
    message: str
    hint: str | None
    details: dict[str, Any]


class RefusalDocument(TypedDict):
    error: ProblemDocument


class DeletedDocument(TypedDict):
    name: str
    deleted: bool
