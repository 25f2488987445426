"""The environment variables of a worker that agents' programs get."""

from __future__ import annotations

from collections.abc import Collection

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
_PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "TERM"),
        *_PROXIES,
        *(name.lower() for name in _PROXIES),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        "NODE_EXTRA_CA_CERTS",
    }
)
# The engine's own settings: the broker's address gives full access.
NEVER_PASSED_ON = ("SLEIPNIR_", "CELERY_")


def is_passed_on(name: str, more: Collection[str] = ()) -> bool:
    """Return whether programs get this variable of the worker; `more` allows others besides."""
    allowed = name in _PASSED_ON or name in more or name.startswith("LC_")
    return allowed and not name.startswith(NEVER_PASSED_ON)
