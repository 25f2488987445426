"""The graph of a build: what a run does that makes the index of a knowledge base.

A build is a run of an agent of its own, whose graph is the one below and whose nodes only this
module can make. So it is listed, cancelled, limited, paid for and taken over by other workers like
any run, and the engine knows nothing of it but a node type:

    load ──► embed (a map: one invocation a batch) ──► assemble ──► end
      └────────────── nothing to embed ──────────────────▲

- `load` reads pages (a worker may; local files were read where the agent is, and are kept in Redis
  until the build is over), cuts all documents into chunks, works out the index's address, and makes
  batches of the chunks that have no vector yet. Where the index is there already, the run ends.
- `embed` asks the model for the vectors of one batch and keeps them at once, by model and text:
  whoever comes to the same text later, another try of this visit or another build, does not ask.
- `assemble` makes the index of chunks and vectors and stores it: the parts first, then the record
  that others find it by. It goes back to `load` if a vector has meanwhile expired.

One build goes on at a time for an address: its run holds a claim on it, which is void when the
run is over. A run that needs the index starts the build as a child of the node's visit and parks on
it as it would on any child; others that come to need it meanwhile rest.
"""

from __future__ import annotations

import json
from typing import Any

from sleipnir.graphs.bundles.archive import Bundle, Part, pack
from sleipnir.graphs.bundles.layout import MANIFEST
from sleipnir.graphs.schema import BuildNode, EndNode, Graph, MapNode

# In the manifest of its bundle, beside the name every agent has.
BUILD_AGENT = "knowledge-build"
# Invocations at once: limits and workers bound it further.
_BATCHES_AT_ONCE = 16

ORDER = "order"  # the key of its state that says what to build
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
    "assemble": BuildNode(stage="assemble", next="end"),
    "end": EndNode(output=f"{{{{{RESULT}}}}}"),
}
BUILD_GRAPH = Graph(
    name=BUILD_AGENT,
    description="Builds the index of a knowledge base.",
    start="load",
    nodes=_NODES,
)


def build_bundle() -> Bundle:
    """The bundle of every build; the same for all of them."""
    manifest = json.dumps({"agent": BUILD_AGENT, "aliases": {}, "graph": BUILD_AGENT})
    return pack([Part(MANIFEST, manifest.encode())])
