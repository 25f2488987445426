"""Masks what nobody may see: secrets of a run and of its agent's files, this machine's keys."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeVar

from sleipnir.graphs.bundles.layout import agent_directory
from sleipnir.graphs.errors import BundleError
from sleipnir.scheduler.config.bundle_secrets import bundle_secrets
from sleipnir.scheduler.config.masking import mask_json, masker

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

    def masked(self, value: T, run: Run) -> T:
        """Mask secrets in JSON of any depth."""
        secrets = [run.context.variables.get(name, "") for name in run.context.secrets]
        return _masked(value, (*secrets, *self._of_version(run.digest, run.agent)))

    def of_version(self, value: T, digest: str | None, agent: str) -> T:
        """Mask secrets in JSON about a version of an agent; None: it cannot be run."""
        return _masked(value, () if digest is None else self._of_version(digest, agent))

    def _of_version(self, digest: str, agent: str) -> tuple[str, ...]:
        try:
            return self._of_bundle(digest, agent)
        except BundleError:  # not stored now, or of the engine itself
            return ()

    def _read(self, digest: str, agent: str) -> tuple[str, ...]:
        with self._client.unpacked(digest, agent) as root:
            return bundle_secrets(root, agent_directory(root))


def masked_texts(value: T) -> T:
    """Mask secrets in texts that belong to no run."""
    return _masked(value, ())


def _masked(value: T, secrets: Iterable[str]) -> T:
    # Cached, as documents with many rows repeat the same texts.
    found: T = mask_json(value, cache(masker(secrets)))
    return found
