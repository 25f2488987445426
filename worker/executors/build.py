"""The nodes of a build: see graphs/knowledge/build_graph.py."""

from __future__ import annotations

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.schema import BuildNode
from sleipnir.worker.executors.missing_knowledge import deferred_by
from sleipnir.worker.knowledge.errors import BeingBuilt, KnowledgeFailed, NotYet
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Outcome, Wrote


def run_build(visit: Visit[BuildNode]) -> Outcome:
    """Execute one stage of the build.

    Raises:
        NodeFailed: R020 if the knowledge base cannot be built.
    """
    try:
        done = visit.services.knowledge.build(visit)
    except (NotYet, BeingBuilt) as wait:
        return deferred_by(visit, wait)
    except KnowledgeFailed as error:
        raise NodeFailed("R020", visit.mask(str(error))) from error
    return Wrote(dict(done.writes), done.targets or None, done.output)
