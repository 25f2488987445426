"""Encryption of objects, with a key from a file: AES-256-GCM, by `archive_key_file`."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import Final

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.secret_files.private_file import read_private
from sleipnir.scheduler.errors import SettingInvalid

with lazy_imports():
    from cryptography import exceptions
    from cryptography.hazmat.primitives.ciphers import aead

# What sealed objects begin with; those of gzip begin otherwise.
_MARK: Final = b"sleipnir-aes256gcm-1\n"
_NONCE_BYTES: Final = 12
_SHORTEST: Final = 32  # characters


class ArchiveKey:
    """Seals objects and opens them again.

    Args:
        file: has the key: any text of at least 32 characters. None: objects are not sealed.
    """

    def __init__(self, file: str | None) -> None:
        self._file = file

    def seal(self, data: bytes, run_id: str) -> bytes:
        """Encrypt the object of a run, if there is a key; no two results are the same.

        Raises:
            SettingInvalid: the key cannot be used.
        """
        if self._file is None:
            return data
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _MARK + nonce + self._cipher().encrypt(nonce, data, run_id.encode())

    def open(self, data: bytes, run_id: str) -> bytes:
        """Decrypt the object of a run; one that is not sealed is returned as it is.

        Raises:
            SettingInvalid: there is no key, it cannot be used, or it is another one.
        """
        if not data.startswith(_MARK):
            return data
        nonce, sealed = data[len(_MARK) :][:_NONCE_BYTES], data[len(_MARK) + _NONCE_BYTES :]
        try:
            return self._cipher().decrypt(nonce, sealed, run_id.encode())
        except exceptions.InvalidTag as error:
            raise SettingInvalid(
                f"archive_key_file: {self._file} is not the key that run {run_id} was archived "
                "with; use that one everywhere"
            ) from error

    def holds(self, stored: bytes, data: bytes, run_id: str) -> bool:
        """Return whether an object is what `seal` would make of some data.

        Raises:
            SettingInvalid: the key cannot be used.
        """
        if stored.startswith(_MARK) == (self._file is None):
            return False
        try:
            return self.open(stored, run_id) == data
        except SettingInvalid:  # sealed with another key
            return False

    def _cipher(self) -> aead.AESGCM:
        if self._file is None:
            raise SettingInvalid(
                "archive_key_file is not set, and the archive is encrypted: name the file with its "
                "key in the setting, for commands, monitors and schedulers alike"
            )
        file = Path(self._file).expanduser()
        key = read_private("archive_key_file", file)
        if len(key) < _SHORTEST:
            raise SettingInvalid(
                f"archive_key_file: {file} has {len(key)} characters, and a key needs {_SHORTEST}: "
                f"make one with `openssl rand -hex 32 > {file}`"
            )
        return aead.AESGCM(hashlib.sha256(key.encode()).digest())
