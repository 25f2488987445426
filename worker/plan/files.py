"""How many tokens the files of a prompt have, as far as they can be read here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sleipnir.graphs.attachments import STORED, type_of
from sleipnir.graphs.files import read_bytes
from sleipnir.graphs.schema import LlmNode
from sleipnir.graphs.template import evaluate_lenient
from sleipnir.records import dataclass
from sleipnir.worker.llm.attachments import TOKENS_OF_IMAGE, AttachedFile


def attached_places(node: LlmNode, known: Mapping[str, Any]) -> list[str]:
    """Return the known paths and addresses of what a node attaches."""
    values = [evaluate_lenient(template, known) for template in node.attach]
    places = [each for value in values for each in (value if isinstance(value, list) else [value])]
    return [place for place in places if isinstance(place, str) and place]


@dataclass(frozen=True, slots=True)
class PlannedFiles:
    """The files of the lines of an input.

    Args:
        stored: returns the path of a file that lines name by its digest, if it is known.
    """

    limit_bytes: int
    stored: Callable[[str], Path | None] = lambda _digest: None

    def tokens(self, places: Sequence[str], directory: Path) -> int:
        """Estimate the tokens of files; what cannot be read here counts as an image.

        Args:
            directory: of the agent.
        """
        return sum(self._tokens(place, directory) for place in places)

    def _tokens(self, place: str, directory: Path) -> int:
        if place.startswith(STORED):
            path = self.stored(place.removeprefix(STORED))
            return TOKENS_OF_IMAGE if path is None else _tokens_of(path, self.limit_bytes)
        found = (Path(place).absolute(), directory / place)
        return next(
            (_tokens_of(path, self.limit_bytes) for path in found if _is_file(path)),
            TOKENS_OF_IMAGE,
        )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # an address may be longer than a name
        return False


@cache
def _tokens_of(path: Path, limit_bytes: int) -> int:
    try:
        data = read_bytes(path, limit_bytes)
    except OSError:  # the run will say why
        return TOKENS_OF_IMAGE
    return AttachedFile(data, type_of(data) or "", path.name).tokens()
