"""Reads the files that an llm node attaches to its prompt: paths, addresses, stored files."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote, urlsplit

from sleipnir.graphs.attachments import NO_TYPE, STORED, type_of
from sleipnir.graphs.document.finding import cut, printable
from sleipnir.graphs.files import MIB, UnusableFile, read_bytes, reason
from sleipnir.graphs.schema import LlmNode
from sleipnir.graphs.state import encode
from sleipnir.graphs.template import evaluate_strict
from sleipnir.lazy import lazy_imports
from sleipnir.worker.llm.attachments import AttachedFile
from sleipnir.worker.visit.context import Visit

# Most nodes attach nothing.
with lazy_imports():
    from sleipnir.graphs.functions.lib.sleipnir import web

_SHOWN = 60  # characters of a place
_LONGEST_NAME = 200
_FETCH_S = 30.0
_DATA = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)
_DIGEST = re.compile(r"[0-9a-f]{64}")


class CannotAttach(Exception):
    """Something cannot be attached.

    Args:
        place: as the node names it.
    """

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"cannot attach '{cut(printable(place), _SHOWN)}': {why}")


def attached(visit: Visit[LlmNode]) -> list[AttachedFile]:
    """Return what a node attaches, in order.

    Raises:
        MissingReference: by a template.
        CannotAttach: anything is amiss.
    """
    limits = visit.limits
    found: list[AttachedFile] = []
    room = limits.attach_request_bytes
    for place in _places(visit):
        if len(found) == limits.attach_count:
            raise CannotAttach(place, f"more than {limits.attach_count} files (attach_count_limit)")
        data, name = _Reading(visit, place).content()
        room -= len(data)
        if room < 0:
            raise CannotAttach(
                place,
                f"with it, the files are more than {limits.attach_request_bytes / MIB:g} MiB "
                "(attach_request_limit_bytes)",
            )
        media_type = type_of(data)
        if media_type is None:
            raise CannotAttach(place, NO_TYPE)
        name = name or f"attachment.{media_type.rpartition('/')[2]}"
        found.append(AttachedFile(data, media_type, name[-_LONGEST_NAME:]))
    return found


def _places(visit: Visit[LlmNode]) -> Iterator[str]:
    for template in visit.node.attach:
        value = evaluate_strict(template, visit.state, limit=visit.limits.value_bytes)
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, str):
                shown = encode(each)
                raise CannotAttach(shown, f"{template} must be a text or a list of texts")
            if each:
                yield each


class _Reading:
    """Reads one file, of bounded size."""

    def __init__(self, visit: Visit[Any], place: str) -> None:
        self._visit = visit
        self._place = place
        self._limit = visit.limits.attach_file_bytes

    def content(self) -> tuple[bytes, str]:
        """Return the content and a name, which may be empty."""
        start = self._place[:8].lower()
        if start.startswith(("http://", "https://")):
            return self._fetched(), _last_part(unquote(urlsplit(self._place).path))
        if start.startswith("data:"):
            return self._decoded(), ""
        if self._place.startswith(STORED):
            return self._stored(), ""
        return self._read(), _last_part(self._place)

    def _fetched(self) -> bytes:
        visit = self._visit
        left = visit.seconds_left(visit.node.limit_s)
        try:
            response = web.fetch(
                web.Request(self._place),
                timeout_s=_FETCH_S if left is None else max(min(_FETCH_S, left), 0.1),
                allow_private=visit.limits.allow_private_addresses,
                max_bytes=self._limit,
            )
        except web.FetchError as error:
            raise self._failure(str(error)) from error
        if response.status != 200:
            raise self._failure(f"HTTP status {response.status}")
        return response.body

    def _decoded(self) -> bytes:
        head = _DATA.match(self._place)
        if head is None:
            raise self._failure("expected data:TYPE;base64,…")
        try:
            data = base64.b64decode(self._place[head.end() :], validate=True)
        except (binascii.Error, ValueError) as error:
            raise self._failure(f"it is not base64 ({error})") from error
        if len(data) > self._limit:
            raise self._too_large()
        return data

    def _stored(self) -> bytes:
        context, digest = self._visit.context, self._place.removeprefix(STORED)
        batch = context.batch or context.files_of
        data = None
        if batch is not None and _DIGEST.fullmatch(digest):
            data = self._visit.services.files.file(batch, digest)
        if data is None:
            raise self._failure("no such file is stored with the batch of this run")
        if len(data) > self._limit:
            raise self._too_large()
        return data

    def _read(self) -> bytes:
        try:
            return read_bytes(self._path(), self._limit)
        except UnusableFile as error:
            raise self._failure(str(error)) from error
        except OSError as error:
            raise self._failure(reason(error)) from error

    def _path(self) -> Path:
        leads_outside = True
        for directory in (self._visit.workdir(), self._visit.directory):
            root = os.path.realpath(directory)
            try:
                path = Path(os.path.realpath(os.path.join(root, self._place)))  # noqa: PTH118
            except ValueError as error:  # a NUL
                raise self._failure(str(error)) from error
            # False also for what cannot be accessed.
            is_there = os.path.exists(path)  # noqa: PTH110
            is_inside = path.is_relative_to(root)
            if is_there and is_inside:
                return path
            if is_there:
                leads_outside = True
                break
            leads_outside = leads_outside and not is_inside
        directories = "the run's working directory and the agent's directory"
        if leads_outside:
            raise self._failure(f"it lies outside {directories}")
        raise self._failure(f"there is no such file in {directories}")

    def _too_large(self) -> CannotAttach:
        return self._failure(
            f"it is larger than {self._limit / MIB:g} MiB (attach_file_limit_bytes)"
        )

    def _failure(self, why: str) -> CannotAttach:
        return CannotAttach(self._place, why)


def _last_part(path: str) -> str:
    return printable(PurePath(path).name)
