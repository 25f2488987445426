"""The keys of a line's input that an agent would use."""

from __future__ import annotations

from pathlib import Path

from sleipnir.graphs.dataflow import state_reads
from sleipnir.graphs.normal_agent import is_normal
from sleipnir.graphs.schema import Graph, ScriptNode
from sleipnir.graphs.state import PROMPT_KEY
from sleipnir.graphs.validator.scripts import words_of_scripts


def known_keys(graph: Graph, directory: Path) -> frozenset[str]:
    """Return the keys that the graph seeds, writes or reads, and all words of its scripts."""
    if is_normal(graph):
        return frozenset({PROMPT_KEY})
    keys = {*graph.initial_state, *graph.reducers}
    keys.update(variable.name for variable in graph.variables)
    for node in graph.nodes.values():
        keys.update(node.written_keys())
        keys.update(read.key for read in state_reads(node))
    if any(graph.nodes_of(ScriptNode)):
        keys.add("prompt")  # a script may use the state as a whole
    return frozenset(keys | words_of_scripts(directory, graph))
