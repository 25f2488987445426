"""A program that prints the text of a PDF or DOCX file: `plain_text FORMAT FILE LIMIT_BYTES`."""

from __future__ import annotations

import logging
import resource
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from sleipnir.lazy import lazy_imports

# Lazy: parts of an extra, of which only one is needed.
with lazy_imports():
    import mammoth
    import pypdf

# A file that expands much more than this is not a document.
_MOST_UNPACKED = 20
# Memory for reading: 1088 MiB where documents may have 64 MiB.
_MEMORY_PER_BYTE = 16
_MEMORY_AT_LEAST_BYTES = 64 * 1024 * 1024


class _Unreadable(Exception):
    """No text can be extracted; says why."""


def _pdf(file: Path, _limit_bytes: int) -> Iterator[str]:
    # It warns about every flaw that it can handle.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = pypdf.PdfReader(file)
    if reader.is_encrypted and not reader.decrypt(""):
        raise _Unreadable("it is encrypted")
    for page in reader.pages:
        yield f"{page.extract_text()}\n\n"


def _docx(file: Path, limit_bytes: int) -> Iterator[str]:
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > _MOST_UNPACKED * limit_bytes:
        raise _Unreadable(
            f"unpacked it has {unpacked} bytes, more than {_MOST_UNPACKED * limit_bytes}"
        )
    with file.open("rb") as stream:
        yield mammoth.extract_raw_text(stream).value


_FORMATS: Mapping[str, Callable[[Path, int], Iterator[str]]] = {"pdf": _pdf, "docx": _docx}


def _bound_memory(wanted_bytes: int) -> int:
    """Limit the memory of this process, unless it has a lower limit; return the limit."""
    _, most_bytes = resource.getrlimit(resource.RLIMIT_DATA)
    if most_bytes != resource.RLIM_INFINITY:
        wanted_bytes = min(wanted_bytes, most_bytes)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted_bytes, most_bytes))
    return wanted_bytes


def main(name: str, file: str, limit: str) -> int:
    """Print the text of a file; return the exit code."""
    memory_bytes = _bound_memory(_MEMORY_AT_LEAST_BYTES + _MEMORY_PER_BYTE * int(limit))
    try:
        for text in _FORMATS[name](Path(file), int(limit)):
            sys.stdout.write(text.encode("utf-8", "replace").decode())
    except ImportError:
        why = (
            f"{name} needs the extra: `pip install 'sleipnir[documents]'`; or name a command "
            f"of your own in document_loaders.{name}"
        )
    except MemoryError:
        mib = memory_bytes // 1024**2
        why = f"it cannot be read as {name}: that takes more than {mib} MiB of memory"
    except Exception as error:  # the libraries raise many exceptions of their own
        why = f"it cannot be read as {name}: {error or type(error).__name__}"
    else:
        return 0
    sys.stderr.write(why)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
