"""The users of the monitor: a file with one line per user, `NAME ROLE SCRYPT`.

The file is re-read when it changes. Names that begin with `api-` are programs, which send
`Authorization: Bearer NAME.SECRET`.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
import threading
from collections.abc import Mapping
from hashlib import scrypt, sha256
from pathlib import Path

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SettingInvalid

ROLES = ("read", "answer", "operate")
API_PREFIX = "api-"
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
# The cost of one guess: 16 MiB, and about 50 ms.
_COST = {"n": 2**14, "r": 8, "p": 1}
_SALT_BYTES = 16
_FORM = "scrypt"


@dataclass(frozen=True, slots=True)
class MonitorUser:
    """A user, as a line of the file."""

    name: str
    role: str
    salt: bytes
    digest: bytes

    @classmethod
    def parse(cls, line: str) -> MonitorUser:
        """Parse a line.

        Raises:
            ValueError: it is not `NAME ROLE SCRYPT`.
        """
        name, role, packed = line.split()
        form, salt, digest = packed.split("$")
        if not _NAME.fullmatch(name) or role not in ROLES or form != _FORM:
            raise ValueError(line)
        return cls(name, role, _bytes(salt), _bytes(digest))

    def has(self, password: str) -> bool:
        """Return whether this is the password; deliberately slow."""
        return hmac.compare_digest(_hashed(password, self.salt), self.digest)


class MonitorUsers:
    """The users in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._version: tuple[int, int] | None = None
        self._users: Mapping[str, MonitorUser] = {}
        # Proofs of passwords verified since the file was read, to skip the slow check.
        self._proved: set[bytes] = set()
        self._lock = threading.Lock()
        self.users()

    def users(self) -> Mapping[str, MonitorUser]:
        """Return the current users by name.

        Raises:
            SettingInvalid: the file cannot be read, or has an invalid line.
        """
        with self._lock:
            try:
                status = self._file.stat()
                version = status.st_mtime_ns, status.st_size
                if version != self._version:
                    self._users = _read(self._file)
                    self._version = version
                    self._proved.clear()
            except OSError as error:
                raise SettingInvalid(
                    f"users of the monitor: {self._file}: {error.strerror}"
                ) from error
            return self._users

    def find(self, name: str, password: str) -> MonitorUser | None:
        """Return the named user if the password is right, or None."""
        user = self.users().get(name)
        if user is None:
            return None
        proof = sha256(user.digest + password.encode(errors="surrogatepass")).digest()
        if proof in self._proved:
            return user
        if not user.has(password):
            return None
        self._proved.add(proof)
        return user


def require_user(name: str, role: str) -> None:
    """Check a user's name and role.

    Raises:
        SettingInvalid: the name or the role is invalid.
    """
    if not _NAME.fullmatch(name):
        raise SettingInvalid(
            f"'{name}' is not a valid name of a user: 1 to 64 letters, digits, '_', '.', '@' or '-'"
        )
    if role not in ROLES:
        raise SettingInvalid(f"'{role}' is not a role; there are {', '.join(ROLES)}")


def new_line(name: str, role: str, password: str) -> str:
    """Return the line of a user; raises as `require_user`."""
    require_user(name, role)
    salt = secrets.token_bytes(_SALT_BYTES)
    return f"{name} {role} {_FORM}${_text(salt)}${_text(_hashed(password, salt))}"


def _read(file: Path) -> dict[str, MonitorUser]:
    found = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            user = MonitorUser.parse(line)
        except ValueError:
            raise SettingInvalid(
                f"users of the monitor: {file}:{number}: expected NAME ROLE SCRYPT, as "
                "`sleipnir monitor --new-user NAME ROLE` prints it"
            ) from None
        found[user.name] = user
    return found


def _hashed(password: str, salt: bytes) -> bytes:
    return scrypt(password.encode(errors="surrogatepass"), salt=salt, dklen=32, **_COST)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
