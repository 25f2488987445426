"""Masks what nobody may see: secrets of a run and of its agent's files, this machine's keys."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from sleipnir.graphs.bundles.layout import agent_directory
from sleipnir.graphs.errors import BundleError
from sleipnir.worker.bundle_secrets import bundle_secrets
from sleipnir.worker.masking import mask_json, masker

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.model import Run

T = TypeVar("T")

_MOST_AGENTS = 512


class Masks:
    """Masks what belongs to runs. The secrets of an agent are read once, as its files are fixed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._of_bundle = lru_cache(maxsize=_MOST_AGENTS)(self._read)

    def masked(self, value: Any, run: Run) -> Any:
        """Mask secrets in JSON of any depth."""
        secrets = [run.context.variables.get(name, "") for name in run.context.secrets]
        secrets += self._of_bundle(run.digest, run.agent)
        # Cached, as documents with many rows repeat the same texts.
        return mask_json(value, cache(masker(secrets)))

    def _read(self, digest: str, agent: str) -> tuple[str, ...]:
        try:
            with self._client.unpacked(digest, agent) as root:
                return bundle_secrets(root, agent_directory(root))
        except BundleError:  # no longer stored, or of the engine itself
            return ()


def masked_texts(value: T) -> T:
    """Mask secrets in texts that belong to no run."""
    found: T = mask_json(value, cache(masker(())))
    return found
