"""`deep-research` from the prompt to the report, its models and its web scripted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sleipnir.graphs.document.references import SHIPPED_AGENTS, AgentSearch
from sleipnir.graphs.errors import InvalidAgent
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.runs.events import RunSubmitted
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.runs.submit import Request
from tests.support import deep_research
from tests.support.conversations import results
from tests.support.deep_research import PASS, QUESTIONS, REPORT, REVISE, TOPIC, play, prompts
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, calls, fails, says
from tests.support.web_server import WebServer

BEFORE = ["parse_request", "bootstrap_research", "knowledge_lookup,plan"]
PASSED = [
    "research_each_question",
    "combine_findings",
    "vet_sources",
    "critique",
    "reflexion_gate",
]
AFTER = ["synthesize", "verify_sources", "approve"]


class Research:
    """Submits `deep-research` to an engine, and looks at what became of it."""

    def __init__(self, engine: Engine, server: ModelServer) -> None:
        self.engine = engine
        self.server = server
        self.client = Client.over(engine.store, AgentSearch((SHIPPED_AGENTS,)))

    def submit(self, prompt: str = TOPIC, **answers: list[str]) -> str:
        agent = self.client.prepare("deep-research")
        return self.client.submit(agent, Request(prompt=prompt, answers=answers))

    def finish(self, prompt: str = TOPIC, **answers: list[str]) -> Run:
        run_id = self.submit(prompt, **answers)
        self.engine.drive()
        return self.engine.run(run_id)

    def retry(self, run: Run) -> None:
        self.client.retry(run.run_id)
        self.engine.drive()

    def offered(self, role: str) -> list[str]:
        """The functions that the model of a role was offered."""
        request = next(each for each in self.server.requests if role in each.text)
        return [tool["function"]["name"] for tool in request.body.get("tools", [])]

    def route(self, run_id: str) -> list[str]:
        """The nodes of each step that is done."""
        history = self.engine.queries.history(run_id)[1:]
        return [",".join(sorted(checkpoint.nodes)) for checkpoint in history]

    def question(self) -> str:
        """The one that a person is asked."""
        (question,) = self.engine.inbox()
        return question.text

    def passes(self) -> int:
        """How often the questions were researched."""
        (count,) = {len(prompts(self.server, question)) for question in QUESTIONS}
        return count


@pytest.fixture(scope="module")
def web() -> Iterator[WebServer]:
    with WebServer(deep_research.pages()) as web:
        yield web


@pytest.fixture
def research(
    engine: Engine, server: ModelServer, web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> Research:
    for name, value in deep_research.environment(web).items():
        monkeypatch.setenv(name, value)
    engine.configure(model="openai:m", rag_embedding_model="none")
    return Research(engine, server)


def test_a_topic_becomes_a_report_that_is_accepted(research: Research) -> None:
    play(research.server)

    run = research.finish(f"  {TOPIC}\n", approve=["accept"])

    assert (run.status, run.output) == ("succeeded", REPORT)
    assert research.route(run.run_id) == [*BEFORE, *PASSED, *AFTER, "end_accepted"]
    state = research.engine.state(run.run_id)
    assert state["topic"] == TOPIC
    assert state["questions"] == [question.text for question in QUESTIONS]
    assert state["findings"] == "\n\n".join(
        f"## {question.text}\n\n{question.source.finding}" for question in QUESTIONS
    )
    # Its own notes are help for the search.
    assert "knowledge/research-style-notes.md" in str(state["local_sources"])
    assert state["local_context"] in prompts(research.server, QUESTIONS[0])[0]
    # Not configured; the research does without.
    (submitted,) = research.engine.events(run.run_id, RunSubmitted)
    assert "ddg-search" in str(submitted.warnings)


def test_each_node_has_its_tools_and_the_report_writer_those_of_every_agent(
    research: Research,
) -> None:
    play(research.server)

    research.finish(approve=["accept"])

    assert research.offered("You plan research") == []
    assert research.offered("You are a researcher") == [
        "web_search",
        "fetch_url_via_curl",
        "search_arxiv",
    ]
    assert research.offered("You judge sources") == ["classify_source"]
    assert research.offered("You are a strict reviewer") == []
    own = research.offered("You are a research editor")
    assert all(name.startswith(("user__", "agent__")) for name in own)
    rated = results(research.server, "You judge sources")
    assert "www.river-watch.org.example: MEDIUM - organisation" in str(rated)


def test_at_most_three_questions_are_open_and_their_order_does_not_depend_on_who_is_done_first(
    research: Research,
) -> None:
    five = [replace(QUESTIONS[0], text=f"How fast is harbour {name}?") for name in "ABCDE"]
    play(research.server, questions=five)
    in_order = research.finish(approve=["accept"])
    run_id = research.submit(approve=["accept"])
    most = 0
    while research.engine.work_once(newest=True):
        waiting = research.engine.queued_visits()
        most = max(most, sum("research_each_question/" in visit for visit in waiting))

    assert most == 3
    state = research.engine.state(run_id)
    assert state["findings"].startswith("## How fast is harbour A?\n\nTurbines below")
    assert state == research.engine.state(in_order.run_id)


def test_a_blank_prompt_is_asked_for_and_the_person_sees_which_links_answer(
    research: Research, web: WebServer
) -> None:
    play(research.server)
    gone = "http://port.gov.example/accounts"

    run = research.finish("  \n")
    assert (run.status, research.route(run.run_id)) == ("waiting", ["parse_request"])
    assert "What should be researched?" in research.question()
    research.client.answer(run.run_id, TOPIC)
    page = web.pages.pop(gone)
    research.engine.drive()
    web.pages[gone] = page

    shown = research.question()
    assert f'"{TOPIC}"' in shown
    assert REPORT in shown
    assert "\n  OK  http://tides.gov.example/currents\n" in shown
    assert f"\n  UNREACHABLE  {gone}\n" in shown
    research.client.answer(run.run_id, "reject")
    research.engine.drive()
    assert research.route(run.run_id)[-1] == "end_rejected"
    output = research.engine.run(run.run_id).output
    assert output == f'The research on "{TOPIC}" was rejected and dropped.'


def test_weak_findings_are_researched_again_twice_and_a_person_may_ask_for_more(
    research: Research,
) -> None:
    play(research.server, REVISE, REVISE, REVISE, PASS)

    run = research.finish()
    assert (research.engine.state(run.run_id)["research_attempts"], research.passes()) == (2, 3)
    research.client.answer(run.run_id, "Less on fish, please.")
    research.engine.drive()

    assert research.passes() == 4
    assert research.engine.state(run.run_id)["research_attempts"] == 0
    for question in QUESTIONS:
        first, second, third, fourth = prompts(research.server, question)
        assert REVISE not in first
        assert REVISE in second
        assert REVISE in third
        assert "Less on fish, please." in fourth


def test_a_pass_that_is_good_enough_ends_the_loop(research: Research) -> None:
    play(research.server, REVISE, PASS)

    run = research.finish(approve=["accept"])

    assert research.route(run.run_id) == [*BEFORE, *PASSED, *PASSED, *AFTER, "end_accepted"]
    assert REVISE in prompts(research.server, QUESTIONS[2])[1]


def test_a_review_without_a_verdict_and_an_assessment_that_failed_cost_no_report(
    research: Research,
) -> None:
    research.server.when("You judge sources", fails(400, "no"))
    play(research.server, "I like it.")

    run = research.finish(approve=["accept"])

    assert (run.output, research.passes()) == (REPORT, 1)


def test_without_a_plan_the_run_fails_where_the_questions_are_missing(
    research: Research,
) -> None:
    research.server.when("You plan research", fails(400, "no"))

    run = research.finish()

    failure = research.engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R001", "research_each_question")
    assert "questions" in failure.message


def test_what_failed_is_repeated_alone_by_a_retry(research: Research) -> None:
    down, asked = fails(400, "no"), QUESTIONS[1]
    opened = calls(("fetch_url_via_curl", {"url": asked.source.url}))
    research.server.when(f"Question: {asked.text}", down, opened, says(asked.source.finding))
    research.server.when("You are a research editor", down, says(REPORT))
    play(research.server)

    run = research.finish(approve=["accept"])
    failure = research.engine.failure(run.run_id)
    assert (failure.code, "1" in failure.message) == ("R011", True)
    research.retry(run)
    assert research.engine.failure(run.run_id).code == "R015"
    research.retry(run)

    assert research.engine.run(run.run_id).output == REPORT
    found = research.engine.state(run.run_id)["question_findings"]
    assert found == [question.source.finding for question in QUESTIONS]


def test_without_an_embedding_model_one_line_says_what_to_set(research: Research) -> None:
    research.engine.configure(model="openai:m")
    research.client = Client.over(research.engine.store, AgentSearch((SHIPPED_AGENTS,)))

    with pytest.raises(InvalidAgent, match=r"E208.*set .*rag_embedding_model"):
        research.submit()
