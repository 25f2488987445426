"""Documents of single questions: the form to answer one, what led to it, and its answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.dataflow import STATE_UPDATES, state_reads
from sleipnir.graphs.schema import ApprovalNode, Graph, InputNode, Node
from sleipnir.scheduler.runs.conversation.memory import PROMPT, turn_key
from sleipnir.scheduler.runs.events import QuestionAnswered
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import Question, Run
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views.documents import excerpt, form_field_document, question_document

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import questions as types
    from sleipnir.scheduler.views.types.records import FormFieldDocument, KeyedExcerptDocument

_MOST_OF_VALUE = 10_000  # characters
# Of the conversation before a question: the newest turns that are read, and messages shown of them.
_TURNS = 8
_MESSAGES = 12
_OPEN_VISITS = 20
_STEPS_BEFORE = 2
_MOST_OF_TEXT = 4_000  # characters


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
) -> types.AnswerFormDocument:
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
        "choices": [_choice_document(each, routes.get(each), graph) for each in question.options],
        "on_other": node.on_other if isinstance(node, ApprovalNode) else None,
        "form": answer_form(question, graph),
        "before": [] if node is None else _before(client, question),
        "read": [] if node is None else _read_document(client, question.run_id, node, mask),
    }


def answer_form(question: Question, graph: Graph | None) -> FormFieldDocument | None:
    """Return how pages ask for the answer to a question, if its node says so."""
    node = graph.nodes.get(question.node) if graph is not None else None
    form = node.form if isinstance(node, InputNode) else None
    return None if form is None else form_field_document(form)


def _choice_document(answer: str, to: str | None, graph: Graph | None) -> types.ChoiceDocument:
    exits = {each.target for each in graph.nodes[to].exits()} if graph and to else set()
    return {"answer": answer, "to": to, "then": exits.pop() if len(exits) == 1 else None}


def _before(client: Client, question: Question) -> list[list[str]]:
    start = max(1, question.visit.step - _STEPS_BEFORE)
    return [list(each.nodes) for each in client.queries.checkpoints(question.run_id, start)]


def route_of(question: Question, graph: Graph | None, answer: str) -> str | None:
    """Return the node that an answer leads to, if its node has routes."""
    node = graph.nodes.get(question.node) if graph is not None else None
    return node.routes.get(answer, node.on_other) if isinstance(node, ApprovalNode) else None


def _read_document(
    client: Client, run_id: str, node: Node, mask: Callable[[Any], Any]
) -> list[KeyedExcerptDocument]:
    """Return the values of the state that the text of a question was made of."""
    keys = {each.key for each in state_reads(node) if each.field[0] != STATE_UPDATES}
    values = client.queries.state_values(run_id, sorted(keys)) if keys else {}
    return [{"key": key, **excerpt(mask(values[key]), _MOST_OF_VALUE)} for key in values]


def context_document(
    client: Client, question: Question, mask: Callable[[Any], Any]
) -> types.ContextDocument:
    """Return what the run was asked, and the newest messages before a model's question.

    Args:
        mask: hides secrets in JSON; called before texts are cut, which could leave a part of one.
    """
    run = client.queries.run(question.run_id)
    prompt = client.queries.state_values(run.run_id, [PROMPT])[PROMPT]
    messages: list[Mapping[str, Any]] = []
    if run.context.converses:
        step = question.visit.step
        keys = [turn_key(turn) for turn in range(max(1, step - _TURNS), step)]
        turns = client.queries.state_values(run.run_id, keys) if keys else {}
        messages = [message for turn in turns.values() if turn for message in turn]
    messages += _of_attempt(client.queries.turns(run.run_id, question.visit))
    return {
        "prompt": excerpt(mask(prompt), _MOST_OF_TEXT) if isinstance(prompt, str) else None,
        **_newest(messages, mask),
    }


def under_way_document(
    client: Client, run: Run, mask: Callable[[Any], Any]
) -> types.UnderWayDocument:
    """Return the newest messages of each open visit, as far as they are recorded.

    Args:
        mask: hides secrets in JSON, as above.
    """
    found = {
        node: _of_attempt(client.queries.turns(run.run_id, VisitId.of(run.step, node)))
        for node in run.frontier[:_OPEN_VISITS]
    }
    return {
        "visits": [
            {"node": node, **_newest(messages, mask)}
            for node, messages in found.items()
            if messages
        ]
    }


def _newest(
    messages: Sequence[Mapping[str, Any]], mask: Callable[[Any], Any]
) -> types.MessagesDocument:
    told = [message for message in messages if message["role"] != "system"]
    return {
        "left_out": max(0, len(told) - _MESSAGES),
        "messages": [_message_document(mask(message)) for message in told[-_MESSAGES:]],
    }


def _of_attempt(entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages of the open visit's attempt, as far as they are recorded."""
    messages: list[Mapping[str, Any]] = []
    for entry in entries:
        if "attempt" in entry:
            messages.clear()
        elif "reply" in entry:
            messages.append(entry["reply"])
        elif "result" in entry and entry["turn"]:
            messages.append({"role": "tool", "content": entry["result"]})
    return messages


def _message_document(message: Mapping[str, Any]) -> types.MessageDocument:
    content = message.get("content")
    return {
        "role": message["role"],
        **excerpt("" if content is None else content, _MOST_OF_TEXT),
        "calls": list(_calls_of(message)),
    }


def _calls_of(message: Mapping[str, Any]) -> Iterator[str]:
    for call in message.get("tool_calls") or ():
        arguments = call["function"]["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield f"{call['function']['name']} {text[:_MOST_OF_TEXT]}"


def answered_document(client: Client, run: Run, place: str) -> types.AnsweredDocument | None:
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
