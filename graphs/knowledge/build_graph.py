"""The graph of a build: how a run makes the index of a knowledge base.

A build is a run of an agent of its own, with the graph below and nodes that only this module
creates. So it is listed, cancelled, limited, paid for and taken over by other workers like any run;
the engine only knows one more node type:

    load ──► embed (a map: one invocation a batch) ──► assemble ──► tidy ──► end
      ├────────────── nothing to embed ──────────────────▲          ▲
      └────────────── the index is there ───────────────────────────┘

- `load` reads pages (local files were read on the agent's machine, and are kept in Redis until the
  build is over), cuts all documents into chunks, computes the index's address, and makes batches of
  the chunks that have no vector yet. If the index exists already, only `tidy` is left to do.
- `embed` asks the model for the vectors of one batch and stores them at once, by model and text:
  another try of the visit, or another build, need not ask for the same text again.
- `assemble` makes the index from chunks and vectors and stores it: first its parts, then the record
  by which others find it. It goes back to `load` if a vector has expired meanwhile.
- `tidy` removes what the other stages have passed on. They do not: if a worker dies before it
  commits a stage, the next worker needs the same input again.

Only one build of an address runs at a time: its run holds a claim, which is void when the run is
over. A run that needs the index starts the build as a child of the node's visit and parks on it as
on any child; other visits that need it meanwhile are deferred.
"""

from __future__ import annotations

import json
from typing import Any

from sleipnir.graphs.bundles.archive import Bundle, Part, pack
from sleipnir.graphs.bundles.layout import MANIFEST
from sleipnir.graphs.schema import BuildNode, EndNode, Graph, MapNode

# In the manifest of its bundle, in addition to the agent's name.
BUILD_AGENT = "knowledge-build"
# Concurrent invocations; limits and workers bound them further.
_BATCHES_AT_ONCE = 16

ORDER = "order"  # key of its state that says what to build
BATCH = "batch"
RESULT = "built"


# Not all of them are nodes of the language.
_NODES: dict[str, Any] = {
    "load": BuildNode(stage="load", next="embed"),
    "embed": MapNode(
        over="{{batches}}",
        item_name=BATCH,
        branch="embed_batch",
        collect_into="embedded",
        max_concurrency=_BATCHES_AT_ONCE,
        next="assemble",
    ),
    "embed_batch": BuildNode(stage="embed"),
    "assemble": BuildNode(stage="assemble", next="tidy"),
    "tidy": BuildNode(stage="tidy", next="end"),
    "end": EndNode(output=f"{{{{{RESULT}}}}}"),
}
BUILD_GRAPH = Graph(
    name=BUILD_AGENT,
    description="Builds the index of a knowledge base.",
    start="load",
    nodes=_NODES,
)


def build_bundle() -> Bundle:
    """Return the bundle of a build, which is the same for all builds."""
    manifest = json.dumps({"agent": BUILD_AGENT, "aliases": {}, "graph": BUILD_AGENT})
    return pack([Part(MANIFEST, manifest.encode())])
