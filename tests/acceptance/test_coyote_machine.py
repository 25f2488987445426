"""Agents that use all of the newer dialect are imported as they are, and run to each of their ends.

`coyote_machine/` is what somebody has on a machine; nothing in it is edited but the address of the
model server.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Sleipnir
from tests.support.conversations import converses, results, turn_of
from tests.support.model_server import ModelServer, Reply, Request, calls, fails, says
from tests.support.supervising import collects_all, does, spawns
from tests.support.wait import wait_until

MACHINE = Path(__file__).with_name("coyote_machine")
WITH_WARNINGS = {"captain", "harbour-survey", "pilot-book", "scribe"}


@pytest.fixture(scope="module")
def office() -> Iterator[ModelServer]:
    """The model server that the office's own client names."""
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def imported(
    tmp_path_factory: pytest.TempPathFactory, office: ModelServer
) -> tuple[Sleipnir, dict[str, Any]]:
    """The command on what was imported, and the report of the import."""
    directory = tmp_path_factory.mktemp("office")
    theirs = directory / "theirs"
    shutil.copytree(MACHINE, theirs)
    config = theirs / "config.yaml"
    config.write_text(config.read_text().replace("http://127.0.0.1:9/v1", office.base_url))
    path = f"{theirs / 'bin'}{os.pathsep}{os.environ['PATH']}"
    sleipnir = Sleipnir(directory, PATH=path)
    return sleipnir, sleipnir.json("import", str(theirs))


@pytest.fixture(scope="module")
def sleipnir(imported: tuple[Sleipnir, dict[str, Any]]) -> Iterator[Sleipnir]:
    """An engine on what was imported."""
    command, _ = imported
    with command.up():
        yield command


def finish(sleipnir: Sleipnir, agent: str, prompt: str, *flags: str) -> str:
    """Run an agent to its end; return its output."""
    done = sleipnir("run", "-q", agent, prompt, *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


def test_every_agent_is_taken_without_an_error(imported: tuple[Sleipnir, dict[str, Any]]) -> None:
    _, report = imported

    parts = {part["name"]: part for part in report["parts"]}
    agents = {name: part for name, part in parts.items() if part["kind"] == "agent"}
    warned = {name for name, part in agents.items() if part["check"] == "with warnings"}
    assert {part["fate"] for part in agents.values()} == {"copied"}
    assert warned == WITH_WARNINGS
    assert report["agents"] == {
        "ready": len(agents) - len(warned),
        "with warnings": len(warned),
        "with errors": 0,
    }
    left_out = {name for name, part in parts.items() if part["fate"] == "not taken over"}
    assert left_out == {
        *("bin", "claude", "keybindings", "lighthouse", "save", "stream", "visible_tools"),
        "web_search_coyote.sh",
    }


def test_fields_without_effect_are_named_in_one_line(
    imported: tuple[Sleipnir, dict[str, Any]],
) -> None:
    _, report = imported

    notes = {part["name"]: part["notes"] for part in report["parts"]}

    assert notes["scribe"][0].startswith(
        "config.yaml:5:1: W011 4 fields have no effect here: config.reasoning_effort, "
        "config.enabled_tools, config.memory, config.hooks"
    )


STEPS = {"steps": [{"title": "caulk", "minutes": 20}, {"title": "paint", "minutes": 40}]}
TOO_LONG = {"steps": [{"title": "caulk", "minutes": 20}, {"title": "rebuild", "minutes": 900}]}


def test_steps_are_run_by_a_graph_that_is_seeded(sleipnir: Sleipnir, office: ModelServer) -> None:
    converses(office, "Which steps has this: fit out", says(json.dumps(STEPS)))
    converses(office, "Do step 1, caulk, at most 20 minutes.", says("Caulked."))
    converses(office, "Do step 2, paint, at most 40 minutes.", says("Painted."))

    assert finish(sleipnir, "step-runner", "fit out") == '["1. Caulked.","2. Painted."]'


def test_a_step_that_fails_leads_to_the_fallback(sleipnir: Sleipnir, office: ModelServer) -> None:
    converses(office, "Which steps has this: build", says(json.dumps(TOO_LONG)))
    converses(office, "Do step 1, caulk, at most 20 minutes.", says("Caulked."))

    output = finish(sleipnir, "step-runner", "build")

    assert output.startswith('stopped at step 2: ["1. Caulked.","Agent node failed: ')
    assert "rebuild takes too long" in output


def test_a_job_whose_steps_nobody_lists_fails(sleipnir: Sleipnir, office: ModelServer) -> None:
    converses(office, "Which steps has this: dream", fails(400, "no idea"))

    failed = sleipnir("run", "-q", "--json", "step-runner", "dream")

    error = json.loads(failed.stdout)["error"]
    assert (failed.returncode, error["code"], error["node"]) == (1, "R014", "list_steps")


def test_filters_and_skills_leave_what_all_of_them_let_through(
    sleipnir: Sleipnir, office: ModelServer
) -> None:
    search = ("mcp_search_registry", {"query": "ship of the port"})
    converses(
        office,
        "Land the salt.",
        calls(search, ("skill__list", {}), ("skill__load", {"name": "customs"})),
        calls(
            search,
            ("mcp_invoke_registry", {"tool": "ship_find", "arguments": {"name": "Gull"}}),
            ("mcp_invoke_registry", {"tool": "ship_scrap", "arguments": {"name": "Gull"}}),
            ("read_log", {"day": "monday", "lines": 1}),
        ),
        says("Salt at quay 3."),
    )
    converses(
        office,
        "Tie up, and tell it again: Salt at quay 3.",
        calls(("skill__load", {"name": "knots"})),
        says("Tied up."),
    )

    assert finish(sleipnir, "smuggler", "Land the salt.") == "Tied up."

    first, listed, loaded, second, found, refused, log = map(
        json.loads, results(office, "Land the salt.")
    )
    assert {tool["name"] for tool in first} == {"ship_find", "ship_scrap"}
    assert [skill["name"] for skill in listed["skills"]] == ["customs"]
    assert loaded["tools"] == ["read_log"]
    assert [tool["name"] for tool in second] == ["ship_find"]
    assert found["content"][0]["text"] == "ship_find of Gull: quay 3"
    assert "ship_scrap" in refused["tool_call_error"]
    assert log == {"output": "monday: entry 1"}


def test_an_adversary_that_fails_is_caught(sleipnir: Sleipnir, office: ModelServer) -> None:
    converses(office, "Land the tea.", fails(400, "no tea"))

    assert finish(sleipnir, "smuggler", "Land the tea.").startswith("caught: LLM node failed")


QUESTIONS = ["why wait", "who pays", "what storm", "how deep"]


def surveys(office: ModelServer, topic: str, questions: list[str]) -> None:
    """Script the plan of a survey, and what is found; two questions end in a shrug."""
    converses(office, f"Split into questions: {topic}", says(json.dumps({"questions": questions})))
    converses(office, "Look into it: why wait", says("The crane is slow."))
    converses(office, "Look into it: who pays", says("The owner?"))
    converses(office, "Say it without a doubt: The owner?", says("Or the port?"))
    converses(office, "Say it without a doubt: Or the port?", says("The port."))
    converses(office, "Look into it: what storm", says("A storm came."))
    converses(office, "Look into it: how deep", fails(400, "too deep"))


FOUND = "The crane is slow. (good); The port. (sharpened); nobody knows; nobody knows"


def test_a_survey_goes_its_way_for_each_question(sleipnir: Sleipnir, office: ModelServer) -> None:
    surveys(office, "the quay", QUESTIONS)
    converses(office, f"Write up: {FOUND}", says("Boats wait."))

    hung = finish(sleipnir, "harbour-survey", "the quay", "--answer", "approve=yes")
    dropped = finish(sleipnir, "harbour-survey", "the quay", "--answer", "approve=no")

    assert (hung, dropped) == ("Boats wait.", "nothing was hung up")


def test_a_survey_without_a_plan_or_a_report_says_so(
    sleipnir: Sleipnir, office: ModelServer
) -> None:
    converses(office, "Split into questions: nothing", fails(400, "no"))
    surveys(office, "one thing", QUESTIONS[:1])
    converses(office, "Write up: The crane is slow. (good)", fails(400, "no ink"))

    assert finish(sleipnir, "harbour-survey", "nothing") == "there was no plan"
    assert "no ink" in finish(sleipnir, "harbour-survey", "one thing")


def test_claims_are_read_as_many_at_once_as_a_variable_says(
    sleipnir: Sleipnir, office: ModelServer
) -> None:
    converses(office, "Is it true: the keel is sound", says('{"holds": true}'))
    converses(office, "Is it true: the mast is new", says('{"holds": false}'))
    converses(office, "Is it true: the hold is dry", fails(400, "dark"))
    converses(office, "Is it true: rumour of worms", fails(400, "dark"))

    claims = "the keel is sound; the mast is new; the hold is dry; rumour of worms"
    read = finish(sleipnir, "claim-check", claims, "--var", "readers=3")

    assert json.loads(read) == [
        *("the keel is sound: holds", "the mast is new: falls", "the hold is dry: unread")
    ]
    assert finish(sleipnir, "claim-check", "the mast is new") == "nothing holds"
    refused = sleipnir("run", "-q", "--json", "claim-check", claims, "--var", "readers=none")
    assert json.loads(refused.stdout)["error"]["code"] == "R026"


def test_answers_are_found_in_documents_within_a_chain(
    sleipnir: Sleipnir, office: ModelServer
) -> None:
    office.when(lambda request: request.path.endswith("/embeddings"), says(""))
    converses(office, "white, each qqq seconds", says("White."))
    converses(office, "4 metres at low water", says("4 metres."))

    output = finish(sleipnir, "pilot-book", "zzz; qqq")

    assert output.startswith('["4 metres.","White."] [')
    assert finish(sleipnir, "pilot-book", "zzz").endswith('["./book/bar.md"]')


def test_a_captain_starts_whom_it_may(sleipnir: Sleipnir, office: ModelServer) -> None:
    reader = {"agent": "hull-reader", "prompt": "Frame 1.", "variables": {"lamp": "bright"}}
    converses(
        office,
        "May we sail?",
        calls(
            ("agent__list_available", {"session_id": "1"}),
            ("agent__spawn", {"agent": "smuggler", "prompt": "Help."}),
            ("agent__spawn", reader),
            ("agent__list_running", {}),
            ("job__start", {"command": "pump"}),
            ("skill__load", {"name": "knots"}),
        ),
        does("agent__check"),
        collects_all,
        calls(
            ("agent__check_inbox", {}),
            ("user__select", {"question": "Sail?", "options": ["aye", "no"]}),
            ("todo__add", {"task": "mend frame 1"}),
            ("todo__pause", {"reason": "The tide."}),
        ),
        says("We may sail."),
    )
    to_captain = ("agent__send_message", {"id": "parent", "message": "It is hollow."})
    converses(office, "Frame 1.", calls(("tap", {"frame": 1}), to_captain), says("Hollow."))

    done = sleipnir("run", "captain", "May we sail?", "--answer", "user__select=aye")

    assert (done.returncode, done.stdout) == (0, "We may sail.\n"), done.stderr
    found = [json.loads(result) for result in results(office, "May we sail?")]
    available, refused, started, running, job, knots, _, collected, inbox, chosen, *_ = found
    assert [agent["name"] for agent in available["agents"]] == ["hull-reader", "scribe"]
    assert refused["status"] == "error"
    assert [child["id"] for child in running["agents"]] == [started["id"]]
    assert "call the tool itself" in job["tool_call_error"]
    assert knots["status"] == "ok"
    assert collected["output"] == "Hollow."
    assert [message["from"] for message in inbox["messages"]] == [started["id"]]
    assert chosen == {"answer": "aye"}
    assert "▸ paused: The tide." in done.stderr
    asked = (request for request in office.requests if request.messages)
    prompt = next(request for request in asked if "Frame 1." in request.prompt)
    assert "by a bright lamp" in prompt.text


def test_frames_are_read_by_agents_that_an_llm_node_starts(
    sleipnir: Sleipnir, office: ModelServer
) -> None:
    converses(
        office,
        "Review: the Gull",
        spawns("Frame 2.", "Frame 3.", agent="hull-reader"),
        collects_all,
        says("2 is full, 3 hollow."),
    )
    for frame in (2, 3):
        converses(office, f"Frame {frame}.", calls(("tap", {"frame": frame})), says("Heard."))
    converses(office, "Sum up: 2 is full, 3 hollow.", says("Mend frame 3."))
    converses(office, "Review: the Tern", fails(400, "fog"))

    assert finish(sleipnir, "hull-review", "the Gull") == "Mend frame 3."
    assert finish(sleipnir, "hull-review", "the Tern").startswith("no review: ")

    review, summary = (
        next(request for request in office.requests if text in request.text)
        for text in ("Review: the Gull", "Sum up: 2 is full")
    )
    assert [tool["function"]["name"] for tool in review.body["tools"]] == [
        *("read_log", "agent__spawn", "agent__check", "agent__collect", "agent__list"),
        *("agent__list_available", "agent__cancel"),
    ]
    assert "tools" not in summary.body


def tells(to: str, text: str) -> Callable[[Request], Reply]:
    """Make a reply that writes to the member of the team with a label."""

    def reply(request: Request) -> Reply:
        (member,) = re.findall(rf"- (\S+) \({re.escape(to)}\)", request.text)
        return calls(("agent__send_message", {"id": member, "message": text}))

    return reply


def reads(office: ModelServer, after: str) -> Callable[[Request], Reply]:
    """Make a reply that looks into the inbox once another member has written."""

    def has_written() -> bool:
        return any(after in each.text and turn_of(each) == 2 for each in office.requests)

    def reply(_: Request) -> Reply:
        wait_until(has_written, f"'{after}' has written")
        return calls(("agent__check_inbox", {}))

    return reply


@pytest.mark.parametrize("passes", [True, False])
def test_rivals_write_to_each_other_before_they_are_judged(
    sleipnir: Sleipnir, office: ModelServer, passes: bool
) -> None:
    plan = f"row home {passes}"
    converses(office, f"Attack: {plan}", tells("defend", "It leaks."), says("It leaks."))
    after = f"Attack: {plan}"
    converses(office, f"Defend: {plan}", reads(office, after), says("It floats."))
    converses(office, f"Speak as Ada: {plan}", tells("speak[1]", "Row!"), says("Aye."))
    after = f"Speak as Ada: {plan}"
    converses(office, f"Speak as Bo: {plan}", reads(office, after), says("No."))
    judged = f'Judge {plan}: ["It leaks.","It floats."] ["Aye.","No."]'
    converses(office, judged, says(json.dumps({"passes": passes})))

    output = finish(sleipnir, "gauntlet", plan)

    ends = {True: 'passed: ["Aye.","No."]', False: 'failed: ["It leaks.","It floats."]'}
    assert output == ends[passes]
    for member, message in (("Defend", "It leaks."), ("Speak as Bo", "Row!")):
        (inbox,) = map(json.loads, results(office, f"{member}: {plan}"))
        assert [letter["payload"]["content"] for letter in inbox["messages"]] == [message]


def test_a_rival_who_fails_is_heard_all_the_same(sleipnir: Sleipnir, office: ModelServer) -> None:
    for side in ("Attack", "Defend", "Speak as Ada", "Speak as Bo"):
        converses(office, f"{side}: swim", fails(400, "drowned"))
    converses(office, "Judge swim: [", fails(400, "asleep"))

    assert finish(sleipnir, "gauntlet", "swim") == "nobody judged"
