"""Files and pages that go with a prompt: `-f` of `run` and `submit`, `.file` of a chat."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.files import MIB, UnusableFile, open_input, read_bounded, reason
from sleipnir.graphs.state import encode
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused

with lazy_imports():
    from sleipnir.graphs.functions.lib.sleipnir import markdown, web

if TYPE_CHECKING:
    from sleipnir.scheduler.config.settings import Settings

LIMIT_BYTES = 8 * MIB  # of all files of a prompt together
_MOST_FILES = 10_000
_HTML = ("text/html", "application/xhtml+xml")
_PAGE_TIME_S = 16.0
# Elements around the text of a page.
_CHROME = frozenset(("nav", "footer"))


@dataclass(frozen=True, slots=True)
class Attaching:
    """How files and pages are attached to prompts."""

    value_limit_bytes: int  # of a prompt with its files, as JSON text
    allow_private: bool  # whether URLs may lead to private addresses
    say: Callable[[str], None]  # tells a person what is left out

    def with_files(self, prompt: str, places: Sequence[str]) -> str:
        """Return a prompt followed by the texts of files and pages, each between two tags.

        Args:
            places: paths of files and directories, and URLs.

        Raises:
            SubmissionRefused: one is missing, is not text, or is too much; names it.
        """
        left, size = LIMIT_BYTES, _stored_bytes(prompt)
        for name, text in self._texts(places):
            left -= len(text.encode())
            if left < 0:
                raise _refused(name, f"with it, the files are more than {LIMIT_BYTES // MIB} MiB")
            block = f'<file path="{_quoted(name)}">\n{_ended(text)}</file>'
            prompt = f"{_ended(prompt)}\n{block}" if prompt else block
            size += _stored_bytes(block)
            if size > self.value_limit_bytes:
                raise _refused(
                    name,
                    f"with it, the prompt has {size:,} bytes as JSON; the limit of a value is "
                    f"{self.value_limit_bytes:,} (value_limit_bytes)",
                )
        return prompt

    def _texts(self, places: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield names and texts, in order; a directory stands for its files."""
        for place in places:
            if place.lower().startswith(("http://", "https://")):
                yield place, _page(place, self.allow_private)
            else:
                yield from ((name, _text_of(name)) for name in self._files(place))

    def _files(self, place: str) -> list[str]:
        """Return a file, or the files below a directory by path, except hidden ones."""
        root = _path_of(place)
        if not os.path.isdir(root):  # noqa: PTH112 - false also for what cannot be accessed
            return [place]
        found: list[str] = []
        for parent, directories, files in os.walk(root, onerror=_refuse_directory):
            directories[:] = _visible(directories)
            below = parent.removeprefix(str(root)).lstrip("/")
            named = functools.partial(os.path.join, place, below)  # as given: it keeps `./`
            found += map(named, _visible(files))
            for linked in filter(os.path.islink, (Path(parent, name) for name in directories)):
                self.say(f"left out {printable(named(linked.name))}: a link to a directory")
            if len(found) > _MOST_FILES:
                raise _refused(place, f"it has more than {_MOST_FILES:,} files")
        if not found:
            raise _refused(place, "the directory has no files")
        return sorted(found)


def attaching(settings: Settings, say: Callable[[str], None]) -> Attaching:
    """Return how files are attached with these settings."""
    return Attaching(settings.value_limit_bytes, settings.allow_private_addresses, say)


def _visible(names: Sequence[str]) -> list[str]:
    return [name for name in names if not name.startswith(".")]


def _stored_bytes(text: str) -> int:
    return len(encode(text).encode())


def _quoted(name: str) -> str:
    """Return a name that cannot end the tag it stands in; `&` stays, as addresses have it."""
    for c, entity in (('"', "&quot;"), ("<", "&lt;"), (">", "&gt;")):
        name = name.replace(c, entity)
    return printable(name)


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _path_of(name: str) -> Path:
    """Return the path that a name stands for; in a chat no shell replaces `~`."""
    if not name:
        raise _refused("''", "it names nothing")
    try:
        return Path(os.path.expanduser(name))  # noqa: PTH111 - leaves unknown users as they are
    except ValueError as error:  # a NUL
        raise _refused(name, reason(error)) from error


def _refuse_directory(error: OSError) -> None:
    raise _refused(error.filename, reason(error)) from error


def _text_of(name: str) -> str:
    path = _path_of(name)
    try:
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
    return SubmissionRefused(f"cannot attach {printable(name)}: {why}")
