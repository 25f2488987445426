"""Results of tools without pictures, sounds and files."""

from __future__ import annotations

import json
import random
from base64 import b64encode, encodebytes
from typing import Any

import pytest

from sleipnir.worker.mcp.media import without_media

ZEROS = b64encode(bytes(300_000)).decode()
NOISE = random.Random(1).randbytes(3_000)
ENCODED = b64encode(NOISE).decode()
LINES = encodebytes(NOISE).decode().strip()
PDF = {"uri": "file:///a.pdf", "mimeType": "application/pdf"}


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        (
            {"type": "image", "data": ZEROS, "mimeType": "image/png"},
            {"type": "text", "text": "[image/png, 300,000 bytes]"},
        ),
        (
            {"type": "audio", "data": "AAA=", "mimeType": "audio/wav"},
            {"type": "text", "text": "[audio/wav, 2 bytes]"},
        ),
        (
            {"type": "resource", "resource": {**PDF, "blob": ENCODED}},
            {"type": "resource", "resource": {**PDF, "text": "[application/pdf, 3,000 bytes]"}},
        ),
        (
            {"type": "text", "text": f"![shot](data:image/png;base64,{ENCODED}) taken"},
            {"type": "text", "text": "![shot]([image/png, 3,000 bytes]) taken"},
        ),
        (
            {"type": "text", "text": json.dumps({"shot": ENCODED, "mail": LINES})},
            {
                "type": "text",
                "text": '{"shot": "[base64, 3,000 bytes]", "mail": "[base64, 3,000 bytes]"}',
            },
        ),
    ],
)
def test_a_medium_is_its_type_and_size(block: Any, shown: Any) -> None:
    assert without_media({"content": [block], "isError": False}) == {
        "content": [shown],
        "isError": False,
    }


def test_structured_content_has_no_media_either() -> None:
    structured = {
        "pages": [{"n": 1, "picture": ZEROS}],
        "file": {"mimeType": "image/gif", "data": ENCODED},
        "block": {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    }

    assert without_media({"structuredContent": structured})["structuredContent"] == {
        "pages": [{"n": 1, "picture": "[base64, 300,000 bytes]"}],
        "file": {"mimeType": "image/gif", "data": "[image/gif, 3,000 bytes]"},
        "block": {"type": "text", "text": "[image/png, 3 bytes]"},
    }


@pytest.mark.parametrize(
    "text",
    [
        "word " * 1_000,
        "-" * 5_000,
        "acgt" * 1_000,
        NOISE.hex(),
        "a/b.c/" * 1_000,
        json.dumps({"data": "plain", "mimeType": "text/plain", "blob": "0f" * 20}),
    ],
)
def test_what_can_be_read_stays(text: str) -> None:
    result = {"content": [{"type": "text", "text": text}], "structuredContent": {"text": text}}

    assert without_media(result) == result
