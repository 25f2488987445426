"""What a delivery says: the event, and the document of what it is about."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from sleipnir.scheduler.client.inbound.answer_links import make_answer_link
from sleipnir.scheduler.config.secret_files.hook_key import HookKey
from sleipnir.scheduler.errors import (
    ActionRefused,
    RunNotFound,
    ScheduleNotFound,
    SettingInvalid,
)
from sleipnir.scheduler.runs.model import Question, Run
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.hooks.records import HookEvent
from sleipnir.scheduler.views.batches import batch_page
from sleipnir.scheduler.views.documents import question_document
from sleipnir.scheduler.views.run import headline_document
from sleipnir.scheduler.views.schedules.documents import schedule_document
from sleipnir.scheduler.views.text.masked import Masks

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

MOST_BYTES: Final = 256 * 1024
# Of a text, if the whole is too large; tried in turn.
_SHORTER: Final = (32_000, 4_000, 400, 0)


class Bodies:
    """Makes bodies from what is stored when they are sent."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._masks = Masks(client)
        self._key = HookKey(client.store.settings.hook_key_file)
        self._public_url = (client.store.settings.monitor_public_url or "").rstrip("/")

    def of(self, event: HookEvent, hook: str) -> bytes:
        """Return the body of a delivery to a hook, of at most `MOST_BYTES`."""
        data = self._data(event.subject)
        if event.event == "question.asked":
            data["answer_url"] = self._answer_url(event, hook)
        about = {"type": event.event, "timestamp": to_rfc3339(event.at_ms)}
        body = _encoded({**about, "data": data})
        for most in _SHORTER:
            if len(body) <= MOST_BYTES:
                break
            body = _encoded({**about, "data": {**_shortened(data, most), "cut": True}})
        return body

    def _data(self, subject: Mapping[str, Any]) -> dict[str, Any]:
        if "run" in subject:
            return self._of_run(str(subject["run"]), subject.get("question"))
        if "schedule" in subject:
            return self._of_schedule(str(subject["schedule"]), subject)
        if "batch" in subject:
            return self._of_batch(str(subject["batch"]))
        if "budget" in subject:
            return {**subject, "url": self._url("/limits")}
        return dict(subject)

    def _of_run(self, run_id: str, place: str | None) -> dict[str, Any]:
        try:
            run = self._client.run(run_id)
        except RunNotFound:
            return {"run_id": run_id, "status": None, "url": None}
        found: dict[str, Any] = dict(headline_document(self._client, run))
        found["url"] = self._url(f"/runs/{run_id}")
        if place is not None:
            found["question"] = self._question(run, place)
        masked: dict[str, Any] = self._masks.masked(found, run)
        return masked

    def _question(self, run: Run, place: str) -> dict[str, Any]:
        """Return a question, or only its id if it is no longer open."""
        question = self._open_question(run.run_id, place)
        if question is not None:
            return dict(question_document(question))
        visit, _, call = place.partition(" ")
        step = visit.partition("/")[0]
        return {"question_id": f"{run.run_id}/{f'{step}/{call}' if call else visit}"}

    def _open_question(self, run_id: str, place: str) -> Question | None:
        visit, _, call = place.partition(" ")
        for question in self._client.open_questions(run_id):
            is_there = question.run_id == run_id and question.visit == visit
            if is_there and (not call or question.call == call):
                return question
        return None

    def _answer_url(self, event: HookEvent, hook: str) -> str | None:
        """Return a link to answer with; None if there may be none, or nothing to answer any more.

        It is the same at every attempt: a receiver that has seen the first one ignores the others.
        """
        try:
            question = self._open_question(
                str(event.subject["run"]), str(event.subject["question"])
            )
            if question is None:
                return None
            recipient = f"hook {hook}" if event.url is None else "webhook of the run"
            secret = self._key.derived(f"answer link {event.event_id} {recipient}")
            token = urlsafe_b64encode(secret).decode().rstrip("=")
            return make_answer_link(self._client, question, recipient, token).url
        except (ActionRefused, RunNotFound, SettingInvalid):
            return None

    def _of_schedule(self, name: str, subject: Mapping[str, Any]) -> dict[str, Any]:
        try:
            found = dict(schedule_document(self._client.schedules.get(name)))
        except ScheduleNotFound:
            found = {"name": name}
        more = {key: value for key, value in subject.items() if key != "schedule"}
        return {**found, **more, "url": self._url(f"/schedules/{quote(name, safe='')}")}

    def _of_batch(self, name: str) -> dict[str, Any]:
        found = batch_page(self._client.queries, name) or {"batch": name}
        return {**found, "url": self._url(f"/batches/{quote(name, safe='')}")}

    def _url(self, path: str) -> str | None:
        return f"{self._public_url}{path}" if self._public_url else None


def _encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _shortened(value: Any, most: int) -> Any:
    """Return JSON in which no text is longer, and no list has more than a hundred entries."""
    if isinstance(value, str):
        return value[:most] if len(value) > most else value
    if isinstance(value, Mapping):
        return {key: _shortened(each, most) for key, each in list(value.items())[:100]}
    if isinstance(value, list | tuple):
        return [_shortened(each, most) for each in value[:100]]
    return value
