"""Calls in batches of a provider: half the price, once each, whatever goes wrong."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest

from sleipnir.scheduler.client.limits.batches import make_live, send_now
from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.client.spending import SpendFilter, spending
from sleipnir.scheduler.doctor.consistency import ConsistencyCheck
from sleipnir.scheduler.errors import ActionRefused
from sleipnir.scheduler.runs.events import ModelCalled
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.runs.recording import read, written
from sleipnir.scheduler.store.economy.groups import Groups
from sleipnir.scheduler.store.economy.requests import Requests
from sleipnir.scheduler.views.waits import waits_of
from sleipnir.worker.llm.economy.joining import LARGEST_REQUEST_BYTES
from tests.support.economy import (
    ASKS,
    DAY_S,
    answer,
    assert_answered,
    carry,
    courier,
    groups,
    listed,
    submit,
)
from tests.support.engine import Engine
from tests.support.media import PNG, data_url
from tests.support.model_server import ModelServer, says


def test_calls_in_a_batch_cost_half_and_are_made_once(
    economical: Engine, server: ModelServer
) -> None:
    runs = submit(economical, 5)
    assert server.requests == []

    carry(economical)

    assert_answered(economical, runs)
    assert set(server.batches.bill.values()) == {1}
    assert len(server.batches.bill) == 5
    usage = economical.run(runs[0]).usage
    assert usage.cost_usd == usage.economy_usd == pytest.approx(7.5e-6)
    (called,) = economical.events(runs[0], ModelCalled)
    assert called.batch in server.batches.batches
    assert len(server.batches.batches) == 1
    assert not server.batches.files


@pytest.mark.parametrize("fault", ["lost", "missing", "strange", "unavailable"])
def test_whatever_goes_wrong_with_a_batch_each_call_is_billed_once(
    economical: Engine, server: ModelServer, fault: Any
) -> None:
    server.batches.faults.append(fault)
    server.batches.pending_polls = 1
    runs = submit(economical, 5)

    carry(economical, turns=14)

    assert_answered(economical, runs)
    assert server.batches.bill == {f"question {n}": 1 for n in range(5)}
    assert sum(economical.run(run_id).usage.cost_usd or 0 for run_id in runs) == pytest.approx(
        5 * 7.5e-6
    )


def test_lines_that_fail_or_expire_are_tried_again(economical: Engine, server: ModelServer) -> None:
    for fault in ("half_failed", "expired"):
        server.batches.faults.append(fault)
        runs = submit(economical, 4, ASKS.replace("max_tokens: 10", "max_attempts: 2"))

        carry(economical, turns=14)

        assert_answered(economical, runs)
    assert set(server.batches.bill.values()) == {2}  # each in both rounds


def test_a_batch_that_is_refused_is_halved(economical: Engine, server: ModelServer) -> None:
    server.batches.most_lines = 2
    runs = submit(economical, 5)

    carry(economical, turns=40)

    assert_answered(economical, runs)
    assert set(server.batches.bill.values()) == {1}


def test_after_the_deadline_calls_are_live_and_what_comes_later_only_counts(
    economical: Engine, server: ModelServer
) -> None:
    server.batches.pending_polls, server.batches.heeds_cancel = 10, False
    (run_id,) = submit(economical, 1, economy_s=1800.0)

    carry(economical, turns=3)
    economical.clock.move(1800)
    economical.tick()
    economical.drive()

    run = economical.run(run_id)
    assert (run.status, len(server.requests)) == (Status.SUCCEEDED, 1)
    assert run.usage.economy_usd == 0
    server.batches.pending_polls = 0
    carry(economical, turns=6, every_s=301)
    assert groups(economical) == []
    assert server.batches.cancelled  # nobody waited for it
    spent = spending(economical.store, ("node",), SpendFilter())
    assert spent.total.economy_usd == pytest.approx(7.5e-6)
    assert spent.total.calls == 2


def test_a_run_that_ends_takes_its_request_out(economical: Engine, server: ModelServer) -> None:
    ended, sent = submit(economical, 2)
    economical.client.cancel(ended)
    carry(economical, turns=1)
    assert [len(each.lines) for each in server.batches.batches.values()] == [1]

    economical.client.cancel(sent)
    carry(economical, turns=6)

    assert len(server.batches.cancelled) == 1
    assert groups(economical) == []
    assert not economical.redis.keys("*:request:*")


def test_a_provider_without_batches_is_called_live(economical: Engine, server: ModelServer) -> None:
    server.batches.has_interface = False
    runs = submit(economical, 2)

    carry(economical, turns=3)

    assert_answered(economical, runs)
    assert len(server.requests) == 2


@pytest.mark.parametrize("method", ["write", "forget_bodies", "deliver", "claim", "ids_of"])
def test_another_courier_goes_on_wherever_one_dies(
    economical: Engine, server: ModelServer, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner: Any = Groups if method == "write" else Requests
    real, calls = getattr(owner, method), iter(range(1000))
    server.batches.pending_polls = 1
    runs = submit(economical, 6)

    class Died(BaseException):
        pass

    def dying(self: Any, *given: Any, **named: Any) -> Any:
        if next(calls) in {1, 2, 5, 9, 30, 77}:
            raise Died
        return real(self, *given, **named)

    monkeypatch.setattr(owner, method, dying)
    for _ in range(60):
        economical.clock.move(31)
        with suppress(Died):
            courier(economical).turn()
        economical.drive()

    assert_answered(economical, runs)
    assert set(server.batches.bill.values()) == {1}


def test_a_budget_holds_what_requests_may_cost_at_half_price(
    economical: Engine, server: ModelServer
) -> None:
    runs = submit(economical, 3, batch="b", batch_budget_usd=5e-5)
    budget = economical.redis.hgetall("{limits}:budget:batch:b")
    assert int(budget["held_cost"]) > 0

    carry(economical)

    assert_answered(economical, runs)
    budget = economical.redis.hgetall("{limits}:budget:batch:b")
    assert (int(budget["held_cost"]), int(budget["cost"])) == (0, 3 * 7500)


def test_what_waits_is_listed_and_can_be_sent_or_made_live(
    economical: Engine, server: ModelServer
) -> None:
    runs = submit(economical, 2)
    rows = [economical.run(run_id) for run_id in runs]
    (collection,) = listed(economical)["collections"]
    assert (collection["name"], collection["requests"]) == ("openai:m", 2)
    waits = waits_of(economical.client, rows)[runs[0]]
    assert re.fullmatch(r"next provider batch openai, live from \d{4}-\d\d-\d\d \d\d:\d\d", waits)
    assert list(ConsistencyCheck(economical.redis).violations()) == []

    send_now(economical.store, "openai")
    courier(economical).turn()
    (group,) = listed(economical)["groups"]
    assert (group["state"], group["requests"]) == ("sent", 2)
    assert (
        f"provider batch openai {group['batch_id']} 0 of 2"
        in waits_of(economical.client, rows)[runs[0]]
    )
    assert list(ConsistencyCheck(economical.redis).violations()) == []

    make_live(economical.store, str(group["batch_id"]))
    carry(economical, turns=4)
    assert_answered(economical, runs)
    assert len(server.requests) == 2


@pytest.mark.parametrize("name", ["openai", "openai:m"])
def test_while_a_provider_or_model_is_paused_no_batch_is_sent(
    economical: Engine, server: ModelServer, name: str
) -> None:
    (early,) = submit(economical, 1)
    carry(economical, turns=1)
    economical.client.cancel(early)
    limits = LimitCommands(economical.store, sleep=lambda _s: economical.gate.refresh())
    limits.pause(name, "audit")
    economical.gate.refresh()
    runs = submit(economical, 2)

    carry(economical, turns=4)

    why = f"{name} is paused manually (audit); resume with sleipnir limits --resume {name}"
    (collection,) = listed(economical)["collections"]
    assert (collection["requests"], collection["trouble"]) == (2, why)
    waits = waits_of(economical.client, [economical.run(runs[0])])[runs[0]]
    assert waits.startswith(f"next provider batch openai ({name} is paused), live from ")
    with pytest.raises(ActionRefused, match="resume with"):
        send_now(economical.store, "openai")
    assert len(server.batches.batches) == 1
    assert groups(economical) == []  # what was there before went on

    limits.resume(name)
    economical.gate.refresh()
    carry(economical)
    assert_answered(economical, runs)
    assert server.requests == []


def test_a_group_that_was_closed_before_a_pause_is_not_sent_in_it(
    engine: Engine, server: ModelServer
) -> None:
    engine.configure(models={"providers": {"openai": {"batch": {"open": 1, "max_requests": 1}}}})
    server.script.when(lambda _: True, answer)
    server.batches.pending_polls = 2
    runs = submit(engine, 2)
    carry(engine, turns=2, every_s=61)
    limits = LimitCommands(engine.store)
    limits.pause("openai", "audit")
    engine.gate.refresh()

    carry(engine, turns=10)

    (group,) = listed(engine)["groups"]
    assert (group["state"], group["trouble"].partition(" (")[0]) == (
        "ready",
        "openai is paused manually",
    )
    assert len(server.batches.batches) == 1
    limits.resume("openai")
    engine.gate.refresh()
    carry(engine)
    assert_answered(engine, runs)


def test_a_batch_that_may_have_been_created_is_not_sent_again_in_a_pause(
    economical: Engine, server: ModelServer
) -> None:
    server.batches.faults.append("unavailable")
    runs = submit(economical, 1)
    carry(economical, turns=1)
    LimitCommands(economical.store).limiter.pause("openai", "audit")
    economical.gate.refresh()

    carry(economical, turns=4)

    assert [group.state for group in groups(economical)] == ["sending"]
    assert server.batches.batches == {}
    LimitCommands(economical.store).limiter.resume("openai")
    economical.gate.refresh()
    carry(economical)
    assert_answered(economical, runs)


def test_a_recording_says_which_replies_came_with_a_batch(economical: Engine) -> None:
    (batched,) = submit(economical, 1, recorded=True)
    (live,) = submit(economical, 1, recorded=True, economy_s=None)

    carry(economical)

    (of_batch,) = economical.client.recordings.recorded(batched).calls
    (of_live,) = economical.client.recordings.recorded(live).calls
    assert (of_batch.to_json()["economy"], "economy" in of_live.to_json()) == (True, False)
    assert read(written([of_batch]), "a file") == [of_batch]


def test_a_request_without_its_visit_and_a_visit_without_its_request_are_found(
    economical: Engine,
) -> None:
    one, other = submit(economical, 2)
    for run_id, kind in ((one, "request"), (other, "waits")):
        (key,) = (
            key
            for key in economical.redis.keys(f"*:{kind}:*")
            if (kind == "waits" and other in key)
            or (kind == "request" and economical.redis.hget(key, "run") == run_id)
        )
        economical.redis.delete(key)

    found = list(ConsistencyCheck(economical.redis).violations())

    told = {(each.run_id, each.text.partition(" request")[0]) for each in found}
    assert {(one, "visit 1/ask waits for"), (other, "no visit waits for")} <= told


@pytest.mark.parametrize("fault", [None, "lost", "strange", "half_failed"])
def test_anthropic_s_batches_are_found_again_without_metadata(
    engine: Engine, server: ModelServer, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "anthropic:claude-sonnet-4-5"
    place = {"api_base": server.base_url.removesuffix("/v1"), "api_key": "sk-only-for-this-test"}
    price = {"prompt": 1, "completion": 1}
    engine.configure(models={"providers": {"anthropic": place}, "prices": {model: price}})
    server.script.when(lambda _: True, answer)
    server.batches.faults.extend([fault] if fault else [])
    graph = ASKS.replace("openai:m", model).replace(
        "type: llm", "type: llm\n        max_attempts: 2"
    )
    runs = submit(engine, 4, graph)

    carry(engine, turns=14, provider="anthropic")

    assert_answered(engine, runs)
    assert server.batches.bill == {f"question {n}": 1 for n in range(4)}
    assert engine.run(runs[0]).usage.economy_usd == pytest.approx(7.5e-6)
    assert server.requests == []


def test_files_go_with_a_request_into_the_batch(economical: Engine, server: ModelServer) -> None:
    scan = data_url(PNG, "image/png")
    graph = ASKS.replace("max_tokens: 10", 'attach: ["{{scan}}"]')
    run_id = economical.submit(graph, state={"n": 0, "scan": scan}, economy_s=DAY_S)
    economical.drive()

    carry(economical)

    (batch,) = server.batches.batches.values()
    (line,) = batch.lines
    file, text = line["body"]["messages"][0]["content"]
    assert (file["image_url"]["url"], text["text"]) == (scan, "question 0")
    assert economical.run(run_id).status == Status.SUCCEEDED
    assert server.requests == []


def test_a_large_request_is_made_live(economical: Engine, server: ModelServer) -> None:
    graph = ASKS.replace("question {{n}}", "question {{n}}{{long}}")
    run_id = economical.submit(
        graph, state={"n": 0, "long": "x" * LARGEST_REQUEST_BYTES}, economy_s=DAY_S
    )
    economical.drive()

    assert economical.run(run_id).status == Status.SUCCEEDED
    assert len(server.requests) == 1


def test_a_full_collection_is_sent_in_several_batches(engine: Engine, server: ModelServer) -> None:
    engine.configure(models={"providers": {"openai": {"batch": {"max_requests": 2, "open": 2}}}})
    server.script.when(lambda _: True, answer)
    server.batches.pending_polls = 1
    runs = submit(engine, 5)

    carry(engine, turns=1)
    carry(engine, turns=3, every_s=1.0)  # a group each
    there = [len(each.lines) for each in server.batches.batches.values()]
    carry(engine, turns=12)

    assert there == [2, 2]  # `open` at a time
    assert [len(each.lines) for each in server.batches.batches.values()] == [2, 2, 1]
    assert_answered(engine, runs)


def test_equal_requests_of_a_batch_share_a_line_where_replies_are_kept(
    economical: Engine, server: ModelServer
) -> None:
    alike = ASKS.replace("{{n}}", "0").replace("max_tokens: 10", "cache: true")
    runs = submit(economical, 4, alike)

    carry(economical)

    assert {economical.run(run_id).output for run_id in runs} == {"answer to question 0"}
    assert server.batches.bill == {"question 0": 1}
    costs = sorted(economical.run(run_id).usage.cost_usd or 0 for run_id in runs)
    assert costs == pytest.approx([0, 0, 0, 7.5e-6])
    assert groups(economical) == []
    assert not economical.redis.keys("{economy}:shares:*")
    later = submit(economical, 1, alike)
    assert economical.run(later[0]).output == "answer to question 0"


@pytest.mark.parametrize(("tier", "share"), [("flex", 0.5), ("default", 1.0)])
def test_the_cost_follows_the_tier_that_the_reply_names(
    engine: Engine, server: ModelServer, tier: str, share: float
) -> None:
    engine.configure(models={"prices": {"openai:m": {"prompt": 1, "completion": 1}}})
    server.script.when(lambda _: True, says("so", tier=tier))
    run = engine.finish(ASKS.replace("max_tokens: 10", "params: {service_tier: flex}"))

    assert server.requests[0].body["service_tier"] == "flex"
    assert run.usage.cost_usd == pytest.approx(15e-6 * share)
