"""Metrics of what was done, by the exporter that spans have."""

from __future__ import annotations

from tests.integration.telemetry.test_spans import exported
from tests.support.collector import Collector, attributes_of
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, calls, says

_GRAPH = """
model: openai:gpt-4o
start: think
nodes:
  think: {type: llm, prompt: Think, tools: [look], next: end}
  end: {type: end}
"""
_TOOLS = '''
def look(what: str) -> str:
    """Look something up."""
    return what
'''


def test_durations_tokens_and_counters_are_exported(
    traced: Engine, collector: Collector, server: ModelServer
) -> None:
    server.script.add(calls(("look", {"what": "it"})), says("fine"))
    traced.submit(_GRAPH, {"tools.py": _TOOLS})
    traced.drive()

    exported(traced, collector)

    metrics = collector.metrics()
    (chats,) = metrics["gen_ai.client.operation.duration"]
    assert (chats.count, list(chats.explicit_bounds[:3])) == (2, [0.01, 0.02, 0.04])
    assert attributes_of(chats) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.model": "gpt-4o",
        "server.address": "127.0.0.1",
        "server.port": server.port,
    }
    tokens = {
        attributes_of(point)["gen_ai.token.type"]: point.sum
        for point in metrics["gen_ai.client.token.usage"]
    }
    assert tokens == {"input": 20, "output": 10}
    (run,) = metrics["gen_ai.workflow.duration"]
    assert attributes_of(run) == {"gen_ai.workflow.name": "tested"}
    (tool,) = metrics["gen_ai.execute_tool.duration"]
    assert attributes_of(tool) == {"gen_ai.tool.name": "look", "gen_ai.tool.type": "function"}
    visits = {
        attributes_of(point)["type"]: point.as_double or point.as_int
        for point in metrics["sleipnir_process_visits_total"]
    }
    assert visits == {"llm": 1, "end": 1}
    assert (
        traced.services.figures.samples().items()
        >= {
            'sleipnir_process_telemetry_dropped_total{signal="traces"}': 0,
            'sleipnir_process_telemetry_dropped_total{signal="metrics"}': 0,
        }.items()
    )
