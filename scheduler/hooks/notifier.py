"""Sends notifications by Apprise."""

from __future__ import annotations

import json
import logging
import threading
from concurrent.futures import Future
from typing import Final

from sleipnir.graphs.document.finding import cut, printable
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.client.hooks.notifications import notification_urls
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.hooks.messages import Message, message_of
from sleipnir.scheduler.hooks.sending import TOTAL_S, HookReply

# An extra.
with lazy_imports():
    import apprise

_MOST_OF_PROBLEM: Final = 1024  # characters
_MOST_UNDER_WAY: Final = 2  # requests of one hook, those that nobody waits for any more included


class Notifier:
    """Sends to the URLs of `notify`.

    Apprise bounds each step of a request but not all of them, and a thread of its own pool keeps
    the process from ending. So each request has a thread that nobody has to wait for.

    Args:
        total_s: how long to wait for a request.
    """

    def __init__(self, settings: Settings, total_s: float = TOTAL_S) -> None:
        self._urls = notification_urls(settings)
        self._public_url = settings.monitor_public_url or ""
        self._total_s = total_s
        # What they say besides warnings has URLs, which are secret.
        for logger in ("apprise", "urllib3"):
            logging.getLogger(logger).setLevel(logging.WARNING)
        self._room = {name: threading.Semaphore(_MOST_UNDER_WAY) for name in self._urls}

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
        if not self._room[name].acquire(blocking=False):
            return HookReply(None, "not sent: earlier attempts have not ended yet")
        outcome: Future[HookReply] = Future()
        threading.Thread(
            target=self._settle, args=(outcome, name, url, message), name=name, daemon=True
        ).start()
        try:
            return outcome.result(self._total_s)
        except TimeoutError:
            return HookReply(None, f"no reply within {self._total_s:.0f} s")

    def _settle(self, outcome: Future[HookReply], name: str, url: str, message: Message) -> None:
        try:
            reply = self._reply_to(url, message)
        except Exception as error:
            self._room[name].release()
            outcome.set_exception(error)
        else:
            self._room[name].release()
            outcome.set_result(reply)

    def _reply_to(self, url: str, message: Message) -> HookReply:
        asset = apprise.AppriseAsset(
            app_id="Sleipnir",
            app_desc="Sleipnir",
            app_url=self._public_url,
            image_url_mask="",  # no pictures of another site
            image_url_logo="",
            service_timeout=0,  # in this thread, not one of Apprise's own
        )
        sender = apprise.Apprise(asset=asset)
        sender.add(url)
        result = sender.notify(
            body=message.text,
            title=message.title,
            notify_type=message.level,
            body_format=apprise.NotifyFormat.TEXT.value,
        )
        if result:
            return HookReply(None)
        said = "; ".join(dict.fromkeys(entry.message for entry in result.logs()))
        return HookReply(None, f"not sent: {cut(printable(said), _MOST_OF_PROBLEM)}")
