"""The URL of Redis in a file, so that its password can change while processes run."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from sleipnir.records import dataclass
from sleipnir.scheduler.config.secret_files.private_file import read_private
from sleipnir.scheduler.errors import SettingInvalid

# Up to the last @: a password may contain any character, percent-encoded or not.
_URL = re.compile(
    r"(?P<scheme>[a-z+]+://)(?:(?P<login>[^?]*)@)?(?P<place>[^?]*)(?:\?(?P<query>.*))?"
)


@dataclass(frozen=True, slots=True)
class Login:
    """A user of Redis and the password, as far as a URL has them."""

    user: str | None
    password: str | None


class UrlOfFile(str):
    """A URL without the login, which is read from the file for each new connection."""

    file: Path

    @classmethod
    def read(cls, file: str) -> UrlOfFile:
        """Read the URL of a file.

        Raises:
            SettingInvalid: it cannot be read, other users can read it, or it has no URL.
        """
        path = Path(file).expanduser().absolute()
        url, _ = _read(path)
        made = cls(url)
        made.file = path
        return made

    def login(self) -> Login:
        """Return the login that the file has now.

        Raises:
            SettingInvalid: as `read`.
        """
        return _read(self.file)[1]


def _read(file: Path) -> tuple[str, Login]:
    found = _URL.fullmatch(read_private("redis_url_file", file))
    if found is None:
        raise SettingInvalid(
            f"redis_url_file: {file} has no URL: write one line into it, as in "
            "redis://USER:PASSWORD@HOST:6379/0"
        )
    options = found["query"].split("&") if found["query"] else []
    user, _, password = (found["login"] or "").partition(":")
    # Sockets have them among their options.
    given = dict(option.partition("=")[::2] for option in options)
    kept = [each for each in options if each.partition("=")[0] not in ("username", "password")]
    url = found["scheme"] + found["place"] + ("?" + "&".join(kept) if kept else "")
    return url, Login(
        unquote(user or given.get("username", "")) or None,
        unquote(password or given.get("password", "")) or None,
    )
