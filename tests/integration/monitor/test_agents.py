"""Agents are found, looked at and submitted; versions are told apart by their files."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sleipnir.scheduler.runs.model import Status
from tests.support.engine import Engine
from tests.support.site import Answer, ServedSite

GRAPH = """
description: greets <people>
settings: {tolerate_failures: false}
conversation_starters: ["say hello & more"]
variables:
  - {name: tone, description: how, default: warm}
  - {name: token, description: of the door, secret: true}
initial_state: {names: [], times: 1}
start: greet
nodes:
  greet: {type: script, script: greet.sh, description: says it, next: z}
  z: {type: end, output: "{{tone}} {{initial_prompt}} {{names}}"}
"""
FILES = {"greet.sh": "echo '{}'", "README.md": "# A <b>greeter</b>", ".env": "KEY=canary-7a1b"}
SECRET = "canary-5f2c91d07e"


@pytest.fixture
def greeter(engine: Engine) -> None:
    engine.write("greeter", GRAPH, FILES)


def submit(site: ServedSite, **body: object) -> Answer:
    return site.ask("/api/v1/runs", "POST", body=json.dumps({"agent": "greeter", **body}))


def form(site: ServedSite, **fields: str) -> Answer:
    return site.ask("/agents/greeter", "POST", form=fields)


@pytest.mark.usefixtures("greeter")
def test_an_agent_is_submitted_by_its_form(engine: Engine, site: ServedSite) -> None:
    page = site.ask("/agents/greeter?tab=start").text
    key = re.search(r'name="key" value="(\w+)"', page)
    assert key is not None
    filled = {
        "key": key[1],
        "prompt": "you\r\nall",
        "var-token": SECRET,
        "state": '{"names": ["<Ada>"]}',
    }

    wrong = form(site, **filled | {"state": '{"names": "Ada"}'})
    unreadable = form(site, **filled | {"state": "{"})
    command = form(site, **filled, act="command")
    done, again = form(site, **filled), form(site, **filled)

    assert "say hello &amp; more" in page
    assert "A &lt;b&gt;greeter" in site.ask("/agents/greeter").text
    assert "canary" not in page + wrong.text + command.text
    assert (wrong.status, unreadable.status) == (422, 400)
    assert "names&#x27; has the type text; in `initial_state` it has list" in wrong.text
    assert "you\nall</textarea>" in wrong.text
    shown = re.search(r"<pre data-copied>([^<]*)</pre>", command.text)
    assert shown is not None
    words = shlex.split(shown[1].replace("&quot;", '"').replace("&#x27;", "'").replace("&lt;", "<"))
    assert words[:3] == ["sleipnir", "run", "greeter"]
    assert words[-3:] == ["--var", "token=$TOKEN", "you\nall"]
    assert done.status == again.status == 303
    assert done.headers["Location"] == again.headers["Location"]
    run_id = done.headers["Location"].rpartition("/")[2]
    engine.drive()
    assert engine.run(run_id).output == 'warm you\nall ["<Ada>"]'
    assert engine.newest_runs() == [run_id]
    acts = [(act["act"], act["target"]) for act in site.ask("/api/v1/audit").json["acts"]]
    assert acts == [("submit", run_id), ("submit", "greeter")]


@pytest.mark.usefixtures("greeter")
def test_a_run_says_what_it_was_made_of_and_is_submitted_again(
    engine: Engine, site: ServedSite
) -> None:
    given = {"vars": {"token": SECRET, "tone": "cold"}, "prompt": "<you>", "labels": {"team": "a"}}
    run_id = submit(site, **given, state={"names": ["Ada"]}).json["run_id"]
    engine.write("greeter", GRAPH, {**FILES, "greet.sh": "echo 'another one'"})
    base, again = f"/runs/{run_id}", site.ask(f"/agents/greeter?again={run_id}")

    head, made = site.ask(base), site.ask(f"{base}/agent")
    parts = {part: site.ask(f"/api/v1{base}/{part}").json for part in ("agent", "submitted")}

    digest = engine.run(run_id).digest
    assert parts["agent"]["digest"] == digest
    files = {file["path"]: file["text"] for file in parts["agent"]["files"]}
    assert files["greet.sh"] == FILES["greet.sh"]
    assert f'href="/agents/greeter@{digest[:12]}"' in head.text
    assert f'href="/agents/greeter?again={run_id}"' in head.text
    assert "</span>: greet" in made.text
    assert "another one" not in made.text
    # What the agent says itself is not said again, and no secret ever.
    submitted = parts["submitted"]
    assert (submitted["prompt"], submitted["state"]) == ("<you>", {"names": ["Ada"]})
    assert submitted["variables"] == {"tone": "cold"}
    words = shlex.split(submitted["command"])
    assert words[:5] == ["sleipnir", "run", "greeter", "--set", 'names=["Ada"]']
    assert words[5:] == [
        *("--var", "tone=cold", "--label", "team=a", "--var", "token=$TOKEN", "<you>")
    ]
    assert ">&lt;you&gt;</textarea>" in again.text
    assert 'name="var-tone" value="cold"' in again.text
    assert "canary" not in made.text + again.text + submitted["command"]
    other = site.ask(f"/agents/nobody?again={run_id}")
    assert other.status == 400


@pytest.mark.usefixtures("greeter")
def test_programs_submit_once_for_a_key(engine: Engine, site: ServedSite) -> None:
    given = {"vars": {"token": SECRET}, "prompt": "x", "labels": {"team": "a"}, "key": "order-1"}

    first, again, other = (
        submit(site, **given),
        submit(site, **given),
        submit(site, **{**given, "key": "2"}),
    )

    assert (first.status, again.status, other.status) == (201, 200, 201)
    assert first.json == again.json != other.json
    run = engine.run(first.json["run_id"])
    assert (run.labels, run.status) == ({"team": "a"}, Status.QUEUED)
    by_key = submit(site, vars={"token": SECRET}, state={"initial_prompt": "y"})
    assert engine.state(by_key.json["run_id"])["initial_prompt"] == "y"
    refused = {
        "two prompts": submit(site, **{**given, "key": "3"}, state={"initial_prompt": "y"}),
        "no value for a variable": submit(site),
        "a path": submit(site, agent="./greeter"),
        "a field that is not known": submit(site, promt="x"),
        "no such agent": submit(site, agent="greter"),
        "no such directory": submit(site, workdir="/no/such/place"),
    }
    assert {why: answer.status for why, answer in refused.items()} == {
        "two prompts": 422,
        "no value for a variable": 422,
        "a path": 422,
        "a field that is not known": 400,
        "no such agent": 404,
        "no such directory": 422,
    }
    assert "promt" in refused["a field that is not known"].json["error"]["message"]
    assert len(engine.newest_runs()) == 3


@pytest.mark.usefixtures("greeter")
@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "y"},
        {"state": {"names": ["Bo"]}},
        {"vars": {"token": SECRET, "tone": "cold"}},
        {"labels": {}},
        {"workdir": "/tmp"},
        {"webhook": "https://ops.example/in"},
    ],
)
def test_a_key_stands_for_one_submission(
    engine: Engine, site: ServedSite, change: dict[str, Any]
) -> None:
    given = {"vars": {"token": SECRET}, "prompt": "x", "labels": {"team": "a"}, "key": "order-1"}
    first = submit(site, **given)

    refused = submit(site, **{**given, **change})

    assert (first.status, refused.status) == (201, 422)
    message = refused.json["error"]["message"]
    assert f"the key 'order-1' was used for run {first.json['run_id']}" in message
    assert len(engine.newest_runs()) == 1
    assert submit(site, **given).json == first.json


def test_a_key_of_a_normal_agent_stands_for_one_prompt(engine: Engine, site: ServedSite) -> None:
    directory = engine.write("greeter", GRAPH, FILES).parent / "talker"
    directory.mkdir()
    (directory / "config.yaml").write_text("name: talker\nmodel: openai:m\ninstructions: Talk.\n")

    given = {"agent": "talker", "key": "k", "answers": {"user__select": ["red"]}}
    statuses = [submit(site, **given, prompt=prompt).status for prompt in ("x", "x", "y")]

    assert statuses == [201, 200, 422]


@pytest.mark.usefixtures("greeter")
def test_versions_of_an_agent_and_what_is_usual_for_it(engine: Engine, site: ServedSite) -> None:
    for prompt in ("a", "b"):
        submit(site, vars={"token": SECRET}, prompt=prompt)
        engine.drive()
        engine.clock.move(60)
    old = engine.run(engine.newest_runs()[0]).digest
    engine.write("greeter", GRAPH, {**FILES, "greet.sh": "echo '<oops>' >&2; exit 3"})
    submit(site, vars={"token": SECRET})
    engine.drive()

    document = site.ask(f"/api/v1/agents/greeter?against={old[:12]}").json
    page = site.ask(f"/agents/greeter?against={old[:12]}").text
    before = site.ask(f"/agents/greeter@{old[:12]}").text
    listed = site.ask("/api/v1/agents").json["agents"]
    head = site.ask(f"/api/v1/runs/{engine.newest_runs()[0]}").json

    typical, versions = document["typical"], document["versions"]
    assert (typical["runs"], typical["failed"]) == (3, 1)
    assert head["typical"] == typical
    assert [(each["runs"], each["is_current"]) for each in versions] == [(1, True), (2, False)]
    (changed,) = document["compared"]["files"]
    assert (changed["path"], changed["change"]) == ("greet.sh", "changed")
    assert "-echo '{}'" in changed["lines"]
    assert {file["path"] for file in document["files"]} == {"graph.yaml", "greet.sh", "README.md"}
    assert "&lt;oops&gt;" in page
    assert "<oops>" not in page
    assert "not the one that is submitted now" in before
    assert 'name="key"' not in before
    (row,) = listed
    assert (row["runs"], row["failed"], row["runs_by_day"]) == (3, 1, [0] * 6 + [3])
    assert "greets &lt;people&gt;" in site.ask("/agents").text


def test_agents_that_cannot_be_submitted_say_why(engine: Engine, site: ServedSite) -> None:
    engine.finish("start: z\nnodes: {z: {type: end, output: done}}")
    engine.write("tested", "start: nowhere\nnodes: {z: {type: end}}")
    engine.write("broken", "start: [")

    broken, gone = site.ask("/agents/broken"), site.ask("/agents/nobody")
    page = site.ask("/agents/tested").text

    assert (broken.status, gone.status) == (200, 404)
    assert "Cannot be submitted" in broken.text
    assert "Cannot be submitted" in page
    assert "nowhere" in page
    assert submit(site, agent="broken").status == 422


def test_agents_are_found_by_name_only(engine: Engine, site: ServedSite, tmp_path: Path) -> None:
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    (directory / "graph.yaml").write_text("start: z\nnodes: {z: {type: end}}\n")
    paths = [str(directory), f"{directory}/graph.yaml", "graph.yaml", ".", "..", "../agents"]

    for path in paths:
        address = f"agents/{quote(path, safe='')}"
        assert site.ask(f"/{address}").status == 404
        assert site.ask(f"/api/v1/{address}").status == 404
        assert site.ask(f"/{address}", "POST", form={"prompt": ""}).status == 404
        body = json.dumps({"agent": path})
        assert site.ask("/api/v1/runs", "POST", body=body).status == 422
    assert engine.newest_runs() == []


@pytest.mark.parametrize(
    "body", ["[" * 100_000, '{"agent": "\\ud800"}', '{"a": ' * 5_000, "[]", ""]
)
def test_bodies_that_cannot_be_read_are_refused(body: str, site: ServedSite) -> None:
    answer = site.ask("/api/v1/runs", "POST", body=body)

    assert (answer.status, answer.json["error"]["code"]) == (400, "bad_request")


FORM = """
initial_state: {source: web, rows: 3, strict: true, words: [sun], plan: {"<a>": 1}}
start: z
nodes: {z: {type: end, output: "{{source}} {{rows}} {{strict}} {{words}} {{plan}}"}}
"""


def test_a_run_is_started_with_fields_of_the_types_of_the_initial_state(
    engine: Engine, site: ServedSite
) -> None:
    engine.write("typed", FORM)
    form = {"state-source": "web", "state-rows": "4", "state-strict": "false"}
    lists = {"state-words": "sun\r\nsky", "state-plan": "[1]"}

    page = site.ask("/agents/typed?tab=start").text
    refused = site.ask("/agents/typed", "POST", form={**form, "state-rows": "x"})
    other = site.ask("/agents/typed", "POST", form=lists)
    started = site.ask("/agents/typed", "POST", form={**form, "state-words": "sun\r\nsky"})
    engine.drive()
    run_id = started.headers["Location"].removeprefix("/runs/")
    again = site.ask(f"/agents/typed?again={run_id}").text
    listed = site.ask("/agents/typed?tab=start").text

    assert 'type="number" step="any" value="3"' in " ".join(page.split())
    assert "&quot;&lt;a&gt;&quot;: 1" in page
    assert refused.status == 422
    assert "correct the value of: rows" in refused.text
    assert "this is not a number</small>" in refused.text
    assert 'value="x"' in refused.text
    assert (other.status, "has the type list; in `initial_state` it has object" in other.text) == (
        422,
        True,
    )
    seeds = engine.queries.history(run_id)[0].writes
    assert (seeds["rows"], seeds["strict"], seeds["words"]) == (4, False, ["sun", "sky"])
    (run,) = site.ask("/api/v1/runs").json["runs"]
    command = site.ask(f"/api/v1/runs/{run['run_id']}/submitted").json["command"]
    assert "source" not in command
    assert 'value="4"' in again
    assert '<span class="quiet">changed</span>' in " ".join(again.split())
    assert "as before:" not in listed  # it had no prompt


def test_the_last_inputs_are_offered_again(engine: Engine, site: ServedSite) -> None:
    for prompt in ("one", "<two>", "one"):
        engine.submit_agent("typed", FORM, prompt=prompt)
        engine.clock.move(1)

    page = site.ask("/agents/typed?tab=start").text

    assert page.count('class="chip" href="?again=') == 2
    assert "&lt;two&gt;</a>" in page
    assert "3 of its runs</a> are open" in " ".join(page.split())


@pytest.mark.usefixtures("greeter")
def test_the_page_of_an_agent_has_tabs_and_begins_with_what_its_runs_did(
    engine: Engine, site: ServedSite
) -> None:
    submit(site, vars={"token": SECRET}, prompt="<one>")
    engine.drive()
    engine.write_normal("helper", "instructions: Help <them>.\nmodel: openai:m\n")

    page, helper = site.ask("/agents/greeter").text, site.ask("/agents/helper?tab=instructions")
    tabs = re.findall(r'href="\?tab=(\w+)"', page)
    document = site.ask("/api/v1/agents/greeter").json

    assert tabs == [
        *("overview", "start", "plan", "graph", "files", "evaluations", "versions"),
    ]
    assert 'aria-label="Runs that ended, by day: 1 in all' in page
    assert 'aria-label="How long runs took, by day: ' in page
    assert "&lt;one&gt;" in page
    assert 'name="key"' not in page
    assert "Help &lt;them&gt;." in helper.text
    assert {"model", "prompt", "tools"} <= document["nodes"][0].keys()
    assert site.ask("/agents/helper?tab=graph").status == 400


def test_the_page_of_an_agent_says_in_which_queue_a_node_waits(
    engine: Engine, site: ServedSite
) -> None:
    graph = "start: a\nnodes:\n  a: {type: set, values: {v: 1}, next: z%s}\n  z: {type: end}\n"
    engine.write("plain", graph % "")
    engine.write("mixed", "queue: browser\n" + graph % ", queue: gpu")

    pages = {name: site.ask(f"/agents/{name}?tab=graph").text for name in ("plain", "mixed")}

    queues = [node["queue"] for node in site.ask("/api/v1/agents/mixed").json["nodes"]]
    assert queues == ["gpu", "browser"]
    assert "<th>Queue</th>" not in pages["plain"]
    assert all(f'data-head="Queue">{queue}</td>' in pages["mixed"] for queue in queues)
