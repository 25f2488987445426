"""Files of whole runs: a compressed document each, below a directory by the day of its creation."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sleipnir.scheduler.errors import RunFileInvalid
from sleipnir.scheduler.runs.whole.document import from_json, to_json
from sleipnir.scheduler.runs.whole.parts import WholeRun

# Of a document before it is compressed; states, histories and transcripts are far below it.
MOST_BYTES: Final = 256 * 2**20
DIRECTORY: Final = "runs"
_NAME = re.compile(r"([0-9a-f]{16})\.json\.gz")
# Half the time of the default level, for files that are a tenth larger.
_LEVEL = 4
_GZIP = 16 + zlib.MAX_WBITS
_TRAILER_BYTES = 8


def path_of(run: WholeRun) -> str:
    """Return the path of a run's file; it does not change if the run is retried."""
    created = datetime.fromtimestamp(int(run.record["created"]) / 1000, UTC)
    return f"{DIRECTORY}/{created:%Y/%m/%d}/{run.run_id}.json.gz"


def run_id_in(name: str) -> str | None:
    """Return the id in a file's name; None: it is not one of a run."""
    found = _NAME.fullmatch(name)
    return None if found is None else found[1]


def to_text(run: WholeRun) -> bytes:
    """Return the content of a run's file before it is compressed; the same for the same run.

    Raises:
        RunFileInvalid: nobody would read a file of that size.
    """
    text = to_json(run).encode(errors="surrogatepass")
    if len(text) > MOST_BYTES:
        raise _too_large()
    return text


def compress(text: bytes) -> bytes:
    """Return the content of a file."""
    return gzip.compress(text, _LEVEL, mtime=0)


def holds(file: Path, text: bytes) -> bool:
    """Return whether a file has this text; its last bytes are the text's checksum and length."""
    try:
        with file.open("rb") as stream:
            stream.seek(-_TRAILER_BYTES, os.SEEK_END)
            trailer = stream.read()
    except OSError:  # it is not there, or is shorter
        return False
    expected = (zlib.crc32(text), len(text) % 2**32)
    return trailer == b"".join(number.to_bytes(4, "little") for number in expected)


def from_file(data: bytes) -> WholeRun:
    """Return the run of a file's content.

    Raises:
        RunFileInvalid: it is not one, is cut off, or of a later version.
    """
    unpacker = zlib.decompressobj(_GZIP)
    try:
        text = unpacker.decompress(data, MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise _too_large()
        if not unpacker.eof or unpacker.unused_data:
            raise RunFileInvalid("it is cut off, or something follows it")
        return from_json(text.decode(errors="surrogatepass"))
    except zlib.error as error:
        raise RunFileInvalid(f"it is not compressed by gzip: {error}") from error
    except UnicodeDecodeError as error:
        raise RunFileInvalid(f"it is not UTF-8: {error.reason}") from error


def _too_large() -> RunFileInvalid:
    return RunFileInvalid(f"the run takes more than {MOST_BYTES // 2**20} MiB, uncompressed")
