"""Asks the person at the terminal for the settings to build a knowledge base."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from sleipnir.graphs.knowledge.bases import DescribedBase
from sleipnir.graphs.knowledge.build_settings import (
    KEYWORDS_ONLY,
    LOCAL,
    LOCAL_MISSING,
    LOCAL_REMEDY,
    Incomplete,
    effective,
    wanted,
)
from sleipnir.graphs.models import is_known_model
from sleipnir.scheduler.cli.prompts import ask_for_consent
from sleipnir.scheduler.cli.terminal import is_terminal, read_line, show
from sleipnir.scheduler.config.settings import Settings

_CHUNK_SIZE = 1000
_OVERLAP_SHARE = 20  # the overlap is a 20th of a chunk
_QUESTIONS = {
    "embedding_model": "embedding model (provider:model, local, or none for keywords only)",
    "chunk_size": "longest chunk, characters",
    "chunk_overlap": "overlap of chunks, characters",
}


class _NotAccepted(Exception):
    """The input is invalid; the text says why."""


class BuildQuestions:
    """Asks about each knowledge base once; implements `ChooseBuild`.

    Args:
        providers: as for `choose_build`.
    """

    def __init__(self, providers: Collection[str]) -> None:
        self._providers = providers
        self._answers: dict[tuple[str, str], dict[str, Any] | None] = {}
        self._left_out: dict[tuple[Any, ...], bool] = {}

    def __call__(
        self, agent: str, base: DescribedBase, defaults: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        name = agent, base.node_id
        if name not in self._answers:
            self._answers[name] = choose_build(self._providers, agent, base, defaults)
        return self._answers[name]

    def leaves_out(
        self, agent: str, base: DescribedBase, failures: Sequence[tuple[str, str]]
    ) -> bool:
        """Return whether the person agrees to continue without unreadable documents."""
        name = agent, base.node_id, *failures
        if name not in self._left_out:
            self._left_out[name] = leaves_out(failures)
        return self._left_out[name]


def questions_here(settings: Settings) -> BuildQuestions | None:
    """Return the questions for the person at this terminal, or None without one."""
    return BuildQuestions(settings.models.own_providers) if is_terminal() else None


def leaves_out(failures: Sequence[tuple[str, str]]) -> bool:
    """Ask whether to build without documents, given as (source, reason) pairs."""
    for source, why in failures:
        show(f"{source}: {why}\n")
    show("Build without these documents? [y/N] > ")
    return read_line().strip().lower() in ("y", "yes")


def choose_build(
    providers: Collection[str], agent: str, base: DescribedBase, defaults: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Ask for the missing settings to build a knowledge base; None: don't build it.

    Args:
        providers: additional providers of embedding models.
        defaults: the settings that apply if its node has none.

    Raises:
        EOFError: the person pressed Ctrl-D.
    """
    show(f"? the knowledge base '{base.node_id}' of agent '{agent}' is not built; build it now?\n")
    if ask_for_consent(show, read_line, default="yes") != "yes":
        return None
    chosen: dict[str, Any] = {}
    while True:
        found = effective(base.node, {**defaults, **chosen})
        if not isinstance(found, Incomplete) or not found.missing:
            return chosen
        field = found.missing[0]
        chosen[field] = _ask(field, wanted(base.node, {**defaults, **chosen}), providers)


def _ask(field: str, known: Mapping[str, Any], providers: Collection[str]) -> str | int:
    """Ask for a field's value; an empty line means the default."""
    default = _default(field, known)
    while True:
        show(f"{_QUESTIONS[field]} [default: {default}] > ")
        text = read_line().strip() or str(default)
        try:
            return _model(text, providers) if field == "embedding_model" else _size(text, known)
        except _NotAccepted as error:
            show(f"  {error}\n")


def _default(field: str, known: Mapping[str, Any]) -> str | int:
    if field == "embedding_model":
        return KEYWORDS_ONLY
    if field == "chunk_size":
        return max(_CHUNK_SIZE, (known["chunk_overlap"] or 0) + 1)
    return int(known["chunk_size"]) // _OVERLAP_SHARE


def _model(text: str, providers: Collection[str]) -> str:
    if text == LOCAL and find_spec("wordllama") is None:
        raise _NotAccepted(f"{LOCAL_MISSING}: {LOCAL_REMEDY}")
    if text not in (LOCAL, KEYWORDS_ONLY) and not is_known_model(text, providers):
        raise _NotAccepted(
            f"unknown model '{text}'; one is provider:model, as in openai:text-embedding-3-small"
        )
    return text


def _size(text: str, known: Mapping[str, Any]) -> int:
    """Parse a chunk's size or overlap, whichever is not known yet."""
    if not text.isdecimal():
        raise _NotAccepted("a whole number of characters")
    size = int(text)
    longest, overlap = known["chunk_size"], known["chunk_overlap"]
    if longest is None and size <= (overlap or 0):
        raise _NotAccepted(f"more than {overlap or 0} characters")
    if longest is not None and size >= longest:
        raise _NotAccepted(f"less than a chunk, {longest} characters")
    return size
