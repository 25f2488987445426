"""Sends notifications by Apprise."""

from __future__ import annotations

import json
from typing import Final

from sleipnir.graphs.document.finding import cut, printable
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.client.hooks.notifications import notification_urls
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.hooks.messages import message_of
from sleipnir.scheduler.hooks.sending import TOTAL_S, HookReply

# An extra.
with lazy_imports():
    import apprise

_MOST_OF_PROBLEM: Final = 1024  # characters


class Notifier:
    """Sends to the URLs of `notify`."""

    def __init__(self, settings: Settings) -> None:
        self._urls = notification_urls(settings)
        self._public_url = settings.monitor_public_url or ""

    def send(self, name: str, body: bytes) -> HookReply:
        """Tell what the body of a delivery says.

        Args:
            name: of the hook.
        """
        url = self._urls.get(name)
        if url is None:
            return HookReply(
                None, "not sent: it is not in `notify` of the settings of the scheduler that tried"
            )
        message = message_of(json.loads(body))
        asset = apprise.AppriseAsset(
            app_id="Sleipnir",
            app_desc="Sleipnir",
            app_url=self._public_url,
            image_url_mask="",  # no pictures of another site
            image_url_logo="",
        )
        sender = apprise.Apprise(asset=asset)
        sender.add(url)
        result = sender.notify(
            body=message.text,
            title=message.title,
            notify_type=message.level,
            body_format=apprise.NotifyFormat.TEXT.value,
            timeout=TOTAL_S,
        )
        if result:
            return HookReply(None)
        said = "; ".join(dict.fromkeys(entry.message for entry in result.logs()))
        return HookReply(None, f"not sent: {cut(printable(said), _MOST_OF_PROBLEM)}")
