"""The key with which secrets of webhooks are encrypted in Redis."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.secret_files.private_file import read_private
from sleipnir.scheduler.errors import SettingInvalid

with lazy_imports():
    from cryptography import fernet

_SHORTEST = 32  # characters


class HookKey:
    """Seals secrets and opens them again.

    Args:
        file: has the key: any text of at least 32 characters. None: there is none.
    """

    def __init__(self, file: str | None) -> None:
        self._file = file

    def seal(self, secret: str) -> str:
        """Encrypt a secret.

        Raises:
            SettingInvalid: there is no key, or it cannot be used.
        """
        return self._cipher().encrypt(secret.encode()).decode()

    def open(self, sealed: str) -> str:
        """Decrypt a secret.

        Raises:
            SettingInvalid: there is no key, it cannot be used, or it is another one.
        """
        try:
            return self._cipher().decrypt(sealed).decode()
        except fernet.InvalidToken as error:
            raise SettingInvalid(
                f"hook_key_file: {self._file} is not the key that secrets of hooks were stored "
                "with; use that one everywhere, or rotate the secrets"
            ) from error

    def derived(self, purpose: str) -> bytes:
        """Return 256 bits that are always the same for a purpose, and that nobody else can tell.

        Raises:
            SettingInvalid: there is no key, or it cannot be used.
        """
        return hmac.digest(self._bytes(), purpose.encode(), "sha256")

    def _cipher(self) -> fernet.Fernet:
        return fernet.Fernet(base64.urlsafe_b64encode(self._bytes()))

    def _bytes(self) -> bytes:
        if self._file is None:
            raise SettingInvalid(
                "hook_key_file is not set, and secrets of webhooks are only stored encrypted: make "
                "a key with `openssl rand -hex 32 > hook.key && chmod 600 hook.key`, and name it "
                "in the setting, for commands, monitors and schedulers alike"
            )
        return hashlib.sha256(_read(Path(self._file).expanduser()).encode()).digest()


def _read(file: Path) -> str:
    key = read_private("hook_key_file", file)
    if len(key) < _SHORTEST:
        raise SettingInvalid(
            f"hook_key_file: {file} has {len(key)} characters, and a key needs {_SHORTEST}: make "
            f"one with `openssl rand -hex 32 > {file}`"
        )
    return key
