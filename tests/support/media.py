"""Small images and documents, as bytes."""

from __future__ import annotations

import base64
import hashlib
import zlib

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffd9")
GIF = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;"
WEBP = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")


def pdf(pages: int, *, packed: bool = False) -> bytes:
    """Return something like a PDF with so many pages; `packed`: they are compressed."""
    objects = b"".join(b"%d 0 obj <</Type /Page>> endobj\n" % number for number in range(pages))
    if packed:
        objects = b"<< /Type /ObjStm /N 1 >>\nstream\n" + zlib.compress(objects) + b"\nendstream\n"
    return b"%PDF-1.7\n<</Type /Pages>>\n" + objects + b"%%EOF\n"


def document(data: bytes, media_type: str, name: str) -> dict[str, object]:
    """Return what stands for a file in a recording."""
    digest = hashlib.sha256(data).hexdigest()
    return {"sha256": digest, "bytes": len(data), "type": media_type, "name": name}


def data_url(data: bytes, media_type: str) -> str:
    """Return a file as a part of a request has it."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
