"""Files and pages that go with a prompt: `-f` of `run` and `submit`, `.file` of a chat."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from sleipnir.graphs.files import MIB, UnusableFile, open_input, read_bounded, reason
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.errors import SubmissionRefused

with lazy_imports():
    from sleipnir.graphs.functions.lib.sleipnir import markdown, web

LIMIT_BYTES = 8 * MIB  # of all files of a prompt together
_MOST_FILES = 10_000
_HTML = ("text/html", "application/xhtml+xml")
_PAGE_TIME_S = 16.0
# Elements around the text of a page.
_CHROME = frozenset(("nav", "footer"))


def with_files(prompt: str, places: Sequence[str], *, allow_private: bool) -> str:
    """Return a prompt followed by the texts of files and pages, each between two tags.

    Args:
        places: paths of files and directories, and URLs.
        allow_private: whether URLs may lead to private addresses.

    Raises:
        SubmissionRefused: one is missing, is not text, or is too much; names it.
    """
    left = LIMIT_BYTES
    for name, text in _texts(places, allow_private):
        left -= len(text.encode())
        if left < 0:
            raise _refused(name, f"with it, the files are more than {LIMIT_BYTES // MIB} MiB")
        block = f'<file path="{name}">\n{_ended(text)}</file>'
        prompt = f"{_ended(prompt)}\n{block}" if prompt else block
    return prompt


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _texts(places: Sequence[str], allow_private: bool) -> Iterator[tuple[str, str]]:
    """Yield names and texts, in order; a directory stands for its files."""
    for place in places:
        if place.lower().startswith(("http://", "https://")):
            yield place, _page(place, allow_private)
        else:
            yield from ((name, _text_of(name)) for name in _files(place))


def _files(place: str) -> list[str]:
    """Return a file, or the files below a directory by path, except hidden ones."""
    root = _path_of(place)
    if not os.path.isdir(root):  # noqa: PTH112 - false also for what cannot be accessed
        return [place]
    found: list[str] = []
    for parent, directories, files in os.walk(root, onerror=_refuse_directory):
        directories[:] = [name for name in directories if not name.startswith(".")]
        below = Path(parent).relative_to(root)
        found += [str(below / name) for name in files if not name.startswith(".")]
        if len(found) > _MOST_FILES:
            raise _refused(place, f"it has more than {_MOST_FILES:,} files")
    if not found:
        raise _refused(place, "the directory has no files")
    return [f"{place.rstrip('/')}/{name}" for name in sorted(found)]


def _path_of(name: str) -> Path:
    """Return the path that a name stands for; in a chat no shell replaces `~`."""
    return Path(os.path.expanduser(name))  # noqa: PTH111 - leaves unknown users as they are


def _refuse_directory(error: OSError) -> None:
    raise _refused(error.filename, reason(error)) from error


def _text_of(name: str) -> str:
    try:
        path = _path_of(name)
        with open_input(path) as stream:
            data = read_bounded(stream, LIMIT_BYTES, path)
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise _refused(name, "it is not text in UTF-8") from error
    except UnusableFile as error:
        raise _refused(name, str(error)) from error
    except (OSError, ValueError) as error:
        raise _refused(name, reason(error)) from error
    return _plain(name, text)


def _page(url: str, allow_private: bool) -> str:
    try:
        response = web.fetch(
            web.Request(url),
            timeout_s=_PAGE_TIME_S,
            allow_private=allow_private,
            max_bytes=LIMIT_BYTES,
        )
        if response.status != 200:
            raise _refused(url, f"HTTP status {response.status}")
        if response.content_type in _HTML:
            return markdown.from_html(
                response.text, response.url, without=_CHROME, most=LIMIT_BYTES
            )
    except (web.FetchError, markdown.NotConverted) as error:
        raise _refused(url, str(error)) from error
    # The charset that a server names is its own choice; what it cannot stand for is replaced.
    if "\N{REPLACEMENT CHARACTER}" in response.text:
        raise _refused(url, f"it is {response.content_type or 'of no type'}, not text")
    return _plain(url, response.text)


def _plain(name: str, text: str) -> str:
    if "\0" in text:
        raise _refused(name, "it is not text")
    return text


def _refused(name: str, why: str) -> SubmissionRefused:
    return SubmissionRefused(f"cannot attach {name}: {why}")
