"""Documents of single questions: the form to answer one, and its answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.dataflow import STATE_UPDATES, state_reads
from sleipnir.graphs.schema import ApprovalNode, Graph, Node
from sleipnir.scheduler.runs.events import QuestionAnswered
from sleipnir.scheduler.runs.model import Question, Run
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views.documents import Document, excerpt, question_document

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

_MOST_OF_VALUE = 10_000  # characters


def find_question(client: Client, question_id: str) -> Question | None:
    """Return the question with an id; None if it is no longer open.

    Raises:
        RunNotFound: there is no such run.
    """
    run_id = question_id.partition("/")[0]
    client.queries.run(run_id)
    open_now = client.queries.questions(run_id)
    return next((each for each in open_now if each.question_id == question_id), None)


def form_document(
    client: Client, question: Question, graph: Graph | None, mask: Callable[[Any], Any]
) -> Document:
    """Return a question, with the node that each answer leads to.

    Args:
        graph: the graph of its run, if it has one.
        mask: hides secrets in JSON; called before texts are cut, which could leave a part of one.
    """
    node = graph.nodes.get(question.node) if graph is not None else None
    routes = node.routes if isinstance(node, ApprovalNode) else {}
    return {
        **question_document(question),
        "age_s": (client.queries.now_ms() - question.asked_at) / 1000,
        "choices": [{"answer": each, "to": routes.get(each)} for each in question.options],
        "on_other": node.on_other if isinstance(node, ApprovalNode) else None,
        "read": [] if node is None else _read_document(client, question.run_id, node, mask),
    }


def _read_document(
    client: Client, run_id: str, node: Node, mask: Callable[[Any], Any]
) -> list[Document]:
    """Return the values of the state that the text of a question was made of."""
    keys = {each.key for each in state_reads(node) if each.field[0] != STATE_UPDATES}
    values = client.queries.state_values(run_id, sorted(keys)) if keys else {}
    return [{"key": key, **excerpt(mask(values[key]), _MOST_OF_VALUE)} for key in values]


def answered_document(client: Client, run: Run, place: str) -> Document | None:
    """Return when and by whom a closed question was answered, if known."""
    nodes = {place, *place.split("/")}
    told = [
        entry
        for entry in client.queries.follow(run.run_id, block=False)
        if isinstance(entry.event, QuestionAnswered) and entry.event.node in nodes
    ]
    if not told:
        return None
    event = told[-1].event
    assert isinstance(event, QuestionAnswered)
    return {"at": to_rfc3339(told[-1].at), "by": event.by, "via": event.via}


def answer_of_choices(question: Question, chosen: list[str], own: str) -> str:
    """Return the answer for the ticked choices of a form; the person's own text overrides them."""
    if own.strip():
        return own
    value: Any = [option for option in question.options if option in chosen]
    return json.dumps(value, ensure_ascii=False)
