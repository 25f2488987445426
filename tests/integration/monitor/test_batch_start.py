"""A batch is started from a file: what is in it is shown first, then a run begins for each line."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.engine import Engine
from tests.support.site import KEY, Answer, ServedSite

GRAPH = """
initial_state: {town: "", note: n}
start: z
nodes: {z: {type: end, output: "{{initial_prompt}} {{town}} {{note}}"}}
"""
CSV = "Question,Town,Dial\r\nwhere?,Ulm,1\r\nwhen?,<Bonn>,2\r\nwho?,Jena,3\r\nhow?,Rom,4\r\n"
MEANT = {"column-Question": "prompt", "column-Town": "town", "column-Dial": ""}


@pytest.fixture(autouse=True)
def towns(engine: Engine) -> None:
    engine.write("towns", GRAPH)


def send(site: ServedSite, name: str, text: str) -> Answer:
    """Send a file as a browser's form does."""
    head = f'Content-Disposition: form-data; name="file"; filename="{name}"'
    body = f"--mark\r\n{head}\r\n\r\n{text}\r\n--mark--\r\n"
    kind = "multipart/form-data; boundary=mark"
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": kind}
    return site.ask("/agents/towns/batch", "POST", headers=headers, body=body)


def upload_of(page: Answer) -> str:
    found = re.search(r'name="upload" value="([\w-]+)"', page.text)
    assert found is not None
    return found[1]


def test_a_file_is_looked_at_and_then_started_as_a_batch(engine: Engine, site: ServedSite) -> None:
    first = send(site, "towns.csv", CSV)
    given = {"upload": upload_of(first), **MEANT}
    again = site.ask("/agents/towns/batch", "POST", form={**given, "act": "look"})
    assert engine.newest_runs() == []

    given |= {"act": "start", "name": "all towns", "budget": "2"}
    started = site.ask("/agents/towns/batch", "POST", form=given)
    engine.drive()

    page, told = " ".join(first.text.split()), " ".join(again.text.split())
    assert page.count("nothing in the agent reads it") == 2
    assert '<option value="town" selected>town</option>' in page
    assert "The first runs of 4" in page
    assert told.count("<li><dl") == 3
    assert "&lt;Bonn&gt;" in told
    assert "nothing in the agent reads it" not in told
    assert "Start 4 runs" in told
    assert (started.status, started.headers["Location"]) == (303, "/batches/all%20towns")
    outputs = {engine.run(run_id).output for run_id in engine.newest_runs()}
    assert outputs == {"where? Ulm n", "when? <Bonn> n", "who? Jena n", "how? Rom n"}
    batch = site.ask("/api/v1/batches/all%20towns").json
    assert (batch["agent"], batch["lines"], batch["succeeded"]) == ("towns", 4, 4)
    acts = [(act["act"], act["target"]) for act in site.ask("/api/v1/audit").json["acts"]]
    assert acts == [("batch", "all towns")]
    site.ask("/agents/towns/batch", "POST", form=given)
    assert len(engine.newest_runs()) == 4


def test_lines_that_cannot_be_used_stop_a_batch_or_are_left_out(
    engine: Engine, site: ServedSite
) -> None:
    lines = '{"prompt": "a"}\r\n{"promt": "b"}\r\n{"prompt": "c", "state": {"town": "<x>"}}\r\n'
    page = send(site, "lines.jsonl", lines)
    given = {"upload": upload_of(page), "act": "start"}

    refused = site.ask("/agents/towns/batch", "POST", form=given)
    started = site.ask("/agents/towns/batch", "POST", form={**given, "skip_bad": "1"})
    odd = send(site, "lines.pdf", lines)
    empty, head = send(site, "lines.csv", ""), ",".join(f"c{number}" for number in range(3_000))
    wide = send(site, "wide.csv", f"{head}\r\n{head}")
    gone = site.ask("/agents/towns/batch", "POST", form={"upload": "x"})

    assert "line 2: unknown field &#x27;promt&#x27;" in page.text
    assert refused.status == 422
    assert "1 line of lines.jsonl cannot be used" in refused.text
    assert started.status == 303
    assert re.fullmatch(r"/batches/towns-lines-\w{8}", started.headers["Location"])
    assert len(engine.newest_runs()) == 2
    assert (odd.status, "it must end in .csv, .jsonl or .txt" in odd.text) == (422, True)
    assert "The file has no lines that can be run." in empty.text
    assert "and 2,950 more" in wide.text
    assert len(wide.text) < 150_000
    assert (gone.status, "choose it again" in gone.text) == (410, True)


def test_a_hundred_runs_take_their_number(engine: Engine, site: ServedSite) -> None:
    page = send(site, "many.txt", "\r\n".join(f"line {number}" for number in range(100)))
    given = {"upload": upload_of(page), "act": "start"}

    refused = site.ask("/agents/towns/batch", "POST", form={**given, "typed": "99"})

    assert 'name="typed"' in page.text
    assert (refused.status, engine.newest_runs()) == (422, [])
    assert site.ask("/agents/towns/batch", "POST", form={**given, "typed": "100"}).status == 303


def test_programs_start_batches(engine: Engine, site: ServedSite) -> None:
    def start(**body: object) -> Answer:
        return site.ask("/api/v1/batches", "POST", body=json.dumps({"agent": "towns", **body}))

    meant = {"Question": "prompt", "Town": "town", "Dial": ""}
    started = start(lines=CSV, format="csv", columns=meant, name="t")
    other = start(lines='"a"', agent="towns", name="")
    path = start(lines='"a"', agent="./towns")
    bad = start(lines="{")
    twice = start(lines=CSV, format="csv", columns={"Question": "town", "Town": "town"})
    nowhere = start(lines='"a"', format="jsonl", webhook="http://ops.example")

    assert (started.status, started.json) == (202, {"batch": "t"})
    assert len(engine.newest_runs()) == 4
    assert [each.status for each in (other, path, bad, twice, nowhere)] == [
        400,
        *[422] * 4,
    ]
    assert "2 columns are named 'town'" in twice.json["error"]["message"]
    assert "only https is allowed" in nowhere.json["error"]["message"]
