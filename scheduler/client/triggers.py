"""The part of the Python client for triggers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sleipnir.records import dataclass
from sleipnir.scheduler.config.secret_files.hook_key import HookKey
from sleipnir.scheduler.errors import SubmissionRefused, TriggerNotFound
from sleipnir.scheduler.runs.hooks.signing import new_secret
from sleipnir.scheduler.runs.inbound.triggers import MOST_TRIGGERS, Trigger, require_trigger
from sleipnir.scheduler.runs.inbound.verifying import is_genuine
from sleipnir.scheduler.runs.labels import require_short_name
from sleipnir.scheduler.store.hooks.triggers import Triggers

if TYPE_CHECKING:
    from sleipnir.scheduler.client.client import Client

_TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class NewTrigger:
    """A trigger, and the secret of those who may fire it, which is shown this once."""

    trigger: Trigger
    secret: str | None  # None: anybody may


class TriggerClient:
    """Makes and removes triggers, and checks requests to them; `Client.triggers` is one."""

    def __init__(self, client: Client) -> None:
        self._store = Triggers(client.store.client)
        self._clock = client.store.clock
        self._key = HookKey(client.store.settings.hook_key_file)

    def list(self) -> Sequence[Trigger]:
        """Return all triggers, by name."""
        return self._store.read_all()

    def get(self, name: str) -> Trigger:
        """Return a trigger.

        Raises:
            TriggerNotFound: there is none of that name.
        """
        trigger = self._store.read(name)
        if trigger is None:
            raise TriggerNotFound(name)
        return trigger

    def create(self, wanted: Trigger, *, allow_anonymous: bool = False) -> NewTrigger:
        """Make a trigger, with a secret of its own.

        Args:
            wanted: what it is made of; its secret and instant are set here.
            allow_anonymous: whether one may be made that everybody can fire.

        Raises:
            SubmissionRefused: it is not valid, there is one of that name, or there are too many.
            SettingInvalid: `hook_key_file` is not set, or cannot be used.
        """
        require_short_name("a trigger", wanted.name)
        require_trigger(wanted, allow_anonymous=allow_anonymous)
        if self._store.count() >= MOST_TRIGGERS:
            raise SubmissionRefused(
                f"there are {MOST_TRIGGERS:,} triggers, and no more can be: delete some"
            )
        secret = _secret_for(wanted)
        sealed = None if secret is None else self._key.seal(secret)
        trigger = replace(wanted, secret=sealed, made_ms=self._clock.now_ms())
        if not self._store.add(trigger):
            raise SubmissionRefused(
                f"there is a trigger '{wanted.name}' already: `sleipnir trigger delete "
                f"{wanted.name}` removes it"
            )
        return NewTrigger(trigger, secret)

    def delete(self, name: str) -> None:
        """Remove a trigger; runs that it has started go on.

        Raises:
            TriggerNotFound: there is none of that name.
        """
        if not self._store.remove(name):
            raise TriggerNotFound(name)

    def is_genuine(self, trigger: Trigger, headers: Mapping[str, str], body: bytes) -> bool:
        """Return whether a request proves that it may fire a trigger.

        Raises:
            SettingInvalid: `hook_key_file` is not set, or is another one.
        """
        secret = "" if trigger.secret is None else self._key.open(trigger.secret)
        now_s = self._clock.now_ms() / 1000
        return is_genuine(trigger.verify, secret, headers, body, now_s)


def _secret_for(trigger: Trigger) -> str | None:
    if trigger.verify == "none":
        return None
    return new_secret() if trigger.verify == "standard" else secrets.token_urlsafe(_TOKEN_BYTES)
