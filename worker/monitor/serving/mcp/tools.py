"""Agents as tools: what a client is told of each, and what becomes of its arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mcp_types import Tool

from sleipnir.graphs.document.loader import Agent, load_agent
from sleipnir.graphs.errors import InvalidAgent
from sleipnir.graphs.normal_agent import NormalAgent
from sleipnir.graphs.schema import FormField, Graph, Variable
from sleipnir.scheduler.runs.conversation.sessions import TEMPORARY
from sleipnir.scheduler.views.submission import WantedRun
from sleipnir.worker.monitor.serving.agents import ServedAgents
from sleipnir.worker.monitor.serving.mcp.outputs import output_schema

RUN_RESULT = "run_result"
PROMPT = "prompt"
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 128
_TYPES = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}

RUN_RESULT_TOOL = Tool(
    name=RUN_RESULT,
    description="Wait for a run that another tool has started, and return its result. If the run "
    "asks a question, pass the answer.",
    input_schema={
        "type": "object",
        "properties": {
            "run_id": {"type": "string", "description": "the run's id"},
            "answer": {"type": "string", "description": "the answer to its question, if it asks"},
        },
        "required": ["run_id"],
    },
)


def agents_by_tool(names: Iterable[str]) -> dict[str, str]:
    """Return the name of each agent by that of its tool.

    Characters that a tool's name must not have are replaced; of names that become equal, later ones
    get a number.
    """
    found: dict[str, str] = {RUN_RESULT: ""}
    for name in names:
        plain = _OTHER.sub("_", name)[:_LONGEST_NAME]
        tool, number = plain, 1
        while tool in found:
            number += 1
            tool = f"{plain[: _LONGEST_NAME - 4]}_{number}"
        found[tool] = name
    del found[RUN_RESULT]
    return found


def tools_of(agents: ServedAgents) -> list[Tool]:
    """Return a tool for each agent that is valid."""
    directories = agents.directories()
    found = []
    for tool, name in agents_by_tool(directories).items():
        agent = _loaded(directories[name])
        if agent is not None:
            found.append(_tool(tool, agent))
    return found


def promises_object(agents: ServedAgents, name: str) -> bool:
    """Return whether the tool of an agent says of what form its result is."""
    directory = agents.directories().get(name)
    agent = None if directory is None else _loaded(directory)
    return agent is not None and output_schema(agent) is not None


def wanted_run(agents: ServedAgents, tool: str, arguments: Mapping[str, Any]) -> WantedRun | None:
    """Return the run that a call wants, without its user; None if there is no such tool.

    Arguments that the agent does not know are ignored.
    """
    directories = agents.directories()
    name = agents_by_tool(directories).get(tool)
    agent = None if name is None else _loaded(directories[name])
    if name is None or agent is None:
        return None
    defined = _defined(agent)
    variables = {each.name for each in _asked(defined)}
    state = set(_state(defined)) - variables
    prompt = arguments.get(PROMPT, "")
    return WantedRun(
        agent=name,
        prompt=prompt if isinstance(prompt, str) else str(prompt),
        state={key: value for key, value in arguments.items() if key in state},
        variables={key: str(value) for key, value in arguments.items() if key in variables},
        session=TEMPORARY,
    )


def _loaded(directory: Path) -> Agent | None:
    try:
        return load_agent(directory, os.environ)
    except InvalidAgent:
        return None


def _defined(agent: Agent) -> Graph | NormalAgent:
    defined = agent.graph or agent.normal
    assert defined is not None, "an agent that was loaded is one or the other"
    return defined


def _asked(defined: Graph | NormalAgent) -> list[Variable]:
    """Return the variables that a client is asked for; secrets are the server's own."""
    return [each for each in defined.variables if not each.secret and each.name != PROMPT]


def _state(defined: Graph | NormalAgent) -> Mapping[str, Any]:
    initial = defined.initial_state if isinstance(defined, Graph) else {}
    return {key: value for key, value in initial.items() if key != PROMPT}


def _tool(name: str, agent: Agent) -> Tool:
    defined = _defined(agent)
    properties: dict[str, Any] = {PROMPT: {"type": "string", "description": "what it is to do"}}
    for key, value in _state(defined).items():
        kind = _TYPES.get(type(value))
        properties[key] = {
            **({} if kind is None else {"type": kind, "default": value}),
            **_of_form(defined.form.get(key)),
        }
    variables = _asked(defined)
    for variable in variables:
        default = {} if variable.default is None else {"default": str(variable.default)}
        described = {"type": "string", "description": variable.description, **default}
        properties[variable.name] = described | _of_form(defined.form.get(variable.name))
    required = [each.name for each in variables if each.default is None]
    if isinstance(defined, NormalAgent):
        required.append(PROMPT)
    schema = {"type": "object", "properties": properties, "required": required}
    return Tool(
        name=name,
        description=defined.description,
        input_schema=schema,
        output_schema=output_schema(agent),
    )


def _of_form(field: FormField | None) -> dict[str, Any]:
    if field is None:
        return {}
    told = {"title": field.title, "enum": field.enum}
    return {name: value for name, value in told.items() if value is not None}
