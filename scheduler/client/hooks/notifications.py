"""Notifications: hooks that `notify` in config.yaml makes, which tell people by Apprise.

Redis has neither their URLs nor other secrets: whoever sends reads them of its own settings.
"""

from __future__ import annotations

import importlib.util
import logging
import re
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Final

from sleipnir.graphs.state import encode
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.notify import NotifySettings
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.errors import (
    DefinitionChanged,
    NameTaken,
    SettingInvalid,
    SubmissionRefused,
)
from sleipnir.scheduler.runs.hooks.model import (
    ENDS,
    NOTIFICATION_PREFIX,
    Hook,
    events_named,
    require_filters,
)
from sleipnir.scheduler.store.run_store import RunStore

# An extra.
with lazy_imports():
    import apprise

MOST_NOTIFICATIONS: Final = 16
_SCHEME: Final = re.compile(r"([A-Za-z0-9]{1,20})://")


def notification_urls(settings: Settings) -> dict[str, str]:
    """Return the URLs of notifications by the names of their hooks."""
    return {_name(entry): entry.url.get_secret_value() for entry in settings.notify}


def require_notifications(settings: Settings) -> None:
    """Check that everything in `notify` can be sent.

    Raises:
        SettingInvalid: an entry is not valid, or the extra is not installed; names it.
    """
    if not settings.notify:
        return
    if importlib.util.find_spec("apprise") is None:
        raise SettingInvalid(
            "notify: what sends notifications is not installed: "
            "pip install 'sleipnir[notify]', or remove `notify`"
        )
    if len(settings.notify) > MOST_NOTIFICATIONS:
        raise SettingInvalid(
            f"notify: {len(settings.notify)} entries; {MOST_NOTIFICATIONS} are allowed"
        )
    for place, entry in enumerate(settings.notify):
        _require_choice(place, entry)
        if not _is_usable(entry.url.get_secret_value()):
            raise SettingInvalid(
                f"notify.{place}.url: Apprise cannot use '{_shown_url(entry)}': no such service, "
                "or a part of the URL is missing; https://appriseit.com lists them"
            )
    if len(notification_urls(settings)) < len(settings.notify):
        raise SettingInvalid(
            "notify: two entries have the same URL and filter: give one of them the events of both"
        )


def store_notifications(store: RunStore) -> None:
    """Make the stored notifications those of the settings.

    Raises:
        SettingInvalid: as of `require_notifications`.
    """
    require_notifications(store.settings)
    known = {name: hook for name, hook in store.hooks.read_all().items() if hook.is_notification}
    now_ms = store.clock.now_ms()
    wanted = {_name(entry): _hook(entry, now_ms) for entry in store.settings.notify}
    for name in known.keys() - wanted.keys():
        store.hooks.remove(name)
        store.deliveries.drop(name)
    for name, hook in wanted.items():
        before = known.get(name)
        if before is not None and replace(hook, made_ms=before.made_ms) == before:
            continue
        # Another scheduler that starts has stored it meanwhile.
        with suppress(NameTaken, DefinitionChanged):
            store.hooks.put(hook, before)
        if before is not None and before.disabled is not None:
            store.hooks.forgive(name)


def _is_usable(url: str) -> bool:
    # What Apprise says of a URL may have parts of it, which are secret.
    log = logging.getLogger("apprise")
    log.disabled = True
    try:
        return apprise.Apprise.instantiate(url) is not None
    finally:
        log.disabled = False


def _require_choice(place: int, entry: NotifySettings) -> None:
    try:
        events_named(entry.events)
        require_filters(entry.filter.agent, entry.filter.batch, entry.filter.label)
    except SubmissionRefused as error:
        raise SettingInvalid(f"notify.{place}: {error}") from error


def _hook(entry: NotifySettings, now_ms: int) -> Hook:
    return Hook(
        name=_name(entry),
        url=_shown_url(entry),
        events=events_named(entry.events) if entry.events else ENDS,
        agent=entry.filter.agent,
        batch=entry.filter.batch,
        labels=entry.filter.label,
        made_ms=now_ms,
    )


def _name(entry: NotifySettings) -> str:
    """Return the same name as long as URL and filter are the same."""
    chosen = {
        "agent": entry.filter.agent,
        "batch": entry.filter.batch,
        "label": dict(sorted(entry.filter.label.items())),
    }
    digest = sha256(f"{entry.url.get_secret_value()}\n{encode(chosen)}".encode()).hexdigest()
    return f"{NOTIFICATION_PREFIX}{_scheme(entry)}.{digest[:8]}"


def _shown_url(entry: NotifySettings) -> str:
    return f"{_scheme(entry)}://…"


def _scheme(entry: NotifySettings) -> str:
    found = _SCHEME.match(entry.url.get_secret_value())
    return found[1].lower() if found else "unknown"
