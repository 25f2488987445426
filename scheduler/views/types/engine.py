"""The engine as a whole: workers, queues, limits."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from sleipnir.scheduler.client.limits.report import BudgetLine, LimitLine, PauseLine
from sleipnir.scheduler.runs.documents import about
from sleipnir.scheduler.views.types.economy import CollectionDocument, GroupDocument


class HolderDocument(TypedDict):
    """A visit that holds a slot, of a worker or of a limit."""

    run_id: str
    node: Annotated[str, about("of an item of a map as `MAP/INDEX`")]


class WorkerDocument(TypedDict):
    name: str
    machine: str
    pid: int
    slots: int
    busy: int
    taken: int
    idle_s: float
    memory_bytes: int
    incarnation: str
    version: Annotated[str | None, about("of Sleipnir; null: unknown")]
    silent_s: float
    age_s: Annotated[float, about("since its start")]
    draining: Annotated[bool, about("takes no more visits, as it is to stop")]
    queues: Annotated[list[str], about("that it serves")]
    visits: Annotated[list[HolderDocument], about("that it executes; of very many, some")]


class ScaleDocument(TypedDict):
    queue: Annotated[str | None, about("null: several, all together")]
    work: Annotated[int, about("visits that are ready or running")]
    ready: Annotated[int, about("visits that a worker could take now")]
    running: Annotated[int, about("visits that workers execute")]
    oldest_s: Annotated[float, about("age of the oldest that is next in its lane")]
    slots: Annotated[int, about("visits that all workers can execute at once")]
    workers: Annotated[int, about("processes that take visits")]
    slots_per_worker: Annotated[int, about("of the latest worker, or as configured")]
    wanted_workers: Annotated[int, about("processes that could do all work at once")]


class QueueDocument(TypedDict):
    length: int
    oldest_s: float


class RedisMemoryDocument(TypedDict):
    bytes: int
    limit_bytes: int


class LastHourDocument(TypedDict):
    """What a scheduler samples once a minute; `null` for minutes in which none was running."""

    minutes: Annotated[list[str], about("when each begins; the last is under way")]
    until: Annotated[str, about("when the last one ends")]
    queued: Annotated[list[int | None], about("messages of all queues")]
    oldest_s: Annotated[list[float | None], about("age of the oldest of them")]
    busy: Annotated[list[int | None], about("slots of workers")]
    slots: list[int | None]
    memory_bytes: Annotated[list[int | None], about("of Redis")]


class FleetDocument(TypedDict):
    workers: list[WorkerDocument]
    lost: Annotated[list[WorkerDocument], about("silent without having ended, for a day")]
    slots: int
    busy: int
    last_taken_s: float | None
    queues: Annotated[dict[str, QueueDocument], about("by name")]
    deserted: Annotated[list[str], about("machines without a worker that open runs need")]
    unserved: Annotated[list[str], about("queues in which runs wait, but that no worker serves")]
    queued: Annotated[int, about("messages of all queues")]
    unowned: Annotated[int, about("partitions without a scheduler, of 64")]
    timer_lag_s: Annotated[float, about("delay of the most overdue timer")]
    redis: RedisMemoryDocument
    open: int
    waiting: int
    questions: int
    oldest_question_s: float | None
    last_hour: LastHourDocument


class LimitsDocument(TypedDict):
    limits: list[LimitLine]
    pauses: list[PauseLine]
    budgets: list[BudgetLine]
    today: Annotated[BudgetLine, about("the day (UTC), with or without a budget")]
    collections: Annotated[
        list[CollectionDocument], about("requests that wait for the next batch of a provider")
    ]
    groups: Annotated[list[GroupDocument], about("requests that are sent to a provider together")]


class LimitsPageDocument(LimitsDocument):
    """The same, with what the use of limits was and is made of."""

    last_hour: Annotated[
        dict[str, list[int | None]],
        about("how much of each `NAME.SETTING` was in use in each of the last 60 minutes"),
    ]
    holders: Annotated[
        dict[str, list[HolderDocument]], about("of slots, by the name of their limit; some of many")
    ]


class FoundDocument(TypedDict):
    kind: Annotated[str, about("`agent`, `batch`, `item`, `label`, `limit` or `run`")]
    name: str
    about: Annotated[str | None, about("of a run: its agent and status")]
    run_id: Annotated[str | None, about("of a run, or of an item's first one")]


class FoundPlace(FoundDocument):
    """What was found; all batches of an evaluation are one of kind `evaluation`."""

    path: Annotated[str, about("of the page that shows it")]


class FindDocument(TypedDict):
    found: Annotated[list[FoundPlace], about("the likeliest first; pages too")]


class TouchedDocument(TypedDict):
    """What a change to a limit affects now."""

    name: str
    under_way: Annotated[int, about("calls")]
    waiting: Annotated[int, about("calls")]
    runs: Annotated[list[str], about("ids of some of those that wait")]
