"""The graphs that are measured: their nodes do nothing, so that only the engine is measured."""

from __future__ import annotations

from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import yaml

# Model providers that are called directly and by way of litellm.
DIRECT, BY_LITELLM = "openai", "cerebras"
PAUSE_MS = 20
LONG_PAUSE_MS = 200
PAUSE, LONG_PAUSE = "pause.sh", "long-pause.sh"
# A model simulated by engine_worker; the number of its turns is appended.
TALKER = "openai:turns-"
TURNS, MANY_TURNS = 100, 500
# A simulated model that starts and collects as many agents as appended, AT_ONCE per reply.
LEADER = "openai:leads-"
AT_ONCE, LED, MANY_LED = 100, 100, 200
FOLLOWER = "talker-1"
# A simulated model that asks a person in its last turn.
ASKING = "openai:asks-"
ASKER, ASKING_TURN = "asker", 3
# A simulated model that replies with about so many bytes of English text; the number is appended.
TELLING = "openai:tells-"
REPLIES, REPLY_BYTES, PROMPT_BYTES = 6, 2_000, 1_000
# Scripts that engine_worker does not run; it pauses instead.
PAUSES_MS = {PAUSE: PAUSE_MS, LONG_PAUSE: LONG_PAUSE_MS}
# One that it does run: it decides where a run goes.
DECIDES = "decides.sh"


def nothing(number: int, **more: Any) -> dict[str, Any]:
    """Return a node that only commits a value: a map over an empty list."""
    return {
        "type": "map",
        "over": "{{none}}",
        "as": "item",
        "branch": "branch",
        "collect_into": f"result_{number}",
        **more,
    }


def _graph(name: str, nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "start": next(iter(nodes)),
        "initial_state": {"none": []},
        "nodes": {**nodes, "branch": {"type": "script", "script": "nothing.sh"}},
        **more,
    }


def linear(length: int) -> dict[str, Any]:
    """Return a graph of `length` nodes in a row and an end node."""
    nodes = {
        f"n{i}": nothing(i, next=f"n{i + 1}" if i + 1 < length else "done") for i in range(length)
    }
    return _graph(f"linear-{length}", {**nodes, "done": {"type": "end"}})


def ending() -> dict[str, Any]:
    """Return a graph whose run ends with its first visit."""
    return _graph("ending", {"done": {"type": "end"}})


def fan_out(width: int) -> dict[str, Any]:
    """Return a graph with one node, `width` branches and one join."""
    branches = {f"b{i}": nothing(i, next="join") for i in range(width)}
    nodes = {
        "fan": nothing(width, next=list(branches)),
        **branches,
        "join": nothing(width + 1, next="done"),
        "done": {"type": "end"},
    }
    return _graph(f"fan-out-{width}", nodes, settings={"max_concurrency": width})


def mapped(items: int, chain: int = 1) -> dict[str, Any]:
    """Return a graph with a map over `items` items, with `chain` nodes for each."""
    node = nothing(0, next="done") | {"over": "{{items}}", "max_concurrency": 50}
    name = f"map-{items}" if chain == 1 else f"map-{items}-of-{chain}"
    graph = _graph(name, {"map": node, "done": {"type": "end"}})
    step = graph["nodes"].pop("branch")
    for number in range(chain):
        onward = {"next": _nth(number + 1)} if number + 1 < chain else {}
        graph["nodes"][_nth(number)] = {**step, **onward}
    return graph | {"initial_state": {"items": list(range(items))}}


def _nth(number: int) -> str:
    return f"branch{number or ''}"


def asking() -> dict[str, Any]:
    """Return a graph whose run parks on a person at once."""
    question = {"type": "input", "question": "What now?", "next": "done"}
    return _graph("asking", {"ask": question, "done": {"type": "end"}})


def gates() -> list[dict[str, Any]]:
    """Return graphs of one node that leads to an end: without, and with a choice of ways."""
    first = {"type": "set", "values": {"score": "0.9"}}
    threshold = [{"when": "score >= 0.8", "to": "done"}, {"to": "other"}]
    return [
        _gate("plain", {**first, "next": "done"}),
        _gate("threshold", {**first, "next": threshold}),
        _gate("script", {"type": "script", "script": DECIDES}),
    ]


def _gate(name: str, node: dict[str, Any]) -> dict[str, Any]:
    return _graph(f"gate-{name}", {"gate": node, "done": {"type": "end"}, "other": {"type": "end"}})


def pausing() -> dict[str, Any]:
    """Return a graph with a node that waits without using CPU, like one that waits for a model."""
    node = {"type": "script", "script": PAUSE, "next": "done"}
    return _graph("pausing", {"pause": node, "done": {"type": "end"}})


def pausing_steps(length: int) -> dict[str, Any]:
    """Return a graph of nodes in a row that wait, like an interactive run with some model calls."""
    nodes: dict[str, Any] = {
        f"n{i}": {
            "type": "script",
            "script": LONG_PAUSE,
            "next": f"n{i + 1}" if i + 1 < length else "done",
        }
        for i in range(length)
    }
    return _graph(f"pausing-{length}", {**nodes, "done": {"type": "end"}})


def waiting(calls: int, each_ms: int) -> dict[str, Any]:
    """Return a graph with that many concurrent calls of a slow model."""
    node = nothing(0, next="done") | {"over": "{{items}}", "max_concurrency": calls}
    graph = _graph(f"waiting-{calls}", {"map": node, "done": {"type": "end"}})
    model = f"openai:{each_ms}"
    graph["nodes"]["branch"] = {"type": "llm", "model": model, "prompt": "Item {{item}}."}
    return graph | {"initial_state": {"items": list(range(calls))}}


def _write_talker(directory: Path, turns: int) -> None:
    """Write a normal agent whose model stops after so many turns."""
    agent = directory / f"talker-{turns}"
    agent.mkdir(parents=True)
    config = {"model": f"{TALKER}{turns}", "auto_continue": True}
    (agent / "config.yaml").write_text(yaml.safe_dump(config))


def _write_asker(directory: Path) -> None:
    """Write a normal agent whose model asks a person."""
    agent = directory / ASKER
    agent.mkdir(parents=True)
    config = {"model": f"{ASKING}{ASKING_TURN}", "auto_continue": True}
    (agent / "config.yaml").write_text(yaml.safe_dump(config))


def _write_leader(directory: Path, count: int) -> None:
    """Write a normal agent that starts and collects so many others."""
    agent = directory / f"leader-{count}"
    agent.mkdir(parents=True)
    config = {
        "model": f"{LEADER}{count}",
        "can_spawn_agents": True,
        "max_concurrent_agents": count,
    }
    (agent / "config.yaml").write_text(yaml.safe_dump(config))


def asking_models() -> list[dict[str, Any]]:
    """Return graphs with one call of a model that answers at once, one per provider."""
    return [_asking_model(provider) for provider in (DIRECT, BY_LITELLM)]


def _asking_model(provider: str) -> dict[str, Any]:
    node = {"type": "llm", "model": f"{provider}:0", "prompt": "Hello.", "next": "done"}
    return _graph(f"asking-{provider}", {"ask": node, "done": {"type": "end"}})


def telling() -> dict[str, Any]:
    """Return a graph of some model calls in a row, each with a long prompt and a long reply."""
    nodes: dict[str, Any] = {
        f"n{i}": {
            "type": "llm",
            "model": f"{TELLING}{REPLY_BYTES}",
            "prompt": english(100_000 + 20_000 * i, PROMPT_BYTES),
            "state_updates": {f"reply_{i}": "{{output}}"},
            "next": f"n{i + 1}" if i + 1 < REPLIES else "done",
        }
        for i in range(REPLIES)
    }
    return _graph("telling", {**nodes, "done": {"type": "end"}})


def english(start: int, length: int) -> str:
    """Return a piece of English text, without what templates would replace."""
    text = "\n".join(topics.values()).replace("{", "(").replace("}", ")")
    return text[start : start + length]


def write_agents(directory: Path, *graphs: dict[str, Any]) -> None:
    """Write an agent directory for each graph, and the normal agents."""
    for turns in (1, TURNS, MANY_TURNS):
        _write_talker(directory, turns)
    _write_asker(directory)
    for count in (LED, MANY_LED):
        _write_leader(directory, count)
    for graph in graphs:
        agent = directory / graph["name"]
        agent.mkdir(parents=True)
        (agent / "graph.yaml").write_text(yaml.safe_dump(graph, sort_keys=False))
        for script in ("nothing.sh", *PAUSES_MS):
            (agent / script).write_text("echo '{}'\n")
        (agent / DECIDES).write_text("""echo '{"score": 0.9, "_next": "done"}'\n""")
