"""Forms are made of what an agent declares, and check what is entered into them."""

from __future__ import annotations

import re

import pytest

from tests.support.engine import Engine
from tests.support.site import KEY, Answer, ServedSite

FORM = """
variables:
  - {name: tone, description: How to <write>, default: warm}
  - {name: rounds, description: how often}
initial_state: {level: low, rows: 3, note: "", since: null, tags: [a, b], left: null}
x-form:
  initial_prompt: {title: What to do, min: 3}
  tone: {enum: [warm, "<cold>"]}
  rounds: {format: number, max: 5}
  level: {title: Level of <care>, enum: [low, high]}
  rows: {min: 1, max: 10}
  note: {format: file, max: 30}
  since: {format: date, min: "2026-01-01"}
  tags: {max: 3}
start: z
nodes: {z: {type: end, output: "{{level}} {{rows}} {{note}} {{since}} {{tags}} {{gone}}"}}
"""
GIVEN = {"prompt": "look", "var-tone": "<cold>", "var-rounds": "2", "state-left": ""}


@pytest.fixture(autouse=True)
def asking(engine: Engine) -> None:
    engine.write("asking", FORM)


def send(site: ServedSite, files: dict[str, tuple[str, str]] | None = None, **given: str) -> Answer:
    """Send the form as browsers do, with the text of files by field."""
    parts = [(f'name="{name}"', text) for name, text in {**GIVEN, **given}.items()]
    for name, (file, text) in (files or {}).items():
        parts.append((f'name="{name}"; filename="{file}"', text))
    body = "".join(
        f"--mark\r\nContent-Disposition: form-data; {head}\r\n\r\n{text}\r\n"
        for head, text in parts
    )
    headers = {
        "Authorization": f"Bearer {KEY}",
        "Content-Type": "multipart/form-data; boundary=mark",
    }
    address = "/agents/asking"
    return site.ask(address, "POST", headers=headers, body=f"{body}--mark--\r\n")


def test_fields_are_of_the_kind_that_a_form_names(site: ServedSite) -> None:
    page = " ".join(site.ask("/agents/asking?tab=start").text.split())
    document = site.ask("/api/v1/agents/asking").json

    fields = dict(
        re.findall(r'<(?:input|select|textarea) id="([\w-]+)-field" name="\S+"([^>]*)', page)
    )
    assert fields == {
        "prompt": ' minlength="3" required rows="4" data-drop',
        "var-tone": "",
        "var-rounds": ' max="5" required type="number" step="any" value=""',
        "state-level": "",
        "state-rows": ' min="1" max="10" type="number" step="any" value="3"',
        "state-note": ' maxlength="30" rows="2" data-drop',
        "state-since": ' min="2026-01-01" type="date" value=""',
        "state-tags": ' rows="3" data-texts data-drop',
        "state-left": ' rows="2" class="is-json" data-json data-drop',
    }
    assert ">What to do <span" in page
    assert "Level of &lt;care&gt;" in page
    assert '<option value="&lt;cold&gt;">&lt;cold&gt;</option>' in page
    assert "How to &lt;write&gt;" in page
    assert document["form"]["rows"] == {
        "title": None,
        "enum": None,
        "min": 1,
        "max": 10,
        "format": None,
    }


def test_what_is_wrong_is_said_beside_its_field(engine: Engine, site: ServedSite) -> None:
    wrong = {
        "prompt": ("x", "at least 3 characters"),
        "var-tone": ("hot", "choose one of warm, &lt;cold&gt;"),
        "var-rounds": ("", "this is required"),
        "state-level": ("middling", "choose one of low, high"),
        "state-rows": ("11", "at most 10"),
        "state-note": ("n" * 31, "at most 30 characters"),
        "state-since": ("2025-12-31", "at least 2026-01-01"),
        "state-tags": ("a\r\nb\r\nc\r\nd", "at most 3 entries"),
        "state-left": ("{", "this is not JSON"),
    }

    refused = send(site, **{name: text for name, (text, _) in wrong.items()})

    assert refused.status == 422
    said = re.findall(r'id="([\w-]+)-problem">([^<]*)</small>', refused.text)
    assert [(name, text[: len(wrong[name][1])]) for name, text in said] == [
        (name, text) for name, (_, text) in wrong.items()
    ]
    assert "correct the value of: What to do, tone, rounds" in refused.text
    assert engine.newest_runs() == []


def test_a_run_gets_what_was_entered_and_the_text_of_a_file(
    engine: Engine, site: ServedSite
) -> None:
    files = {"file-state-note": ("note.txt", "from a <file>"), "file-prompt": ("", "")}

    started = send(
        site, files, **{"state-rows": "4", "state-since": "2026-02-03", "state-tags": "b\r\na"}
    )
    binary = send(site, {"file-state-note": ("note.bin", "\xff")})
    engine.drive()

    assert (started.status, binary.status) == (303, 400)
    assert "the file &#x27;note.bin&#x27; is not UTF-8 text" in binary.text
    seeds = engine.queries.history(started.headers["Location"].rpartition("/")[2])[0].writes
    assert {key: seeds[key] for key in ("rows", "since", "tags", "note", "left", "tone")} == {
        "rows": 4,
        "since": "2026-02-03",
        "tags": ["b", "a"],
        "note": "from a <file>",
        "left": None,
        "tone": "<cold>",
    }


def test_warnings_of_the_agent_are_told_before_it_is_started(site: ServedSite) -> None:
    page = " ".join(site.ask("/agents/asking?tab=start").text.split())

    assert "1 warning of <code>validate</code>" in page
    assert "<code>W016</code>" in page


ASKS = """
start: many
nodes:
  many:
    type: input
    question: How many?
    x-form: {title: Number of <rows>, format: number, min: 1, max: 9}
    state_updates: {many: "{{input}}"}
    next: which
  which: {type: input, question: Which?, x-form: {enum: [red, "<blue>"]}, default: red, next: z}
  z: {type: end, output: "{{many}} {{input}}"}
"""


def test_answers_are_asked_for_and_checked_by_the_form_of_their_node(
    engine: Engine, site: ServedSite
) -> None:
    run_id = engine.submit(ASKS)
    engine.drive()
    address = f"/inbox/{run_id}/1/many"

    page = " ".join(site.ask(address).text.split())
    on_run = " ".join(site.ask(f"/runs/{run_id}").text.split())
    refused = [site.ask(address, "POST", form={"answer": text}) for text in ("many", "10")]
    document = site.ask("/api/v1/questions").json["questions"]
    given = site.ask(address, "POST", form={"answer": "4"})
    engine.drive()
    which = site.ask(f"/inbox/{run_id}/2/which").text
    odd = site.ask(f"/inbox/{run_id}/2/which", "POST", form={"answer": "green"})

    field = 'name="answer" min="1" max="9" type="number" step="any"'
    assert field in page
    assert field in on_run
    assert "Number of &lt;rows&gt;" in page
    assert [each.status for each in refused] == [422, 422]
    assert "this is not a number" in refused[0].text
    assert "at most 9" in refused[1].text
    assert len(document) == 1
    assert given.status == 303
    assert '<option value="&lt;blue&gt;">' in which
    assert odd.status == 422
    assert site.ask(f"/inbox/{run_id}/2/which", "POST", form={"answer": "<blue>"}).status == 303
    engine.drive()
    assert engine.run(run_id).output == "4 "
