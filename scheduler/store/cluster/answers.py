"""The answers to the commands of a pipeline, as far as they have come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from redis.exceptions import AskError, ClusterDownError, NoScriptError

from sleipnir.scheduler.store.clients.transient import is_transient
from sleipnir.scheduler.store.cluster.layout import ungrouped_reply
from sleipnir.scheduler.store.cluster.nodes import Nodes, one_slot

Queued = tuple[Sequence[Any], dict[str, Any]]  # a command, and redis-py's options


class Answers:
    """The answers by place; errors are the answers to commands that failed.

    Args:
        stack: the commands, named as on the cluster.
        texts: the scripts that they call, by their digests.
    """

    def __init__(self, stack: Sequence[Queued], texts: Mapping[str, Any]) -> None:
        self._stack, self._texts = stack, texts
        self._found: dict[int, Any] = {}

    def missing(self, nodes: Nodes) -> dict[Any, list[int]]:
        """Return the places of the commands to send, by the client of the node to send them to."""
        found: dict[Any, list[int]] = {}
        for place, (words, _) in enumerate(self._stack):
            if place in self._found and not _may_pass(self._found[place]):
                continue
            try:
                found.setdefault(nodes.of_slot(one_slot(words)), []).append(place)
            except ClusterDownError as error:
                self._found[place] = error
        return found

    def put(self, place: int, answer: Any) -> None:
        """Note an answer."""
        self._found[place] = answer

    def to_repeat(self) -> Iterator[tuple[int, Sequence[Any], dict[str, Any]]]:
        """Yield what is to be sent again alone: places, commands, redis-py's options.

        That is what the wrong node was asked, and what a node did not know the script of.
        """
        for place, (words, options) in enumerate(self._stack):
            answer = self._found.get(place)
            if isinstance(answer, AskError):
                yield place, words, options
            elif isinstance(answer, NoScriptError) and words[1] in self._texts:
                yield place, ("EVAL", self._texts[words[1]], *words[2:]), options

    def raise_transient(self) -> None:
        """Raise the first error that may pass.

        Raises:
            RedisError: a node could not be reached, or refused a command for now.
        """
        for answer in self._found.values():
            if _may_pass(answer):
                raise answer

    def in_order(self) -> list[Any]:
        """Return all answers, with keys named as on a single server."""
        return [
            ungrouped_reply(words, self._found[place])
            for place, (words, _) in enumerate(self._stack)
        ]


def _may_pass(answer: Any) -> bool:
    return isinstance(answer, Exception) and is_transient(answer)
