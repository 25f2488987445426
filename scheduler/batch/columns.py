"""The CSV columns that an agent would use."""

from __future__ import annotations

from pathlib import Path

from sleipnir.graphs.dataflow import declared_writes, state_reads
from sleipnir.graphs.schema import Graph
from sleipnir.graphs.validator.scripts import words_of_scripts


def known_columns(graph: Graph, directory: Path) -> frozenset[str]:
    """Return the keys that the graph seeds, writes or reads, and all words of its scripts."""
    keys = {*graph.initial_state, *graph.reducers}
    keys.update(variable.name for variable in graph.variables)
    for node in graph.nodes.values():
        keys.update(declared_writes(node))
        keys.update(read.key for read in state_reads(node))
    return frozenset(keys | words_of_scripts(directory, graph))
