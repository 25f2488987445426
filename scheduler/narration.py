"""A run's events as the lines people read.

Events are written by the transitions and by `worker.commit`:
    submitted  agent, start [id, type], warnings
    step       step, from [{id, to, failure}], next [[id, type]], dropped, warnings
    llm_call   node, model, tools, source if it is no model
    output     node, tool, text: what a tool prints
    tool       node, tool, ms, failure
    retry      node, attempt, of, delay_s, reason
    wait       node, delay_s, reason
    child      node, agent, run_id
    item       map, index, done, total, failure, warnings
    question   node, text, options, default
    answered   node
    ended      status, error (JSON text or empty), elapsed_ms
Beside them, in a stream of their own that nobody reads twice:
    speech     node, index of a map's item, text
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from graphs.state import encode
from scheduler.run import Event

_WIDTH = 120

# Characters of a text and items of a list that are left of an event that is too large, in turn.
_CUTS = ((1_000, 100), (200, 20), (50, 5), (20, 1))


def event_text(event: Mapping[str, Any], limit_bytes: int) -> str:
    """An event as it is stored; long texts and lists are cut where it would be over the limit."""
    text = encode(event)
    for characters, items in _CUTS:
        if 4 * len(text) <= limit_bytes or len(text.encode()) <= limit_bytes:
            break
        text = encode(_cut(event, characters, items))
    return text


def _cut(value: Any, characters: int, items: int) -> Any:
    match value:
        case str():
            return value if len(value) <= characters else value[:characters] + "…"
        case Mapping():
            return {key: _cut(part, characters, items) for key, part in value.items()}
        case list() | tuple():
            return [_cut(part, characters, items) for part in value[:items]]
        case _:
            return value


def render(event: Event) -> list[str]:
    """The lines of one event, none longer than 120 characters; none for unknown kinds."""
    writer = _WRITERS.get(event.kind)
    if writer is None:
        return []
    return [_fitting(f"▸ {line}") for line in writer(event.fields)]


def _submitted(fields: Mapping[str, Any]) -> Iterator[str]:
    start, node_type = fields["start"]
    yield f"graph: {fields['agent']} (start: {start})"
    for warning in fields["warnings"]:
        yield f"warning {warning}"
    yield f"{start} ({node_type})"


def _step(fields: Mapping[str, Any]) -> Iterator[str]:
    branches, following = fields["from"], fields["next"]
    for branch in branches:
        if branch["failure"] is not None:
            yield f"{branch['id']} failed, going to {', '.join(branch['to'])}: {branch['failure']}"
    for warning in fields["warnings"]:
        yield f"warning {warning}"
    for route in fields["dropped"]:
        yield f"warning route {route} was dropped, an end node finished"
    targets = ", ".join(node for node, _ in following)
    if len(branches) == 1 and branches[0]["failure"] is None and targets:
        yield f"{branches[0]['id']} -> {targets}"
    elif len(branches) > 1 and targets:
        yield f"super-step done -> {targets}"
    if len(following) > 1:
        yield f"super-step: {targets}"
    indent = "  " if len(following) > 1 else ""
    for node, node_type in following:
        yield f"{indent}{node} ({node_type})"


def _llm_call(fields: Mapping[str, Any]) -> Iterator[str]:
    tools = ",".join(fields["tools"]) or "<none>"
    source = f" ({fields['source']})" if "source" in fields else ""
    yield f"  llm call: model={fields['model']} tools={tools}{source}"


def _retry(fields: Mapping[str, Any]) -> Iterator[str]:
    count = f"{fields['attempt']}/{fields['of']}"
    yield f"  retry {count} in {fields['delay_s']:.1f}s: {fields['reason']}"


def _output(fields: Mapping[str, Any]) -> Iterator[str]:
    yield f"    {fields['text']}"


def _tool(fields: Mapping[str, Any]) -> Iterator[str]:
    how = f"failed: {fields['failure']}" if fields["failure"] else f"{fields['ms']}ms"
    yield f"  tool {fields['tool']}: {how}"


def _wait(fields: Mapping[str, Any]) -> Iterator[str]:
    # Events of earlier versions do not say.
    until = "for a person" if fields.get("for_person") else f"{fields['delay_s']:.1f}s"
    yield f"  waiting {until}: {fields['reason']}"


def _child(fields: Mapping[str, Any]) -> Iterator[str]:
    yield f"  agent {fields['agent']}: run {fields['run_id']}"


def _item(fields: Mapping[str, Any]) -> Iterator[str]:
    for warning in fields["warnings"]:
        yield f"warning {warning}"
    if fields["failure"] is not None:
        yield f"  {fields['map']} item [{fields['index']}] failed: {fields['failure']}"
    yield f"  {fields['map']} [{fields['done']}/{fields['total']}] done"


def _question(fields: Mapping[str, Any]) -> Iterator[str]:
    yield f"{fields['node']} waiting: {(fields['text'].splitlines() or [''])[0]}"


def _answered(fields: Mapping[str, Any]) -> Iterator[str]:
    yield f"{fields['node']} answered"


def _ended(fields: Mapping[str, Any]) -> Iterator[str]:
    elapsed = f"{fields['elapsed_ms'] / 1000:.2f}s"
    if fields["status"] == "succeeded":
        yield f"graph done in {elapsed}"
        return
    error = json.loads(fields["error"]) if fields["error"] else None
    reason = ""
    if error and fields["status"] == "failed":
        place = f" at {error['node']}" if error["node"] else ""
        reason = f": {error['code']}{place}: {error['message']}"
    elif error:
        reason = f": {error['message']}"
    yield f"graph {fields['status'].replace('_', ' ')} in {elapsed}{reason}"


_WRITERS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "submitted": _submitted,
    "step": _step,
    "llm_call": _llm_call,
    "retry": _retry,
    "output": _output,
    "tool": _tool,
    "wait": _wait,
    "child": _child,
    "item": _item,
    "question": _question,
    "answered": _answered,
    "ended": _ended,
}


def _fitting(line: str) -> str:
    """One line: control characters escaped, cut to the width."""
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return safe if len(safe) <= _WIDTH else safe[: _WIDTH - 1] + "…"
