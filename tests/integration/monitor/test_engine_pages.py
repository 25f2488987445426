"""Everything in short, batches, limits and workers."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.store.keys import AUDIT
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.scheduler.views import batch_spread
from sleipnir.scheduler.views.batch_spread import spread_document
from sleipnir.scheduler.views.trends import failing
from tests.support.engine import Engine
from tests.support.site import Answer, ServedSite

GRAPH = """
settings: {tolerate_failures: false}
start: ask
nodes:
  ask: {type: input, question: "<b>Which</b> page?", next: print}
  print: {type: script, script: print.sh, next: z}
  z: {type: end}
"""
FILES = {
    "print.sh": """
echo "looking up $(head -c 30 /dev/urandom | base64 | tr -d 0-9) in the CRM" >&2
echo "no printer for '$SLEIPNIR_RUN_ID'" >&2; exit 3
"""
}
QUICK = "start: z\nnodes: {z: {type: end}}"


_ENDED = ("succeeded", "failed", "cancelled", "timed_out")


def test_the_first_page_tells_what_needs_people_what_failed_and_who_works(
    engine: Engine, site: ServedSite
) -> None:
    engine.finish(GRAPH, FILES)
    failed = engine.finish(GRAPH, FILES, answers={"ask": ["1"]})
    worker = WorkerState("gpu-3", 4711, slots=8, busy=2, taken=9, idle_s=3, memory_bytes=2**27)
    Machines(engine.redis).announce(worker, with_queue=True)
    newer = replace(worker, pid=4712, slots=0, busy=0, version="7.3.1")
    Machines(engine.redis).announce(newer, with_queue=True)

    page = site.ask("/now").text
    document = site.ask("/api/v1/now").json
    workers = site.ask("/fleet").text

    assert "2 of 8 busy" in page
    assert f'href="/runs/{failed.run_id}"' in page
    assert "&lt;b&gt;Which" in page
    fleet = document["fleet"]
    assert (fleet["questions"], fleet["open"], document["failing"]["failed"]) == (1, 1, 1)
    assert document["ended"]["runs"] == {**dict.fromkeys(_ENDED, 0), "failed": 1}
    (failing,) = document["failing"]["groups"]
    assert (failing["run_id"], failing["by_hour"]) == (failed.run_id, [0] * 23 + [1])
    assert "100 % of all" in page
    assert "Runs that ended, by hour: 1 in all" in page
    assert "gpu-3" in workers
    assert "128 MiB" in workers
    assert [each["version"] for each in fleet["workers"]] == [None, "7.3.1"]
    assert "version unknown" in " ".join(workers.split())
    assert "▲ version 7.3.1</span>" in " ".join(workers.split())
    assert "partitions have no scheduler" in workers
    assert site.ask("/").headers["Location"] == "/now"


def test_a_page_shows_so_many_workers(engine: Engine, site: ServedSite) -> None:
    machines = Machines(engine.redis)
    for number in range(1_001):
        pod = WorkerState(f"pod-{number:04}", 1, 8, busy=1, taken=9, idle_s=3, memory_bytes=2**27)
        machines.announce(pod, with_queue=True)

    page = " ".join(site.ask("/fleet").text.split())

    assert "The first 1,000 of 1,001 workers are here" in page
    assert page.count('class="worker"') == page.count('aria-label="pod-') == 1_000
    assert page.count("sleipnir@pod-") == 999  # and the queue that all share
    assert "1,001 of 8,008" in page
    assert len(site.ask("/api/v1/fleet").json["workers"]) == 1_001


def test_the_first_page_says_how_many_failures_it_has_looked_at(
    engine: Engine, site: ServedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    picky = """
    start: ask
    nodes:
      ask: {type: input, question: Name?, validation: "len(input) > 9", next: z}
      z: {type: end}
    """
    monkeypatch.setattr(failing, "MOST_FAILURES", 2)
    for _ in range(3):
        engine.finish(picky, answers={"ask": ["x"]})

    page = " ".join(site.ask("/now").text.split())

    assert re.search(r">\s?2\W</b>", page)
    assert "Groups of the newest 2 of 3." in page


def test_a_batch_tells_its_failures_by_what_they_have_in_common(
    engine: Engine, site: ServedSite
) -> None:
    for _ in range(3):
        engine.finish(GRAPH, FILES, answers={"ask": ["1"]}, batch="week/12 <x>")
    engine.finish(QUICK, batch="week/12 <x>")
    path = "/batches/week%2F12%20%3Cx%3E"

    listed = site.ask("/batches").text
    document = site.ask(f"/api/v1{path}").json
    errors = site.ask(f"/api/v1{path}/errors").json
    page = site.ask(path).text

    assert f'href="{path}"' in listed
    assert "<x>" not in listed + page
    (group,) = errors["errors"]
    assert (group["count"], group["node"], document["succeeded"]) == (3, "print", 1)
    assert errors["errors_of"] == 3
    assert site.ask("/api/v1/batches/none/errors").status == 404
    assert "no printer for" in page
    assert site.ask("/batches/none").status == 404
    assert group["first_at"] <= group["newest_at"]
    assert page.count("state-failed") > 1
    (retry,) = re.findall(r'action="(/bulk\?batch=[^"]+&amp;cause=[^"]+)"', page)
    asked = site.ask(retry.replace("&amp;", "&"), "POST", form={"all": "retry"}).text
    assert "Retry 3 runs?" in asked
    (alike,) = re.findall(r'href="(/runs\?batch=[^"]+)">Runs<', page)
    found = site.ask(f"/api/v1{alike.replace('&amp;', '&')}").json["runs"]
    assert len(found) == 3
    assert site.ask(f"/api/v1{alike.replace('&amp;', '&')}0").status == 400
    act, _ = re.findall(r'action="(/bulk\?batch=[^"]+)"', page)
    assert "Retry 3 runs?" in site.ask(act, "POST", form={"all": "retry"}).text


def test_a_batch_tells_how_fast_it_is_and_what_it_will_have_cost(
    engine: Engine, site: ServedSite
) -> None:
    engine.store.batches.announce("night", "tested", 10)
    for n in range(4):
        engine.finish(QUICK, batch="night", item=f"<{n}>")
    engine.submit(QUICK, batch="night")
    engine.clock.move(30)
    engine.finish(GRAPH, FILES, batch="night", answers={"ask": ["1"]}, item="5")
    engine.submit(QUICK, batch="night")
    engine.clock.move(31)

    batch = site.ask("/api/v1/batches/night").json
    (listed,) = site.ask("/api/v1/batches").json["batches"]

    assert (batch["total"], batch["open"], batch["rate_per_minute"]) == (10, 1, 300 / 61)
    assert (batch["eta_s"], batch["projected_usd"]) == (pytest.approx(4 * 61 / 5), 0.0)
    assert listed["eta_s"] == batch["eta_s"]
    page = " ".join(site.ask("/batches/night").text.split())
    assert ">6</b><span>of 10, 60 %<" in page
    assert "<b>49 s</b><span>ends about" in page


def test_a_batch_shows_how_its_runs_spread_over_time_and_duration(
    engine: Engine, site: ServedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        engine.submit(QUICK, batch="night", item=str(n))
    while engine.queued():
        engine.clock.move(2)
        engine.work_once()
    engine.clock.move(60)
    engine.submit(GRAPH, FILES, batch="night", answers={"ask": ["1"]})
    engine.work_once()
    engine.clock.move(7)
    engine.drive()

    whole = site.ask("/api/v1/batches/night").json
    page = " ".join(site.ask("/batches/night").text.split())
    monkeypatch.setattr(batch_spread, "_MOST_READ", 8)
    part = spread_document(engine.client, whole)

    spread = whole["spread"]
    assert (spread["read"], spread["step_s"]) == (31, 5)
    assert sum(each["succeeded"] for each in spread["ends"]) == 30
    assert [each["failed"] for each in spread["ends"]][-2:] == [0, 1]
    bins = [(each["least"], each["most"], each["runs"]) for each in spread["elapsed_s"]]
    assert (bins[0], bins[-1]) == ((0, 0.5, 30), (7, None, 1))
    assert spread["cost_usd"] == []
    assert "<title>2023-11-14 22:13:20 UTC: 2 succeeded</title>" in page
    assert "Nothing was paid." in page
    (group,) = site.ask("/api/v1/batches/night/errors").json["errors"]
    assert (sum(group["by_time"]), len(group["run_ids"])) == (1, 1)
    assert part["read"] < 31
    estimated = sum(each["succeeded"] + each["failed"] for each in part["ends"])
    assert estimated == pytest.approx(31, abs=8)


def test_the_runs_of_a_batch_are_shown_by_state(engine: Engine, site: ServedSite) -> None:
    failed = engine.finish(GRAPH, FILES, batch="night", answers={"ask": ["1"]}).run_id
    good = engine.finish(QUICK, batch="night", item="<7>").run_id

    pages = [
        site.ask(f"/batches/night{query}").text for query in ("", "?status=failed", "?status=x")
    ]

    rows = [re.findall(r'data-row="(\w+)"', page) for page in pages]
    assert [sorted(found) for found in rows] == [
        sorted([failed, good]),
        [failed],
        sorted([failed, good]),
    ]
    assert "&lt;7&gt;" in pages[0]
    assert "Cancel open" not in pages[0]


def test_a_large_batch_has_a_rate_and_an_end_from_its_first_runs_to_its_last(
    engine: Engine, site: ServedSite
) -> None:
    for n in range(600):
        engine.submit(QUICK, batch="night", item=str(n))
    for _ in range(20):
        engine.clock.move(1)
        engine.work_once()

    batch = site.ask("/api/v1/batches/night").json
    engine.clock.move(2_000)
    stalled = site.ask("/api/v1/batches/night").json

    assert batch["rate_per_minute"] == 60.0
    assert batch["eta_s"] == 580.0
    assert 0 < stalled["rate_per_minute"] < 1


def test_results_of_a_batch_are_downloaded(engine: Engine, site: ServedSite) -> None:
    engine.finish(QUICK, batch="night", item="a")
    engine.finish(GRAPH, FILES, batch="night", answers={"ask": ["1"]}, item="b")
    engine.finish(GRAPH, FILES, batch="night", item="open")

    answer = site.ask("/batches/night/results")

    lines = {line["id"]: line for line in map(json.loads, answer.text.splitlines())}
    assert answer.headers["Content-Disposition"] == 'attachment; filename="results.jsonl"'
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert set(lines) == {"a", "b"}
    assert (lines["a"]["status"], lines["b"]["error"]["node"]) == ("succeeded", "print")
    assert len(lines["a"]["agent_version"]) == 12
    assert (lines["a"]["redone"], lines["a"]["line"]) == (0, None)
    assert site.ask("/api/v1/batches/night/results").text == answer.text
    assert site.ask("/api/v1/batches/none/results").status == 404


def test_limits_and_pauses_are_shown(engine: Engine, site: ServedSite) -> None:
    commands = LimitCommands(engine.store, sleep=lambda _: None)
    commands.set("openai.concurrency=4")
    commands.pause("openai", "a <quarrel>")

    page = site.ask("/limits").text
    document = site.ask("/api/v1/limits").json

    assert "a &lt;quarrel&gt;" in page
    assert "sleipnir limits --resume openai" in page
    (limit,) = document["limits"]
    assert (limit["name"], limit["setting"], limit["value"]) == ("openai", "concurrency", 4)


def test_what_waits_for_batches_is_shown(
    engine: Engine, site: ServedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
    graph = """
        start: a
        nodes:
          a: {type: llm, model: "openai:m", prompt: p, next: b}
          b: {type: end}
    """
    for batch, model in (("night", "openai:m"), ("other", "openai:n")):
        engine.submit(graph.replace("openai:m", model), economy_s=3600.0, batch=batch)
    engine.submit("start: b\nnodes: {b: {type: end}}", batch="live")
    engine.drive()

    page = site.ask("/limits").text
    document = site.ask("/api/v1/limits").json
    of_batch = site.ask("/batches/night").text
    (waiting,) = site.ask("/api/v1/batches/night").json["economy"]["collections"]

    assert "Batches of providers" in page
    assert "0 of 1" in page
    assert [each["name"] for each in document["collections"]] == ["openai:m", "openai:n"]
    assert ("openai:m" in of_batch, "openai:n" in of_batch) == (True, False)
    assert (waiting["name"], waiting["requests"]) == ("openai:m", 1)
    assert "Batches of providers" not in site.ask("/batches/live").text


def test_limits_are_changed_after_showing_whom_that_touches(
    engine: Engine, site: ServedSite
) -> None:
    change = {"act": "set", "name": "openai", "setting": "concurrency", "value": "3"}
    shown = site.ask("/limits", "POST", form=change).text
    unchanged = site.ask("/api/v1/limits").json["limits"]

    done = site.ask("/limits", "POST", form=change | {"confirmed": "1"})
    wrong = site.ask("/limits", "POST", form=change | {"confirmed": "1", "value": "<many>"})
    (limit,) = site.ask("/api/v1/limits").json["limits"]

    assert "Set openai.concurrency to 3?" in shown
    assert "0 calls in progress, 0 waiting" in shown
    assert unchanged == []
    assert (done.status, done.headers["Location"], limit["value"]) == (303, "/limits", 3)
    assert (wrong.status, "&lt;many&gt;" in wrong.text) == (422, True)
    acts = site.ask("/api/v1/audit").json["acts"]
    assert [(act["act"], act["target"], act["detail"]) for act in acts] == [
        ("limits", "openai", "concurrency: 3 → <many>"),
        ("limits", "openai", "concurrency: none → 3"),
    ]
    assert [act["outcome"] == "done" for act in acts] == [False, True]


def test_programs_change_limits(engine: Engine, site: ServedSite) -> None:
    def change(**body: object) -> Answer:
        return site.ask("/api/v1/limits", "POST", body=json.dumps(body))

    changed = change(set={"openai.requests_per_minute": 90}, pause="openai", reason="a quarrel")
    undone = change(unset=["openai.requests_per_minute"], resume="openai")

    assert [limit["value"] for limit in changed.json["limits"]] == [90]
    assert [pause["reason"] for pause in changed.json["pauses"]] == ["a quarrel"]
    assert (undone.json["limits"], undone.json["pauses"]) == ([], [])
    assert [change(**body).status for body in ({}, {"pause": "openai"}, {"resume": "openai"})] == [
        400,
        422,
        409,
    ]


def test_many_questions_are_answered_alike(engine: Engine, site: ServedSite) -> None:
    asked = [engine.finish(GRAPH, FILES).run_id for _ in range(3)]
    late = engine.finish(GRAPH, FILES).run_id
    engine.client.answer(late, "7")
    questions = [("question", f"{run_id}/1/ask") for run_id in (*asked[:2], late)]

    asking = site.ask("/inbox", "POST", form=[*questions, ("answer", "12")])
    untouched = [len(engine.queries.questions(run_id)) for run_id in asked]
    shown = [
        ("question", each) for each in re.findall(r'name="question" value="(.*?)"', asking.text)
    ]
    new = engine.finish(GRAPH, FILES).run_id
    done = site.ask("/inbox", "POST", form=[*shown, ("answer", "12"), ("confirmed", "1")])

    assert untouched == [1, 1, 1]
    assert "Answer 2 questions with “12”?" in asking.text
    assert f"{late}/1/ask: this question was answered" in asking.text
    assert shown == questions[:2]
    assert len(engine.queries.questions(new)) == 1
    assert "2 answered with <b>12</b>." in " ".join(done.text.split())
    assert [len(engine.queries.questions(run_id)) for run_id in asked] == [0, 0, 1]
    acts = site.ask("/api/v1/audit").json["acts"]
    assert len([act for act in acts if act["outcome"] == "done"]) == 2
    assert site.ask("/inbox", "POST", form={"answer": "12"}).status == 400


def test_what_is_asked_alike_is_answered_at_once_and_answers_are_listed(
    engine: Engine, site: ServedSite
) -> None:
    asked = [engine.finish(GRAPH, FILES).run_id for _ in range(3)]
    other = engine.finish(GRAPH.replace("ask", "name"), FILES).run_id
    alike = "/inbox?agent=tested&node=ask"

    inbox = site.ask("/inbox").text
    group = site.ask(alike).text
    questions = re.findall(r'name="question" value="([^"]+)" aria-label="Select">', group)
    form = [*(("question", each) for each in questions), ("answer", "<7>"), ("confirmed", "1")]
    done = site.ask(alike, "POST", form=form)

    assert 'class="group-count">3<' in inbox
    assert "checked" not in group
    assert f'href="{alike}"' in inbox.replace("&amp;", "&")
    assert sorted(questions) == sorted(f"{run_id}/1/ask" for run_id in asked)
    assert "3 answered with <b>&lt;7&gt;</b>." in " ".join(done.text.split())
    assert len(engine.queries.questions(other)) == 1
    answers = site.ask("/api/v1/answers?limit=2").json
    older = site.ask(f"/api/v1/answers?cursor={answers['next']}").json
    told = answers["answers"] + older["answers"]
    assert [f"{each['run_id']}/{each['visit']}" for each in told] == questions[::-1]
    assert {(each["answer"], each["by"], each["via"]) for each in told} == {
        ("<7>", "operator", "page")
    }
    assert all(each["waited_s"] >= 0 for each in told)
    assert {(each["agent"], each["node"], each["question"]) for each in told} == {
        ("tested", "ask", "<b>Which</b> page?")
    }
    listed = site.ask("/inbox/answered").text
    assert "&lt;7&gt;" in listed
    assert "&lt;b&gt;Which&lt;/b&gt; page?" in listed
    assert 'href="/agents/tested">tested</a>' in listed
    (mine,) = site.ask(f"/api/v1/answers?run={asked[1]}").json["answers"]
    assert mine["visit"] == "1/ask"


def test_answers_noted_before_their_questions_were_show_what_they_have(
    engine: Engine, site: ServedSite
) -> None:
    run_id = "0123456789abcdef"
    old = {"who": "ana", "role": "operate", "via": "cli", "act": "answer", "outcome": "done"}
    old |= {"target": f"{run_id}/3/sign", "detail": "yes"}
    engine.redis.xadd(AUDIT, {"a": json.dumps(old)})

    (told,) = site.ask("/api/v1/answers").json["answers"]

    assert (told["agent"], told["node"], told["question"]) == ("", "sign", "")
    assert "not kept" in site.ask("/inbox/answered").text


def test_questions_and_acts_are_filtered(engine: Engine, site: ServedSite) -> None:
    runs = [engine.finish(GRAPH, FILES).run_id for _ in range(2)]
    site.ask(f"/api/v1/runs/{runs[0]}/cancel", "POST", body="")
    site.ask(f"/api/v1/questions/{runs[1]}/1/ask/answer", "POST", body='{"text": "7"}')
    engine.finish(GRAPH, FILES)

    def found(query: str) -> int:
        return len(site.ask(f"/api/v1/questions?{query}").json["questions"])

    counts = [found(query) for query in ("text=WHICH", "text=whom", "until=1h", "node=print", "")]
    assert counts == [1, 0, 0, 0, 1]
    assert site.ask("/api/v1/questions?until=soon").status == 400
    acts = {
        query: [act["act"] for act in site.ask(f"/api/v1/audit?{query}").json["acts"]]
        for query in ("act=cancel", "who=operator", f"target={runs[1]}", "who=nobody")
    }
    assert list(acts.values()) == [["cancel"], ["answer", "cancel"], ["answer"], []]
    assert "No action matches" in " ".join(site.ask("/audit?who=nobody").text.split())


def test_machines_that_runs_need_and_that_have_no_worker_are_told(
    engine: Engine, site: ServedSite
) -> None:
    engine.submit(QUICK, machine="gpu-<3>")

    fleet, page = site.ask("/api/v1/fleet").json, site.ask("/fleet").text

    assert fleet["deserted"] == ["gpu-<3>"]
    assert fleet["queues"]["sleipnir@gpu-<3>"]["length"] == 1
    assert "machine gpu-&lt;3&gt;, which has no worker" in page
