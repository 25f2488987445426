"""What a run needs to know about a node's knowledge base; part of its bundle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.knowledge.build_settings import BuildSettings
from sleipnir.records import dataclass

PLAN_FILE = "knowledge.json"


@dataclass(frozen=True, slots=True)
class KnowledgePlan:
    """The knowledge base of one node, as it was when its run was submitted."""

    settings: BuildSettings
    top_k: int
    address: str | None  # of the index built; None: build it from the documents
    reranker_model: str | None = None  # None: ranks are fused
    template: str | None = None  # of a normal agent's user messages; None: the shipped one
    without: tuple[str, ...] = ()  # unreadable sources that the user agreed to leave out
    absolute: bool = False  # whether its machine lets documents be anywhere

    def to_json(self) -> dict[str, Any]:
        return {
            "settings": self.settings.to_json(),
            "top_k": self.top_k,
            "address": self.address,
            "reranker_model": self.reranker_model,
            "template": self.template,
            "without": self.without,
            "absolute": self.absolute,
        }


def documents_file(node: str) -> str:
    """Return the path, in a bundle, of documents that only the submitting machine can read."""
    return f"documents/{node}.jsonl"


def plans_text(plans: Mapping[str, KnowledgePlan]) -> bytes:
    """Encode the plans by node id, as a bundle contains them."""
    return (json.dumps({node: plan.to_json() for node, plan in plans.items()}) + "\n").encode()


def read_plans(root: Path) -> dict[str, KnowledgePlan]:
    """Return the plans in an unpacked bundle; none if it was packed without.

    Raises:
        BundleError: they cannot be read.
    """
    try:
        found = json.loads((root / PLAN_FILE).read_bytes())
        return {
            node: KnowledgePlan(
                **{
                    **plan,
                    "settings": BuildSettings(**plan["settings"]),
                    "without": tuple(plan.get("without", ())),
                }
            )
            for node, plan in found.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"the bundle has no usable {PLAN_FILE}: {error}") from error
