"""Which of a worker's environment variables the programs of agents get."""

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
# The engine's own settings: whoever holds the broker's address may do anything.
NEVER_PASSED_ON = ("SLEIPNIR_", "CELERY_")


def is_passed_on(name: str, more: Collection[str] = ()) -> bool:
    """Whether programs see the worker's variable of that name; `more` are allowed besides."""
    allowed = name in _PASSED_ON or name in more or name.startswith("LC_")
    return allowed and not name.startswith(NEVER_PASSED_ON)
