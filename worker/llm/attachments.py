"""Files in the messages of a request: images and PDFs.

A message holds a document of each file (its digest, size, type and name) in the place of its part:
so do recordings, transcripts and the cache, which never see the content. Only the message that is
sent to a provider has it.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from sleipnir.graphs.attachments import PDF
from sleipnir.records import dataclass

Message: TypeAlias = Mapping[str, Any]

DIGEST = "sha256"
# What providers charge at most for images of ordinary size, and for pages.
TOKENS_OF_IMAGE = 1_500
_TOKENS_OF_PAGE = 2_000
_MOST_PAGES = 10_000
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_OBJECTS = re.compile(rb"/Type\s*/ObjStm.{0,512}?stream\r?\n", re.DOTALL)
# Of a PDF, unpacked to find its pages.
_UNPACKED_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file that goes with a prompt."""

    data: bytes
    type: str  # of its content
    name: str  # the last part of its path or address

    def document(self) -> dict[str, Any]:
        """Return what stands for it in a message."""
        digest = hashlib.sha256(self.data).hexdigest()
        return {DIGEST: digest, "bytes": len(self.data), "type": self.type, "name": self.name}

    def part(self, name: str) -> dict[str, Any]:
        """Return it as a part of a message in OpenAI's protocol, under this name."""
        url = f"data:{self.type};base64,{base64.b64encode(self.data).decode()}"
        if self.type == PDF:
            return {"type": "file", "file": {"filename": name, "file_data": url}}
        return {"type": "image_url", "image_url": {"url": url}}

    def tokens(self) -> int:
        """Estimate how many tokens of a prompt it takes."""
        return _TOKENS_OF_PAGE * pages(self.data) if self.type == PDF else TOKENS_OF_IMAGE


Attachments: TypeAlias = Mapping[str, AttachedFile]  # by digest


def documents_in(messages: Iterable[Message]) -> Iterator[Mapping[str, Any]]:
    """Yield the documents of the files in messages."""
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            yield from (part for part in content if DIGEST in part)


def with_files(message: Message, attachments: Attachments) -> Message:
    """Return a message with the content of its files."""
    if not attachments or not isinstance(message.get("content"), list):
        return message
    parts = [
        attachments[part[DIGEST]].part(part["name"]) if DIGEST in part else part
        for part in message["content"]
    ]
    return {**message, "content": parts}


def pages(pdf: bytes) -> int:
    """Estimate the number of pages of a PDF, which is 1 at least."""
    found = len(_PAGE.findall(pdf))
    room = _UNPACKED_BYTES
    for stream in _OBJECTS.finditer(pdf):
        if room <= 0:
            break
        try:
            objects = zlib.decompressobj().decompress(pdf[stream.end() :], room)
        except zlib.error:  # packed in another way
            continue
        room -= len(objects)
        found += len(_PAGE.findall(objects))
    return min(max(found, 1), _MOST_PAGES)
