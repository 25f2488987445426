"""The parts of a run as Redis keeps them, and their form in files.

The keys are those of scheduler/store/keys.py; what only an open run has is not among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from sleipnir.records import dataclass

# A hash, a list, or a stream as pairs of an entry's id and its text; all unpacked.
Part: TypeAlias = dict[str, str] | list[str] | list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class PartForm:
    """How a part is stored."""

    shape: Literal["hash", "list", "stream"]
    holds: Literal["texts", "json", "objects"] = "json"  # objects may be packed in Redis


_OBJECTS: Final = PartForm("list", "objects")
_TEXTS: Final = PartForm("hash", "texts")

# Of a run, in the order of files.
PARTS: Final[Mapping[str, PartForm]] = MappingProxyType(
    {
        "state": PartForm("hash"),
        "history": _OBJECTS,
        "superseded": _OBJECTS,
        "events": PartForm("stream"),
        "logs": _OBJECTS,
        "transcripts": _OBJECTS,
        "failed_transcripts": _OBJECTS,
        "failures": PartForm("list"),
        "messages": PartForm("list"),
        "children": PartForm("list", "texts"),
        "spawned": _TEXTS,
        "kept": _TEXTS,
        "staged": _TEXTS,
        "mail": _TEXTS,
    }
)
# Of each visit that a retry would take up, as `kept` has it.
PARTS_OF_VISITS: Final[Mapping[str, PartForm]] = MappingProxyType(
    {"waits": _TEXTS, "turns": PartForm("list", "texts"), "map": _TEXTS}
)


@dataclass(frozen=True, slots=True)
class WholeRun:
    """Everything that is stored of a run that has ended; parts that it does not have are absent."""

    run_id: str
    record: Mapping[str, str]
    parts: Mapping[str, Part]
    visits: Mapping[str, Mapping[str, Part]]  # by visit, then by kind
