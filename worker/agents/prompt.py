"""The prompt of a normal agent: its instructions, rendered once and kept for all turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.conversation.memory import INSTRUCTIONS, PROMPT, SOURCES, SUMMARY
from sleipnir.scheduler.runs.conversation.rendering import render
from sleipnir.scheduler.runs.submit import AGENTS_FACT
from sleipnir.worker.agents.documents import search_documents
from sleipnir.worker.agents.texts import sections
from sleipnir.worker.conversation.tool_set import Toolset
from sleipnir.worker.conversation.transcript import Transcript
from sleipnir.worker.llm.client import Message
from sleipnir.worker.tools.call import Completed, NeedsConfirmation
from sleipnir.worker.tools.result import DONE
from sleipnir.worker.visit.context import Visit

_INSTRUCTIONS = "_instructions"


class Opening(NamedTuple):
    """The beginning of a conversation, and what the run keeps of it besides."""

    messages: list[Message]  # the prompt, if any, and the user's message
    writes: dict[str, Any]
    warnings: Sequence[str]


def opening(visit: Visit[TurnNode], toolset: Toolset, transcript: Transcript) -> Opening:
    """Make the beginning of a conversation.

    Raises:
        NodeFailed: R602, `_instructions` failed or returned nothing.
        KnowledgeFailed: its knowledge base must be built first, or cannot be searched.
    """
    config, writes = visit.node.config, dict[str, Any]()
    text = config.instructions
    if config.dynamic_instructions:
        text = _dynamic(visit, transcript)
        if visit.context.session is not None:
            writes[INSTRUCTIONS] = text  # the session's next runs do not call it again
    spoken = sections(config, is_child=visit.context.depth > 0) if toolset.tools else ()
    rendered = render("\n\n".join([text, *spoken]), _values(visit, toolset)).strip()
    if SUMMARY in visit.state:
        rendered = f"{rendered}\n\n{visit.state[SUMMARY]}".strip()
    system = [{"role": "system", "content": rendered}] if rendered else []
    searched = search_documents(visit, transcript, visit.state[PROMPT])
    if "sources" in searched:
        writes[SOURCES] = searched["sources"]
    asked = {"role": "user", "content": searched["message"]}
    return Opening([*system, asked], writes, searched.get("warnings", ()))


def _values(visit: Visit[TurnNode], toolset: Toolset) -> dict[str, str]:
    return {
        **visit.context.facts,
        AGENTS_FACT: "\n".join(_startable(visit)),
        "__cwd__": str(visit.workdir()),
        "__tools__": "\n".join(_listed(toolset)),
        **visit.context.variables,
    }


def _startable(visit: Visit[TurnNode]) -> Iterable[str]:
    """Yield the line of each agent that this one may start."""
    permitted = visit.node.config.spawnable_agents
    for line in visit.context.facts.get(AGENTS_FACT, "").splitlines():
        name = line.removeprefix("- ").partition(": ")[0]
        if permitted is None or name in permitted:
            yield line


def _listed(toolset: Toolset) -> Iterable[str]:
    """Yield one line per function."""
    for number, declaration in enumerate(toolset.declarations, 1):
        function = declaration["function"]
        first_line = str(function.get("description", "")).strip().partition("\n")[0]
        yield f"{number}. {function['name']}: {first_line}"


def _dynamic(visit: Visit[TurnNode], transcript: Transcript) -> str:
    """Return the result of `_instructions`, called once, however often the turn is begun."""
    if INSTRUCTIONS in visit.state:
        return str(visit.state[INSTRUCTIONS])
    known, value = transcript.result_of(_INSTRUCTIONS)
    if not known:
        value = text_of_instructions(visit.services.tools.make_instructions(visit))
        transcript.keep_result(_INSTRUCTIONS, value, None)
    return str(value)


def text_of_instructions(outcome: Completed | NeedsConfirmation) -> str:
    """Return the text that `_instructions` has returned; other values are shown as JSON.

    Raises:
        NodeFailed: R602, it failed or returned nothing.
    """
    if isinstance(outcome, NeedsConfirmation):
        raise NodeFailed("R602", f"{_INSTRUCTIONS} asked a question: {outcome.question}")
    value = outcome.value
    if isinstance(value, Mapping):
        if "tool_call_error" in value:
            said = str(value.get("stderr", "")).strip()
            reason = f"{value['tool_call_error']}{f': {said}' if said else ''}"
            raise NodeFailed("R602", f"the instructions could not be generated: {reason}")
        value = value["output"] if value.keys() == {"output"} else value
    text = value if isinstance(value, str) else encode(value)
    if text == DONE or not text.strip():
        raise NodeFailed("R602", f"{_INSTRUCTIONS} returned no instructions")
    return text
