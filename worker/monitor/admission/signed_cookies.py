"""Sessions of people who have signed in with a password: a signed cookie, and nothing stored."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

SESSION_DAYS: Final = 30
_DAY_S: Final = 86_400
_MOST_CHARACTERS: Final = 512  # of a cookie that is read


def _now_s() -> float:
    return datetime.now(UTC).timestamp()


class SignedCookies:
    """Issues cookies and reads them.

    Args:
        secret: they are signed with it; those of before stay valid as long as it is the same.
        proof_of: bytes that change with a user's password; None for names that are no users.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        secret: str,
        proof_of: Callable[[str], bytes | None],
        clock: Callable[[], float] = _now_s,
    ) -> None:
        self._secret = secret.encode()
        self._proof_of = proof_of
        self._clock = clock

    def issue(self, name: str) -> str:
        """Return the cookie of a user who has just given the right password."""
        proof = self._proof_of(name)
        assert proof is not None, "not a user"
        until = int(self._clock()) + SESSION_DAYS * _DAY_S
        packed = urlsafe_b64encode(name.encode()).decode().rstrip("=")
        return f"{packed}.{until}.{self._signature(name, until, proof)}"

    def name_in(self, cookie: str) -> str | None:
        """Return whose cookie it is; None if it is forged, too old, or of another password."""
        packed, _, rest = cookie[:_MOST_CHARACTERS].partition(".")
        until, _, signed = rest.partition(".")
        try:
            name = urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode()
            ends = int(until)
        except ValueError:
            return None
        proof = self._proof_of(name)
        if proof is None or ends <= self._clock():
            return None
        expected = self._signature(name, ends, proof)
        return name if hmac.compare_digest(expected.encode(), signed.encode()) else None

    def _signature(self, name: str, until: int, proof: bytes) -> str:
        text = f"{until} {name}".encode() + b"\0" + proof
        return hmac.new(self._secret, text, sha256).hexdigest()
