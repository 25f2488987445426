"""The part of the Python client for schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.normal_agent import is_normal
from sleipnir.scheduler.client.rerun.agents import reference_of
from sleipnir.scheduler.client.schedules import starting
from sleipnir.scheduler.client.schedules.starting import ATTEMPTS, read, too_busy
from sleipnir.scheduler.client.schedules.wanted import OTHER_NAMES, WantedSchedule, wanted_of
from sleipnir.scheduler.errors import (
    NameInUse,
    ScheduleChanged,
    ScheduleExists,
    ScheduleNotFound,
    SubmissionRefused,
)
from sleipnir.scheduler.runs.labels import require_short_name
from sleipnir.scheduler.runs.schedules.firing import paused, resumed
from sleipnir.scheduler.runs.schedules.instants import next_after
from sleipnir.scheduler.runs.schedules.model import (
    MOST_SCHEDULES,
    Overlap,
    Schedule,
)
from sleipnir.scheduler.runs.schedules.template import (
    SCHEDULED_AT,
    require_room_for_labels,
    to_text,
)
from sleipnir.scheduler.runs.submit import Request

if TYPE_CHECKING:
    from sleipnir.scheduler.client.client import Client
    from sleipnir.scheduler.client.preparation import PreparedAgent
    from sleipnir.scheduler.client.schedules.starting import Backfilled
    from sleipnir.scheduler.store.schedules.schedules import StoredSchedule


class ScheduleClient:
    """Makes, changes and removes schedules; `Client.schedules` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._store = client.store.schedules

    def list(self) -> Sequence[Schedule]:
        """Return all schedules, by name."""
        return [stored.schedule for stored in self._store.read_all()]

    def get(self, name: str) -> Schedule:
        """Return a schedule.

        Raises:
            ScheduleNotFound: there is none of that name.
        """
        return read(self._client, name).schedule

    def create(self, name: str, wanted: Mapping[str, Any] | WantedSchedule) -> Schedule:
        """Make a schedule of an agent as it is now: its runs use its files of this moment.

        Args:
            wanted: what it is made of, by the names of the fields of `WantedSchedule`.

        Raises:
            SubmissionRefused: it is not valid.
            NameInUse: there is one of that name.
            AgentNotFound, InvalidAgent, BundleError: the agent cannot be run.
        """
        require_short_name("a schedule", name)
        form = wanted if isinstance(wanted, WantedSchedule) else WantedSchedule.of(wanted)
        names = self._store.names()
        if name in names:
            raise NameInUse("schedule", name)
        if len(names) >= MOST_SCHEDULES:
            raise SubmissionRefused(
                f"there are {len(names):,} schedules, and no more than {MOST_SCHEDULES:,} can be: "
                "delete some"
            )
        schedule, run = self._made(name, form, self._client.prepare(form.agent))
        try:
            self._store.put(schedule, run, is_new=True)
        except ScheduleExists as error:
            raise NameInUse("schedule", name) from error
        return self.get(name)

    def edit(self, name: str, changes: Mapping[str, Any]) -> Schedule:
        """Change a schedule; `agent` among the changes packs the agent's files anew.

        Raises:
            SubmissionRefused: the result is not valid, or the session would be another one.
            ScheduleNotFound: there is none of that name.
            AgentNotFound, InvalidAgent, BundleError: the agent cannot be run.
        """
        for _ in range(ATTEMPTS):
            stored = read(self._client, name)
            form = _changed_form(stored.schedule, changes)
            schedule, run = self._edited(stored, form, is_repacked="agent" in changes)
            try:
                self._store.put(schedule, run, is_new=False)
            except ScheduleChanged:
                continue
            return self.get(name)
        raise too_busy(name)

    def check(self, name: str, fields: Mapping[str, Any]) -> None:
        """Check that a schedule can be made of fields, or changed by them if there is one.

        Raises:
            SubmissionRefused, AgentNotFound, InvalidAgent, BundleError: as `create` and `edit`.
        """
        stored = self._store.read(name)
        if stored is None:
            form = WantedSchedule.of(fields)
            self._made(name, form, self._client.prepare(form.agent))
        else:
            form = _changed_form(stored.schedule, fields)
            self._edited(stored, form, is_repacked="agent" in fields)

    def _edited(
        self, stored: StoredSchedule, form: WantedSchedule, *, is_repacked: bool
    ) -> tuple[Schedule, str]:
        before = stored.schedule
        if form.session != before.session:
            raise _session_fixed()
        is_same_run = wanted_of(before) == {**wanted_of(before), **_run_of(form)}
        if is_repacked or not is_same_run:
            agent = form.agent if is_repacked else reference_of(before.agent, before.agent_path)
            prepared = self._client.prepare(agent)
            if not is_repacked and prepared.digest != before.digest:
                raise SubmissionRefused(
                    f"the files of agent '{before.agent}' have changed since schedule "
                    f"'{before.name}' was made: give --agent {before.agent} too, to use them as "
                    "they are now"
                )
            made, run = self._made(before.name, form, prepared)
            if form.session is not None and made.agent != before.agent:
                raise _session_fixed()
        else:
            made, run = self._defined(before, form), stored.run
        return _as_far_as(before, made, form, self._now_ms()), run

    def pause(self, name: str, reason: str = "") -> Schedule:
        """Let a schedule start no more runs; raises ScheduleNotFound."""
        text = reason.strip() or "paused by a person"
        return self._change(name, lambda schedule: paused(schedule, text))

    def resume(self, name: str) -> Schedule:
        """Let a schedule fire again, from now on; raises ScheduleNotFound."""
        now_ms = self._now_ms()
        return self._change(
            name,
            lambda schedule: resumed(schedule, now_ms) if schedule.is_paused else schedule,
        )

    def _change(self, name: str, change: Any) -> Schedule:
        for _ in range(ATTEMPTS):
            stored = read(self._client, name)
            try:
                self._store.step(stored, change(stored.schedule), None)
            except ScheduleChanged:
                continue
            return self.get(name)
        raise too_busy(name)

    def delete(self, name: str) -> None:
        """Remove a schedule; its runs go on. Raises ScheduleNotFound."""
        if not self._store.remove(read(self._client, name)):
            raise ScheduleNotFound(name)

    def trigger(self, name: str) -> str:
        """Start a run now, paused or not, beside the instants; return its id.

        Raises:
            ScheduleNotFound: there is none of that name.
            ActionRefused: a run of it is open, and it does not allow another one.
        """
        return starting.trigger(self._client, name)

    def backfill(
        self, name: str, from_ms: int, to_ms: int, overlap: Overlap | None = None
    ) -> Backfilled:
        """Start the runs of instants that have passed, from one to another, both included.

        Instants that have a run already are left as they are.

        Args:
            overlap: of these; None: all at once, or one after the other if they share a session.

        Raises:
            ScheduleNotFound: there is none of that name.
            ActionRefused: there are too many instants, or they have not passed.
        """
        return starting.backfill(self._client, name, from_ms, to_ms, overlap)

    # ---- parts

    def _now_ms(self) -> int:
        return self._client.store.clock.now_ms()

    def _made(self, name: str, form: WantedSchedule, agent: PreparedAgent) -> tuple[Schedule, str]:
        """Return a schedule of an agent as it was prepared, and what it starts."""
        require_room_for_labels(form.label)
        settings = self._client.store.settings
        request = Request(
            prompt=form.prompt,
            # Its size counts, its value differs from run to run.
            state=form.set if is_normal(agent.graph) else {SCHEDULED_AT: "", **form.set},
            variables=form.var,
            labels=form.label,
            queue=form.queue,
            webhook=form.webhook,
            headless=False,
            session="temp",
            user=settings.identity,
        )
        run = self._client.new_run(agent, request)
        if form.session is not None:
            self._client.session_for(agent, replace(request, session=form.session))
        now_ms = self._now_ms()
        blank = Schedule(
            name,
            agent.name,
            agent.digest,
            form.timing(),
            agent_path=agent.path,
            session=form.session,
            secrets=run.context.secrets,
            packed_ms=now_ms,
        )
        made = self._defined(blank, form)
        if form.paused:
            return paused(made, "made paused"), to_text(run)
        return replace(made, next_ms=next_after(made.timing, now_ms)), to_text(run)

    def _defined(self, schedule: Schedule, form: WantedSchedule) -> Schedule:
        given = _run_of(form)
        return replace(
            schedule,
            timing=form.timing(),
            given={key: value for key, value in given.items() if value},
            overlap=Overlap(form.overlap),
            catchup_s=form.catchup,
            pause_on_failure=form.pause_on_failure,
        )


def _run_of(form: WantedSchedule) -> dict[str, Any]:
    """Return the fields that the runs depend on."""
    names = ("prompt", "set", "var", "label", "queue", "webhook")
    return {name: getattr(form, name) for name in names}


def _as_far_as(before: Schedule, made: Schedule, form: WantedSchedule, now_ms: int) -> Schedule:
    """Return a changed schedule with what the one before it has done."""
    kept = replace(
        made,
        revision=before.revision,
        last_run=before.last_run,
        last_ms=before.last_ms,
        buffered=before.buffered,
        fired=before.fired,
        skipped=before.skipped,
        missed=before.missed,
        next_ms=before.next_ms,
        paused=before.paused,
    )
    if form.paused:
        return kept if before.is_paused else paused(kept, "paused by a change")
    if before.is_paused or made.timing != before.timing:
        return resumed(kept, now_ms)
    return kept


def _changed_form(schedule: Schedule, changes: Mapping[str, Any]) -> WantedSchedule:
    return WantedSchedule.of({**wanted_of(schedule), **_whole(changes)})


def _whole(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes by field, with what they imply: cron lines replace an interval, and so on."""
    changes = {OTHER_NAMES.get(name, name): value for name, value in changes.items()}
    implied: dict[str, Any] = {}
    if changes.get("cron"):
        implied = {"every": None, "offset": 0}
    elif changes.get("every"):
        implied = {"cron": [], "timezone": "UTC"}
    return {**implied, **changes}


def _session_fixed() -> SubmissionRefused:
    return SubmissionRefused(
        "the session of a schedule cannot be changed: delete it and create another one"
    )
