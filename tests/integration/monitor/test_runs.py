"""Pages and API of runs, on runs that were really executed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.scheduler.store.queries import indexes
from tests.support.engine import Engine
from tests.support.site import KEY, ServedSite

GRAPH = """
settings: {tolerate_failures: false}
initial_state: {items: [1, 2, 3], found: []}
start: first
nodes:
  first:
    type: script
    script: first.sh
    next: review
  review:
    type: approval
    question: "Publish {{initial_prompt}}?"
    options: ["yes", "no"]
    routes: {"yes": publish, "no": last}
    on_other: last
  publish: {type: script, script: publish.sh, next: last}
  last: {type: end, output: "well done"}
"""
FILES = {
    "first.sh": "echo 'said <b>loudly</b>' >&2; echo '{\"found\": [1]}'",
    "publish.sh": "echo 'no such printer' >&2; exit 3",
}
ASKS = """
start: ask
nodes:
  ask: {type: input, question: "Which?", next: z}
  z: {type: end}
"""
HOSTILE = "<img src=x onerror=alert(1)>"


def test_a_run_is_found_followed_and_its_failure_explained(
    engine: Engine, site: ServedSite
) -> None:
    run = engine.finish(GRAPH, FILES, prompt=HOSTILE)
    base = f"/runs/{run.run_id}"

    listed = site.ask("/runs").text
    waiting = site.ask(base).text

    assert f'href="{base}"' in listed
    assert "tested" in listed
    assert "review" in waiting
    assert "Publish &lt;img src=x" in waiting
    assert HOSTILE not in waiting
    assert re.search(r'class="node type-approval is-waiting is-chosen" data-node="review"', waiting)
    assert 'class="node type-script is-done" data-node="first"' in waiting
    assert 'class="node type-end is-untouched" data-node="last"' in waiting

    engine.client.answer(run.run_id, "yes")
    engine.drive()
    failed = site.ask(base).text

    assert 'is-failed is-chosen" data-node="publish"' in failed
    assert "no such printer" in failed
    assert "no such printer" in site.ask(f"{base}/logs?node=publish").text
    assert "said &lt;b&gt;loudly" in site.ask(f"{base}/logs").text
    assert re.search(r"R\d+ at publish: ", site.ask("/runs?status=failed").text)
    assert site.ask(f"/runs?q={run.run_id[:8]}").headers["Location"] == base
    assert site.ask(f"/runs/{run.run_id[:8]}/state").headers["Location"] == f"{base}/state"
    for tab in ("graph", "state", "events", "logs", "children"):
        page = site.ask(f"{base}/{tab}")
        assert (page.status, HOSTILE in page.text) == (200, False)


def test_the_graph_and_the_state_of_any_step_are_shown(engine: Engine, site: ServedSite) -> None:
    run = engine.finish(GRAPH, FILES, answers={"review": ["no"]})
    base = f"/runs/{run.run_id}"

    begun = site.ask(f"{base}?step=0").text
    state = site.ask(f"/api/v1{base}/state?step=1").json
    graph = site.ask(f"/api/v1{base}/graph").json

    assert 'is-running" data-node="first"' in begun
    assert "well done" in site.ask(base).text
    found = next(each for each in state["keys"] if each["key"] == "found")
    assert (found["before"], found["value"], found["nodes"]) == ([], [1], ["first"])
    states = {node["id"]: node["state"] for node in graph["nodes"]}
    assert states == {"first": "done", "review": "done", "publish": "untouched", "last": "done"}
    taken = {(each["from"], each["to"]): each["taken"] for each in graph["arrows"]}
    assert (taken["review", "last"], taken["review", "publish"]) == (1, 0)
    assert site.ask(f"{base}/state?step=99").status == 404
    assert site.ask(f"{base}/state?step=x").status == 400


def test_a_chosen_node_is_shown_with_its_definition_and_what_a_visit_wrote(
    engine: Engine, site: ServedSite
) -> None:
    run = engine.finish(GRAPH, FILES, prompt=HOSTILE, answers={"review": ["yes"]})
    base = f"/runs/{run.run_id}"

    script = site.ask(f"{base}?node=first").text
    asks = site.ask(f"{base}?node=review").text
    failed = site.ask(base).text

    assert '<b>Script</b> <span class="quiet">first.sh</span>' in script
    assert "said &lt;b&gt;loudly&lt;/b&gt;&#x27; &gt;&amp;2" in script
    assert f'{base}/state?step=1&amp;key=found">' in script
    assert f'{base}/logs?node=first&amp;step=1">' in script
    assert "Publish {{initial_prompt}}?" in asks
    assert "It wrote nothing to the state" in asks
    assert HOSTILE not in script + asks + failed
    assert f'{base}/graph?node=publish">publish</a>' in failed
    assert f'href="{base}?node=publish">R' in site.ask("/runs").text
    assert "said &lt;" in site.ask(f"{base}/logs?step=1").text
    assert "said &lt;" not in site.ask(f"{base}/logs?step=2").text


def test_of_nodes_that_ran_at_once_each_has_the_writes_it_declares(
    engine: Engine, site: ServedSite
) -> None:
    graph = """
start: first
reducers: {both: append}
initial_state: {items: [1], both: []}
nodes:
  first: {type: script, script: none.sh, next: [left, right, each]}
  left: {type: script, script: left.sh, state_updates: {both: l, own: L}, next: z}
  right: {type: script, script: right.sh, state_updates: {both: r}, next: z}
  each: {type: map, over: "{{items}}", as: item, branch: one, collect_into: got, next: z}
  one: {type: script, script: right.sh}
  z: {type: end}
"""
    files = {
        "none.sh": "echo '{}'",
        "left.sh": """echo '{"both": 1}'""",
        "right.sh": """echo '{"both": 2, "output": 3}'""",
    }
    run = engine.finish(graph, files)
    base = f"/runs/{run.run_id}"

    mapped, branch = (site.ask(f"{base}?node={node}").text for node in ("each", "one"))

    assert "together with left, right" in mapped
    assert "key=got" in mapped
    assert "key=both" not in mapped
    assert "Visit in step 2" in branch
    assert "for items of" in branch
    assert "by left, right, merged by append</span>" in site.ask(f"{base}/state").text
    keys = {each["key"]: each["nodes"] for each in site.ask(f"/api/v1{base}/state").json["keys"]}
    assert (keys["both"], keys["own"], keys["got"]) == (["left", "right"], ["left"], ["each"])


def test_the_list_pages_and_filters(engine: Engine, site: ServedSite) -> None:
    quick = "start: z\nnodes: {z: {type: end}}"
    ids = [engine.finish(quick, batch="b" if n % 2 else None).run_id for n in range(5)]

    first = site.ask("/api/v1/runs?limit=3").json
    rest = site.ask(f"/api/v1/runs?limit=3&cursor={first['next']}").json
    of_batch = site.ask("/api/v1/runs?batch=b").json

    assert {run["run_id"] for run in first["runs"] + rest["runs"]} == set(ids)
    assert (len(first["runs"]), rest["next"]) == (3, None)
    assert first["counts"]["succeeded"] == 5
    oldest = site.ask("/api/v1/runs?order=oldest&limit=2").json
    assert [run["run_id"] for run in oldest["runs"]] == [
        run["run_id"] for run in reversed((first["runs"] + rest["runs"])[-2:])
    ]
    assert oldest["next"] is not None
    assert site.ask("/runs?order=random").status == 400
    assert {run["run_id"] for run in of_batch["runs"]} == {ids[1], ids[3]}
    assert (of_batch["counts"]["succeeded"], of_batch["counts_all"]) == (2, False)
    assert "No run matches" in site.ask("/runs?status=failed").text
    assert site.ask("/runs?status=happy").status == 400
    assert site.ask("/api/v1/runs?cursor=x").json["error"]["code"] == "bad_cursor"


def test_runs_are_searched(engine: Engine, site: ServedSite) -> None:
    published = engine.finish(GRAPH, FILES, prompt="Spring OFFER", answers={"review": ["yes"]})
    waiting = engine.finish(GRAPH, FILES, prompt="x" * 20_000, batch="b", item="<Item 7>")
    engine.finish(GRAPH, FILES, answers={"review": ["no"]}, prompt="x" * 1_100 + "hidden")

    def found(query: str) -> set[str]:
        return {run["run_id"] for run in site.ask(f"/api/v1/runs?{query}").json["runs"]}

    assert found("q=offer") == {published.run_id}
    assert found("q=No+Such+Printer") == {published.run_id}
    assert found("q=item+7") == {waiting.run_id}
    assert found("q=hidden") == found("q=offer&batch=b") == found("cost=0.1&q=offer") == set()
    assert found(f"q={waiting.run_id[:6]}") == {waiting.run_id}
    engine.clock.move(400)
    assert found("took=5m") == {waiting.run_id}
    assert found("took=1h") == set()
    listed = site.ask("/api/v1/runs?q=offer").json
    assert (listed["total"], listed["searched"]["complete"]) == (1, True)
    assert "<b>xxxx" not in site.ask("/runs?q=item").text
    assert "<b>&lt;Item 7&gt;</b>" in site.ask("/runs?q=item").text
    assert "No run matches" in site.ask("/runs?q=%3Cnothing%3E").text
    wrong = ("cost=much", "took=long", "q=" + "x" * 201, "status=happy")
    assert [site.ask(f"/runs?{query}").status for query in wrong] == [400] * 4


def test_runs_are_told_apart_and_found_by_names(engine: Engine, site: ServedSite) -> None:
    def submit(agent: str, **request: Any) -> str:
        return engine.submit_agent(agent, ASKS, **request)

    lead = submit("lead-scoring", prompt="Score\n<Acme>", batch="leads of May")
    other = submit("leader", prompt="x" * 20_000)
    exact = submit("lead", prompt="p")

    def found(query: str) -> set[str]:
        return {run["run_id"] for run in site.ask(f"/api/v1/runs?{query}").json["runs"]}

    assert found("q=SCORING") == found("q=of+may") == {lead}
    assert found("agent=lead") == {exact}
    assert found("agent=lead-") == {lead}
    assert found("agent=lead-&agent=leade") == {lead, other}
    assert found("agent=none") == set()
    listed = {run["run_id"]: run["prompt"] for run in site.ask("/api/v1/runs").json["runs"]}
    assert listed == {lead: "Score\n<Acme>", other: "", exact: "p"}
    page = site.ask("/runs?q=score").text
    assert "&lt;Acme&gt;" not in page
    assert '<span class="agent">lead-scoring</span> <b>Score</b>' in page
    assert '<option value="lead-scoring">' in page


def test_a_search_says_how_far_it_has_looked(
    engine: Engine, site: ServedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "MOST_LOOKED_AT", 10)
    for _ in range(25):
        engine.submit(ASKS)

    page = site.ask("/runs?q=nothing&limit=5").text

    assert "No run matches so far" in page
    assert re.search(r"Looked back to [^,]+, 1[0-9] runs", page)
    assert 'rel="next"' in page


def test_cancelling_is_no_failure_and_all_tries_count(engine: Engine, site: ServedSite) -> None:
    run = engine.finish(ASKS)
    engine.clock.move(7)
    engine.client.cancel(run.run_id, "enough <now>")
    page = site.ask(f"/runs/{run.run_id}").text
    engine.client.retry(run.run_id)
    engine.drive()
    engine.clock.move(90)
    engine.client.answer(run.run_id, "yes")
    engine.drive()

    assert 'class="banner is-cancelled">Cancelled: enough &lt;now&gt;</p>' in page
    assert "is-failed" not in page
    assert site.ask(f"/api/v1/runs/{run.run_id}").json["elapsed_s"] == pytest.approx(97, abs=0.5)
    assert site.ask("/api/v1/runs?took=95s").json["runs"][0]["elapsed_s"] == pytest.approx(
        97, abs=1
    )
    assert "1 min 37 s" in site.ask(f"/runs/{run.run_id}").text
    assert "in <b>2</b> tries" in site.ask(f"/runs/{run.run_id}").text


def test_links_to_removed_runs_say_what_they_were_of(engine: Engine, site: ServedSite) -> None:
    run = engine.finish(GRAPH, FILES, answers={"review": ["yes"]})
    engine.clock.move(engine.store.settings.retention_s)
    engine.tick()

    page = site.ask(f"/runs/{run.run_id}/logs")
    asked = site.ask(f"/api/v1/runs/{run.run_id}")
    never = site.ask("/api/v1/runs/0123456789abcdef")

    assert (page.status, asked.status, never.status) == (410, 410, 404)
    error = asked.json["error"]
    assert (error["code"], error["details"]["agent"]) == ("expired", "tested")
    assert error["details"]["status"] == "failed"
    assert "ended as failed at 2023-11-14" in page.text
    assert "are kept for 7 days" in page.text
    assert 'href="/runs?agent=tested"' in page.text
    assert 0 < engine.redis.ttl(run_key("gone", run.run_id)) <= engine.store.settings.retention_s


def test_a_run_is_told_as_text(engine: Engine, site: ServedSite) -> None:
    run = engine.finish(GRAPH, FILES, prompt="one", answers={"review": ["yes"]})
    headers = {"Authorization": f"Bearer {KEY}", "Accept": "text/plain"}

    told = site.ask(f"/runs/{run.run_id}", headers=headers)

    assert told.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert run.run_id in told.text.splitlines()[0]
    assert "no such printer" in told.text
    assert "\x1b" not in told.text


def test_lists_are_given_as_the_tables_of_commands(engine: Engine, site: ServedSite) -> None:
    LimitCommands(engine.store).set("openai.concurrency=4")
    run = engine.finish(GRAPH, FILES, prompt="one " * 200, batch="b")
    headers = {"Authorization": f"Bearer {KEY}", "Accept": "text/plain"}

    tables = {
        page: site.ask(f"/{page}", headers=headers).text.splitlines()
        for page in ("runs", "inbox", "batches", "limits")
    }

    assert [lines[0].split()[0] for lines in tables.values()] == ["RUN", "RUN", "BATCH", "LIMIT"]
    assert [len(lines) for lines in tables.values()] == [2, 2, 2, 2]
    assert tables["runs"][1].split()[:4] == [run.run_id, "tested", "waiting", "review"]
    assert "Publish one" in tables["inbox"][1]
    assert tables["limits"][1].split()[:3] == ["openai", "concurrency", "4"]


def test_secrets_of_a_run_are_on_no_page(engine: Engine, site: ServedSite) -> None:
    canary = "canary-5f2c91d07e"
    graph = """
    variables: [{name: token, description: a secret, secret: true}]
    start: say
    nodes:
      say: {type: script, script: say.sh, next: z}
      z: {type: end, output: "with {{token}}"}
    """
    say = f'echo {canary} >&2; echo \'{{"got": "{canary}"}}\''
    run = engine.finish(graph, {"say.sh": say}, variables={"token": canary})
    paths = [f"/runs/{run.run_id}/{tab}" for tab in ("graph", "state", "events", "logs")]
    plain = {"Authorization": f"Bearer {KEY}", "Accept": "text/plain"}

    answers = [site.ask(prefix + path) for path in paths for prefix in ("", "/api/v1")]

    answers.append(site.ask(f"/runs/{run.run_id}", headers=plain))

    assert [answer.status for answer in answers] == [200] * 9
    assert "got" in answers[2].text
    assert [answer for answer in answers if canary in answer.text] == []


def test_secrets_of_its_agents_files_are_on_no_page(engine: Engine, site: ServedSite) -> None:
    canary = "canary-77aa01"
    graph = """
    start: say
    nodes:
      say: {type: script, script: say.sh, next: z}
      z: {type: end, output: "with {{got}}"}
    """
    say = 'echo "$SERVICE_TOKEN" >&2; echo "{\\"got\\": \\"$SERVICE_TOKEN\\"}"'
    note = f"# for {canary}\n{say}"
    run = engine.finish(graph, {"say.sh": note, ".env": f"SERVICE_TOKEN={canary}\n"})
    tabs = ("graph", "state", "events", "logs", "agent")
    paths = [*(f"/runs/{run.run_id}/{tab}" for tab in tabs), "/agents/tested"]

    answers = [site.ask(prefix + path) for path in paths for prefix in ("", "/api/v1")]
    answers[-2] = site.ask("/agents/tested?tab=files")

    assert run.output == f"with {canary}"
    assert [answer.status for answer in answers] == [200] * 12
    assert "got" in answers[2].text
    assert all("# for ***" in answer.text for answer in answers[8:])
    assert [answer for answer in answers if canary in answer.text] == []


def test_a_run_that_does_not_move_says_why(engine: Engine, site: ServedSite) -> None:
    retried = """
    start: try
    nodes:
      try: {type: script, script: try.sh, max_attempts: 3, next: z}
      z: {type: end}
    """
    asked = engine.finish(GRAPH, FILES).run_id
    resting = engine.submit(retried, {"try.sh": "echo 'not <yet>' >&2; exit 1"})
    engine.work_once()
    queued = engine.submit(retried, {"try.sh": "echo '{}'"})

    found = {
        run_id: site.ask(f"/api/v1/runs/{run_id}/why").json for run_id in (asked, resting, queued)
    }

    assert found[asked]["reason"] == "a person has to answer what 'review' asks"
    assert "'try' is waiting: " in found[resting]["reason"]
    assert found[resting]["until"] is not None
    assert found[asked]["since"] is not None
    (block,) = found[asked]["blocks"]
    assert (block["kind"], block["node"]) == ("question", "review")
    assert site.ask(f"/inbox/{block['question_id']}").status == 200
    assert "no worker is running" in found[queued]["reason"]
    assert "Why it waits: " in site.ask(f"/runs/{resting}").text
    engine.client.cancel(queued)
    nothing = {"reason": None, "since": None, "until": None, "blocks": []}
    assert site.ask(f"/api/v1/runs/{queued}/why").json == nothing


def test_a_run_says_behind_how_much_it_is_queued(engine: Engine, site: ServedSite) -> None:
    quick = "start: z\nnodes: {z: {type: end}}"
    runs = [engine.submit(quick) for _ in range(3)]
    Machines(engine.redis).announce(WorkerState("m", 7, 4, 4, 2, 0.0, 0), with_queue=True)

    (block,) = site.ask(f"/api/v1/runs/{runs[-1]}/why").json["blocks"]

    assert block["kind"] == "queue"
    assert "among 3 messages, the oldest waiting for" in block["reason"]
