"""Runs in lists, and what all lists have in common."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from sleipnir.graphs.schema import FormFormat
from sleipnir.scheduler.runs.documents import (
    FailureDocument,
    NodeFailureDocument,
    Tried,
    UsageDocument,
    about,
)


class ArchivedDocument(TypedDict):
    """Where a run is archived."""

    object: Annotated[str, about("its path or URL")]
    bytes: int
    at: Annotated[str | None, about("when it was written, if the archive tells")]


class RunFailureDocument(FailureDocument):
    caused_by: Annotated[
        list[NodeFailureDocument],
        about("of a failed run: failures before, also those that a `fallback` took over"),
    ]


class RunRowDocument(Tried):
    run_id: str
    agent: str
    status: str
    node: Annotated[str | None, about("current node; null after the end")]
    waits_for: Annotated[
        str | None,
        about("calls that a model waits for, or what a person has to do besides answering"),
    ]
    batch: str | None
    item: Annotated[str | None, about("of the batch")]
    labels: dict[str, str]
    parent: Annotated[str | None, about("of a child run")]
    root: str
    created_at: str
    age_s: float
    elapsed_s: Annotated[float, about("of all its tries")]
    step: Annotated[int, about("the current super-step")]
    usage: UsageDocument
    failed_nodes: int


class MarkedRunDocument(RunRowDocument):
    unusual: Annotated[
        str | None,
        about("how it exceeds what is usual for its agent, while it is open"),
    ]


class ListedRunDocument(MarkedRunDocument):
    error: FailureDocument | None
    child_runs: int
    prompt: Annotated[str, about("its beginning; empty if it is very long")]


class FormFieldDocument(TypedDict):
    """An `x-form` of the language."""

    title: str | None
    enum: list[str | int | float | bool] | None
    min: int | float | str | None
    max: int | float | str | None
    format: FormFormat | None


class PageDocument(TypedDict):
    next: Annotated[str | None, about("the cursor of the next page")]
    total: Annotated[int | None, about("null: unknown without reading everything")]
    at_most: int | None


class SearchedDocument(TypedDict):
    back_to: str | None
    complete: Annotated[bool, about("false: the search stopped before the page was full")]


class RunTreeDocument(RunRowDocument):
    children: list[RunTreeDocument]
    more_children: Annotated[dict[str, int], about("those left out, by status; else `uncounted`")]


class ViewDocument(TypedDict):
    name: str
    query: Annotated[str, about("of the list of runs")]
    path: Annotated[str, about("of the page that shows it")]


class ViewListDocument(TypedDict):
    views: list[ViewDocument]


class SessionDocument(TypedDict):
    agent: str
    session: str
    run_id: str
    status: str
    age_s: float


class ExcerptDocument(TypedDict):
    text: str
    left_out: Annotated[int, about("of characters")]


class KeyedExcerptDocument(ExcerptDocument):
    key: str


class SearchedRunsDocument(SearchedDocument):
    runs: int


class SearchedRunPageDocument(PageDocument):
    searched: SearchedRunsDocument


class RunPageDocument(SearchedRunPageDocument):
    """A page of runs, as `ps` prints it."""

    runs: list[RunRowDocument]


class RunTreesDocument(SearchedRunPageDocument):
    """A page of runs, as `ps --tree` prints it."""

    runs: list[RunTreeDocument]


class RunListDocument(SearchedRunPageDocument):
    runs: list[ListedRunDocument]
    counts: Annotated[dict[str, int], about("by status, of runs that match the other conditions")]
    counts_all: Annotated[bool, about("the counts cover all runs")]
