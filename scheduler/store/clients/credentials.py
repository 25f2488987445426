"""The login of connections to a Redis whose URL is in a file."""

from __future__ import annotations

from typing import Any

from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError

from sleipnir.scheduler.config.secret_files.redis_url_file import UrlOfFile
from sleipnir.scheduler.errors import SettingInvalid


def credentials_of(url: str) -> dict[str, Any]:
    """Return the option of clients, and of kombu's transport, that has the login read again."""
    if not isinstance(url, UrlOfFile) or url.login().password is None:
        return {}
    return {"credential_provider": _LoginOfFile(url)}


class _LoginOfFile(CredentialProvider):
    def __init__(self, url: UrlOfFile) -> None:
        self._url = url

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Return the login of a new connection.

        Raises:
            ConnectionError: the file cannot be used now, perhaps because it is being replaced.
        """
        try:
            login = self._url.login()
        except SettingInvalid as error:
            raise ConnectionError(str(error)) from error
        password = login.password or ""
        return (login.user, password) if login.user else (password,)
