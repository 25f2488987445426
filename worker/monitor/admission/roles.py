"""Roles of users whose names another server vouches for."""

from __future__ import annotations

import re

from sleipnir.scheduler.config.settings import Roles
from sleipnir.scheduler.errors import SettingInvalid
from sleipnir.worker.monitor.access import Role


class RoleRules:
    """Patterns of names by role: the setting `monitor_roles`.

    Raises:
        SettingInvalid: a pattern is not a regular expression.
    """

    def __init__(self, patterns: Roles) -> None:
        self._rules = [
            (Role[name.upper()], _compiled(name, text))
            for name, texts in patterns.items()
            for text in texts
        ]

    def role_of(self, name: str) -> Role:
        """Return the highest role with a pattern that matches the whole name."""
        fits = (role for role, pattern in self._rules if pattern.fullmatch(name))
        return max(fits, default=Role.NONE)


def _compiled(role: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise SettingInvalid(
            f"monitor_roles: {role}: '{text}' is not a regular expression: {error}"
        ) from error
