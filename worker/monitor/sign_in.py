"""Signing in with an OAuth provider, by Flower's handlers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SettingInvalid

with lazy_imports():
    from flower.utils import authentication
    from flower.views import auth

_HANDLERS = {
    "google": "GoogleAuth2LoginHandler",
    "github": "GithubLoginHandler",
    "gitlab": "GitLabLoginHandler",
    "okta": "OktaLoginHandler",
}
# Flower's names for the provider's credentials; not arguments, as everybody can read those.
_VARIABLES = {
    "key": "FLOWER_OAUTH2_KEY",
    "secret": "FLOWER_OAUTH2_SECRET",
    "redirect_uri": "FLOWER_OAUTH2_REDIRECT_URI",
}


@dataclass(frozen=True, slots=True)
class SignIn:
    """A provider, and the addresses that may sign in with it.

    Args:
        pattern: e-mail addresses: one, several with `|` between, or `.*@example.org`.
    """

    provider: str
    pattern: str
    credentials: Mapping[str, str]

    @classmethod
    def of(cls, provider: str, pattern: str) -> SignIn:
        """Return it with the credentials from the environment.

        Raises:
            SettingInvalid: something is missing or invalid.
        """
        missing = [name for name in _VARIABLES.values() if not os.environ.get(name)]
        if missing:
            raise SettingInvalid(f"--auth-provider takes {', '.join(missing)} in the environment")
        if not authentication.validate_auth_option(pattern):
            raise SettingInvalid(
                f"--auth takes addresses with '|' between, or one such as .*@example.org, "
                f"not '{pattern}'"
            )
        found = {name: os.environ[variable] for name, variable in _VARIABLES.items()}
        return cls(provider, pattern, found)

    def allows(self, name: str) -> bool:
        """Return whether an address matches the pattern."""
        return bool(authentication.authenticate(self.pattern, name))

    @property
    def handler(self) -> type[Any]:
        """The handler of the sign-in page."""
        found: type[Any] = getattr(auth, _HANDLERS[self.provider])
        return found
