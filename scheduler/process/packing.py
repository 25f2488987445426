"""Long JSON objects as Redis keeps them: compressed, and marked by a first byte that no text has.

    {"step":3,…}          a short one, or one of an earlier version
    FF members LF zlib    a packed one; `"at":1764300000000,` are members of the object that a
                          script has put in front, and what is compressed has the others

Clients of Redis decode answers as UTF-8 with the error handler `ENCODING_ERRORS`: to them, a packed
value is a text of its bytes, each as one character. So it can be read wherever texts are.
"""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterable
from typing import Final

from sleipnir.scheduler.errors import ForgedValue

# A shorter value would hardly shrink.
LEAST_BYTES: Final = 512
# What is larger is stored as it is; what unpacks to more was not written by Sleipnir.
MOST_BYTES: Final = 16 * 1024 * 1024

ENCODING_ERRORS: Final = "sleipnir"
_MARK = b"\xff"
_MARK_AS_TEXT = "\xff"
# Ratio of texts 2.2; level 6 takes twice the time for 2.3.
_LEVEL = 1

_surrogatepass = codecs.lookup_error("surrogatepass")


def pack(text: str) -> bytes | str:
    """Return a JSON object as it is stored: compressed, if that makes it smaller."""
    # No text has more bytes than four for each character.
    if 4 * len(text) < LEAST_BYTES:
        return text
    data = text.encode(errors="surrogatepass")
    if not LEAST_BYTES <= len(data) <= MOST_BYTES:
        return text
    shorter = _MARK + b"\n" + zlib.compress(data, _LEVEL)
    return shorter if len(shorter) < len(data) else text


def unpack(stored: str) -> str:
    """Return the JSON object of a stored value.

    Raises:
        ForgedValue: it is marked as packed and is not, or unpacks to more than `MOST_BYTES`.
    """
    if not stored.startswith(_MARK_AS_TEXT):
        return stored
    members, _, body = stored[1:].encode("latin-1").partition(b"\n")
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(body, MOST_BYTES + 1)
    except zlib.error as error:
        raise ForgedValue("it cannot be unpacked") from error
    if len(data) > MOST_BYTES or not unpacking.eof or data[:1] != b"{":
        raise ForgedValue(f"it is not an object, or unpacks to more than {MOST_BYTES:,} bytes")
    return (b"{" + members + data[1:]).decode(errors="surrogatepass")


def as_stored(text: str) -> bytes | str:
    """Return a stored value, as clients decode it, as it can be stored again."""
    return text.encode("latin-1") if text.startswith(_MARK_AS_TEXT) else text


def stored_bytes(values: Iterable[str | bytes]) -> int:
    """Return how many bytes values take that `as_stored` or `pack` has returned."""
    return sum(
        len(value if isinstance(value, bytes) else value.encode(errors="surrogatepass"))
        for value in values
    )


def _decode(error: UnicodeError) -> tuple[str | bytes, int]:
    """Decode a packed value byte by byte; otherwise keep lone surrogates, which texts may have."""
    if isinstance(error, UnicodeDecodeError) and error.object.startswith(_MARK):
        return error.object.decode("latin-1"), len(error.object)
    return _surrogatepass(error)


codecs.register_error(ENCODING_ERRORS, _decode)
