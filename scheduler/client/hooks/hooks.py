"""The part of the Python client for hooks."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sleipnir.records import dataclass
from sleipnir.scheduler.client.hooks.wanted import WantedHook, changed_form
from sleipnir.scheduler.config.secret_files.hook_key import HookKey
from sleipnir.scheduler.errors import (
    ActionRefused,
    DefinitionChanged,
    HookNotFound,
    NameInUse,
    NameTaken,
    SubmissionRefused,
)
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.runs.hooks.model import (
    MOST_HOOKS,
    NOTIFICATION_PREFIX,
    SECRET_KEPT_S,
    TEST_EVENT,
    Hook,
    SealedSecret,
    events_named,
    rotated,
)
from sleipnir.scheduler.runs.hooks.signing import new_secret
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS, partition_of
from sleipnir.scheduler.runs.labels import require_short_name

if TYPE_CHECKING:
    from sleipnir.scheduler.client.client import Client
    from sleipnir.scheduler.store.hooks.hooks import HookFigures
    from sleipnir.scheduler.store.hooks.records import Attempt

# Another change may come between a read and a write, again and again only under load.
_ATTEMPTS: Final = 20
_LOOK_S: Final = 0.1
DISABLED_BY_HAND: Final = "disabled by a person"


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A hook, and the secret that it signs with from now on, which is shown this once."""

    hook: Hook
    secret: str


class HookClient:
    """Makes, changes, tries and removes hooks; `Client.hooks` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._store = client.store.hooks
        self._deliveries = client.store.deliveries
        self._settings = client.store.settings
        self._key = HookKey(self._settings.hook_key_file)

    def list(self) -> Sequence[Hook]:
        """Return all hooks, by name."""
        return list(self._store.read_all().values())

    def get(self, name: str) -> Hook:
        """Return a hook.

        Raises:
            HookNotFound: there is none of that name.
        """
        require_short_name("a hook", name)
        hook = self._store.read(name)
        if hook is None:
            raise HookNotFound(name)
        return hook

    def create(self, name: str, wanted: Mapping[str, Any] | WantedHook) -> NewSecret:
        """Make a hook, with a secret of its own.

        Args:
            wanted: what it is made of, by the names of the fields of `WantedHook`.

        Raises:
            SubmissionRefused: it is not valid, or its name is of `notify`.
            NameInUse: there is one of that name.
            SettingInvalid: `hook_key_file` is not set, or cannot be used.
        """
        require_short_name("a hook", name)
        _require_own(name)
        form = self._form(wanted.model_dump() if isinstance(wanted, WantedHook) else wanted)
        hooks = self.list()
        if len(hooks) >= MOST_HOOKS and all(hook.name != name for hook in hooks):
            raise SubmissionRefused(
                f"there are {len(hooks)} hooks, and no more than {MOST_HOOKS} can be: delete some"
            )
        secret = new_secret()
        made_ms = self._client.store.clock.now_ms()
        sealed = SealedSecret(self._key.seal(secret))
        hook = _defined(Hook(name, form.url, (), secrets=(sealed,), made_ms=made_ms), form)
        try:
            self._store.put(hook, None)
        except NameTaken as error:
            raise NameInUse("hook", name) from error
        return NewSecret(hook, secret)

    def edit(self, name: str, changes: Mapping[str, Any]) -> Hook:
        """Change a hook. One that failed for long, or was disabled, is told again if `enabled`.

        Raises:
            SubmissionRefused: the result is not valid, or the hook is of `notify`.
            HookNotFound: there is none of that name.
        """
        _require_own(name)
        for _ in range(_ATTEMPTS):
            before = self.get(name)
            hook = _defined(before, self._form(changed_form(before, changes)))
            if self._replaced(before, hook):
                if before.disabled is not None:
                    self._store.forgive(name)
                return hook
        raise _too_busy(name)

    def rotate(self, name: str, keep_s: float = SECRET_KEPT_S) -> NewSecret:
        """Give a hook another secret; the one before it signs as well for a while.

        Raises:
            SubmissionRefused: it is of `notify`, and has none.
            HookNotFound: there is none of that name.
            SettingInvalid: `hook_key_file` is not set, or cannot be used.
        """
        _require_own(name)
        secret = new_secret()
        for _ in range(_ATTEMPTS):
            before, now_ms = self.get(name), self._client.store.clock.now_ms()
            sealed = self._key.seal(secret)
            hook = replace(before, secrets=rotated(before.secrets, sealed, now_ms, keep_s))
            if self._replaced(before, hook):
                return NewSecret(hook, secret)
        raise _too_busy(name)

    def test(self, name: str) -> str:
        """Send a hook an event `hook.test`, and return its id.

        Raises:
            HookNotFound: there is none of that name.
            ActionRefused: it is disabled.
        """
        hook = self.get(name)
        if hook.disabled is not None:
            raise ActionRefused(f"hook '{name}' is disabled: {hook.disabled}")
        event_id = f"evt_{secrets.token_hex(16)}"
        partition = secrets.choice(ALL_PARTITIONS)
        self._store.record(partition, TEST_EVENT, event_id, {"hook": name}, hook=name)
        return event_id

    def attempts(self, name: str) -> Sequence[Attempt]:
        """Return the last attempts to tell a hook, the newest first.

        Raises:
            HookNotFound: there is none of that name.
        """
        return self._deliveries.attempts(self.get(name).name)

    def wait_for(self, name: str, event_id: str, timeout_s: float) -> Attempt | None:
        """Return the first attempt to deliver an event, once it was made; None if it is not."""
        for _ in range(max(1, int(timeout_s / _LOOK_S))):
            for attempt in self._deliveries.attempts(name):
                if attempt.event_id == event_id:
                    return attempt
            pause(_LOOK_S)
        return None

    def redeliver(self, name: str, event_id: str) -> None:
        """Deliver an event again, of those whose attempts are known; it has the same id.

        Raises:
            HookNotFound: there is no hook of that name.
            ActionRefused: it knows no such event.
        """
        known = [each for each in self.attempts(name) if each.event_id == event_id]
        if not known:
            raise ActionRefused(
                f"hook '{name}' knows no event '{event_id}': `sleipnir hook deliveries {name}` "
                "lists the last ones"
            )
        subject = {**known[0].subject, "at": known[0].at_ms}
        if known[0].url:
            subject["url"] = known[0].url
        run = str(subject.get("run", ""))
        partition = partition_of(run) if run else secrets.choice(ALL_PARTITIONS)
        self._store.record(partition, known[0].event, event_id, subject, hook=name)

    def delete(self, name: str) -> None:
        """Remove a hook; what it was not told yet it will not be.

        Raises:
            SubmissionRefused: it is of `notify`.
            HookNotFound: there is none of that name.
        """
        _require_own(name)
        if not self._store.remove(self.get(name).name):
            raise HookNotFound(name)
        self._deliveries.drop(name)

    def figures(self) -> Mapping[str, HookFigures]:
        """Return what has become of deliveries so far, by hook."""
        return self._store.figures()

    def open_deliveries(self) -> Mapping[str, int]:
        """Return how many events each hook has yet to be told."""
        return self._deliveries.count_by_hook()

    def _form(self, given: Mapping[str, Any]) -> WantedHook:
        return WantedHook.of(given, allow_private=self._settings.allow_private_addresses)

    def _replaced(self, before: Hook, hook: Hook) -> bool:
        try:
            self._store.put(hook, before)
        except DefinitionChanged:
            return False
        return True


def _require_own(name: str) -> None:
    if name.startswith(NOTIFICATION_PREFIX):
        raise SubmissionRefused(
            f"hooks '{NOTIFICATION_PREFIX}…' are made by `notify` in config.yaml: change it there, "
            "and start the scheduler again"
        )


def _defined(hook: Hook, form: WantedHook) -> Hook:
    disabled = None if form.enabled else hook.disabled or DISABLED_BY_HAND
    return replace(
        hook,
        url=form.url,
        events=events_named(form.events),
        agent=form.filter.agent,
        batch=form.filter.batch,
        labels=dict(form.filter.label),
        disabled=disabled,
    )


def _too_busy(name: str) -> ActionRefused:
    return ActionRefused(f"hook '{name}' is changed by others all the time: try again")
