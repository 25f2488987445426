"""Clients that replay what Redis carries out for visits of empty nodes, without Celery."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor

from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.runs.events import Departure, StepCommitted
from sleipnir.scheduler.runs.ids import PARTITIONS, VisitId, partition_of
from sleipnir.scheduler.runs.model import Lease
from sleipnir.scheduler.runs.plan import Plan
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.cluster.groups import is_grouped
from sleipnir.scheduler.store.cluster.layout import tag_of
from sleipnir.scheduler.store.keys import LANES, QUEUE, lane_key
from sleipnir.scheduler.store.run_store import RunStore

VISITS = 3_000  # replayed by the clients together
CLIENTS = (1, 8, 64)
_OF_RUN = VISITS // CLIENTS[-1]  # at most


def replay(client: Client, agent: PreparedAgent, clients: int) -> int:
    """Have so many clients take, begin and advance visits of a linear agent; return how many.

    Their runs take turns in all partitions, over which random ids of many runs are spread evenly.
    """
    each = VISITS // clients

    def work(number: int) -> None:
        for order, done in enumerate(range(0, each, _OF_RUN)):
            run_id = f"{(number + order) % PARTITIONS:02x}{secrets.token_hex(7)}"
            client.submit(agent, Request(run_id=run_id))
            _replay_run(client.store, run_id, min(_OF_RUN, each - done))

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(work, range(clients)))
    return each * clients


def _replay_run(store: RunStore, run_id: str, length: int) -> None:
    partition = partition_of(run_id)
    tag = tag_of(partition) if is_grouped(store.client) else ""
    lanes = [tag + lane_key(QUEUE, lane) for lane in range(LANES)]
    for step in range(1, length + 1):
        store.client.brpop(lanes, timeout=5)
        node, following = f"n{step - 1}", (f"n{step}",)
        lease = Lease(run_id, VisitId.of(step, node), f"{run_id}-{step}")
        store.visits.begin(lease, ("none",))
        writes = {f"result_{step - 1}": "[]"}
        plan = Plan(writes, following) if step < length else Plan(writes, output="")
        departure = Departure(node, plan.frontier, None)
        event = StepCommitted(step, (departure,), tuple((n, "map") for n in plan.frontier))
        timing = {node: {"ms": 1, "wait": 1}}
        store.visits.advance(lease, step, plan, cap=100, window=8, nodes=timing, event=event)
