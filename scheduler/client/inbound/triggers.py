"""The part of the Python client for triggers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sleipnir.records import dataclass
from sleipnir.scheduler.client.inbound.wanted import WantedTrigger, wanted_of
from sleipnir.scheduler.config.secret_files.hook_key import HookKey
from sleipnir.scheduler.errors import (
    ActionRefused,
    DefinitionChanged,
    NameInUse,
    NameTaken,
    SubmissionRefused,
    TriggerNotFound,
)
from sleipnir.scheduler.runs.hooks.model import SECRET_KEPT_S, SealedSecret, good_secrets, rotated
from sleipnir.scheduler.runs.hooks.signing import new_secret
from sleipnir.scheduler.runs.inbound.triggers import MOST_TRIGGERS, Trigger, Verify, require_trigger
from sleipnir.scheduler.runs.inbound.verifying import is_genuine
from sleipnir.scheduler.runs.labels import require_short_name
from sleipnir.scheduler.store.hooks.triggers import Triggers

if TYPE_CHECKING:
    from sleipnir.scheduler.client.client import Client
    from sleipnir.scheduler.runs.inbound.triggers import Outcome
    from sleipnir.scheduler.store.hooks.inbound_figures import InboundCounts

_TOKEN_BYTES: Final = 32
# Another change may come between a read and a write, again and again only under load.
_ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class NewTrigger:
    """A trigger, and the secret of those who may fire it, which is shown this once."""

    trigger: Trigger
    secret: str | None  # None: anybody may


class TriggerClient:
    """Makes, changes and removes triggers, and checks requests to them; `Client.triggers`."""

    def __init__(self, client: Client) -> None:
        self._store = Triggers(client.store)
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

    def create(self, name: str, wanted: Mapping[str, Any] | WantedTrigger) -> NewTrigger:
        """Make a trigger, with a secret of its own.

        Args:
            wanted: what it is made of, by the names of the fields of `WantedTrigger`.

        Raises:
            SubmissionRefused: it is not valid, or there are too many.
            NameInUse: there is one of that name.
            SettingInvalid: `hook_key_file` is not set, or cannot be used.
        """
        require_short_name("a trigger", name)
        form = wanted if isinstance(wanted, WantedTrigger) else WantedTrigger.of(wanted)
        blank = Trigger(name, form.agent, form.verify, made_ms=self._clock.now_ms())
        trigger = _defined(blank, form)
        if self._store.count() >= MOST_TRIGGERS:
            raise SubmissionRefused(
                f"there are {MOST_TRIGGERS:,} triggers, and no more can be: delete some"
            )
        secret = None
        if form.verify != "none":
            secret = _secret_for(form.verify)
            trigger = replace(trigger, secrets=(SealedSecret(self._key.seal(secret)),))
        try:
            self._store.put(trigger, None)
        except NameTaken as error:
            raise NameInUse("trigger", name) from error
        return NewTrigger(trigger, secret)

    def edit(self, name: str, changes: Mapping[str, Any]) -> Trigger:
        """Change a trigger; its secret stays, and deliveries that it knows are known still.

        Raises:
            SubmissionRefused: the result is not valid, or would be verified otherwise.
            TriggerNotFound: there is none of that name.
        """
        for _ in range(_ATTEMPTS):
            before = self.get(name)
            form = WantedTrigger.of({**wanted_of(before), **changes})
            if form.verify != before.verify:
                raise SubmissionRefused(
                    f"trigger '{name}' is verified as {before.verify}, which its secret is for: "
                    "to verify it otherwise, delete it and create another one"
                )
            trigger = _defined(before, form)
            if self._replaced(before, trigger):
                return trigger
        raise _too_busy(name)

    def rotate(self, name: str, keep_s: float = SECRET_KEPT_S) -> str:
        """Give a trigger another secret, and return it; the one before is good for a while.

        Raises:
            ActionRefused: it has none, as anybody may fire it.
            TriggerNotFound: there is none of that name.
            SettingInvalid: `hook_key_file` is not set, or cannot be used.
        """
        for _ in range(_ATTEMPTS):
            before, now_ms = self.get(name), self._clock.now_ms()
            if before.verify == "none":
                raise ActionRefused(f"trigger '{name}' has no secret: anybody may fire it")
            secret = _secret_for(before.verify)
            sealed = self._key.seal(secret)
            made = replace(before, secrets=rotated(before.secrets, sealed, now_ms, keep_s))
            if self._replaced(before, made):
                return secret
        raise _too_busy(name)

    def delete(self, name: str) -> None:
        """Remove a trigger; runs that it has started go on.

        Raises:
            TriggerNotFound: there is none of that name.
        """
        if not self._store.remove(self.get(name)):
            raise TriggerNotFound(name)

    def count(self, trigger: Trigger, outcome: Outcome) -> None:
        """Count what has become of a request."""
        self._store.figures.count_request(trigger, outcome)

    def figures(self) -> InboundCounts:
        """Return what has become of requests so far."""
        return self._store.figures.read()

    def is_genuine(self, trigger: Trigger, headers: Mapping[str, str], body: bytes) -> bool:
        """Return whether a request proves that it may fire a trigger.

        Raises:
            SettingInvalid: `hook_key_file` is not set, or is another one.
        """
        now_ms = self._clock.now_ms()
        keys = [self._key.open(each.sealed) for each in good_secrets(trigger.secrets, now_ms)]
        return is_genuine(trigger.verify, keys, headers, body, now_ms / 1000)

    def _replaced(self, before: Trigger, trigger: Trigger) -> bool:
        try:
            self._store.put(trigger, before)
        except DefinitionChanged:
            return False
        return True


def _defined(trigger: Trigger, form: WantedTrigger) -> Trigger:
    """Return a trigger as a form says; raises SubmissionRefused if it is not valid."""
    made = replace(
        trigger,
        agent=form.agent,
        prompt=form.prompt,
        state=dict(form.set),
        key=form.key,
        headers=tuple(each.lower() for each in form.header),
        batch=form.batch,
    )
    require_trigger(made, allow_anonymous=form.allow_anonymous)
    return made


def _secret_for(verify: Verify) -> str:
    return new_secret() if verify == "standard" else secrets.token_urlsafe(_TOKEN_BYTES)


def _too_busy(name: str) -> ActionRefused:
    return ActionRefused(f"trigger '{name}' is changed by others all the time: try again")
