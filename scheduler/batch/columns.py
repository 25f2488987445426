"""Which columns of a CSV file an agent would notice."""

from __future__ import annotations

from pathlib import Path

from sleipnir.graphs.dataflow import declared_writes, state_reads
from sleipnir.graphs.schema import Graph
from sleipnir.graphs.validator.scripts import words_of_scripts


def known_columns(graph: Graph, directory: Path) -> frozenset[str]:
    """Keys that the graph seeds, writes or names in a template, or that a script's text names."""
    keys = {*graph.initial_state, *graph.reducers}
    keys.update(variable.name for variable in graph.variables)
    for node in graph.nodes.values():
        keys.update(declared_writes(node))
        keys.update(read.key for read in state_reads(node))
    return frozenset(keys | words_of_scripts(directory, graph))
