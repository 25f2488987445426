"""Questions are answered on pages and by the API: checked first, once, and with a name."""

from __future__ import annotations

import re

import pytest

from sleipnir.scheduler.errors import AnswerInvalid
from sleipnir.scheduler.runs.events import QuestionAnswered
from sleipnir.scheduler.runs.model import Question, Run, Status
from sleipnir.scheduler.store.audit.log import AuditLog
from sleipnir.scheduler.store.keys import opened_key
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.scheduler.store.people import opened
from sleipnir.scheduler.store.people.opened import OpenedQuestions
from sleipnir.scheduler.views.inbox import answer_of_choices
from sleipnir.worker.monitor.access import Access
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, calls, says
from tests.support.site import KEY, ServedSite

ACCESS = Access(key=KEY)
COOKIE = {"Cookie": f"sleipnir_monitor={ACCESS.cookie}"}
GRAPH = """
settings: {timeout: 3600}
initial_state: {said: ""}
start: review
nodes:
  review:
    type: approval
    question: "Publish {{initial_prompt}}?{{said}}"
    options: ["yes", "no"]
    routes: {"yes": name, "no": z}
    on_other: z
    state_updates: {said: "{{choice}}"}
  name: {type: input, question: "Under which name?", validation: "len(input) >= 5", next: z}
  z: {type: end, output: "{{said}}"}
"""


def token() -> str:
    visitor = ACCESS.visitor({}, ACCESS.cookie)
    assert visitor is not None
    return visitor.form_token


def answer(site: ServedSite, path: str, text: str) -> tuple[int, str]:
    form = {"_token": token(), "answer": text}
    done = site.ask(path, "POST", headers=COOKIE, form=form)
    return done.status, done.headers.get("Location", done.text)


def test_a_question_is_found_answered_and_leads_to_the_next(
    engine: Engine, site: ServedSite
) -> None:
    first = engine.finish(GRAPH, prompt="<b>this</b>")
    second = engine.finish(GRAPH, prompt="that")
    path = f"/inbox/{first.run_id}/1/review"

    inbox = site.ask("/inbox", headers=COOKIE).text
    form = site.ask(path, headers=COOKIE).text
    done = answer(site, path, "yes")

    assert f'href="{path}"' in inbox
    assert "Publish &lt;b&gt;this" in inbox
    assert "leads to name → z" in " ".join(form.split())
    assert 'Another answer <span class="leads">leads to z' in " ".join(form.split())
    assert "the run ends at" in form
    assert "from the state: <b>said</b>" in form
    assert ">&lt;b&gt;this&lt;/b&gt;</pre>" in form
    assert f'href="/runs/{first.run_id}/graph?node=review"' in form
    assert done == (303, f"/inbox/{second.run_id}/1/review?answered={first.run_id}%2F1%2Freview")
    assert "<b>yes</b> was sent." in site.ask(done[1], headers=COOKIE).text
    (told,) = engine.events(first.run_id, QuestionAnswered)
    assert (told.by, told.via) == ("operator", "page")


def test_questions_and_results_are_shown_as_markdown_and_as_they_were_written(
    engine: Engine, site: ServedSite
) -> None:
    run = engine.finish(GRAPH, prompt="**this**")
    pages = [
        site.ask(f"{at}").text for at in (f"/inbox/{run.run_id}/1/review", f"/runs/{run.run_id}")
    ]
    engine.client.answer(run.run_id, "- *no*")
    engine.drive()
    ended = site.ask(f"/runs/{run.run_id}").text

    assert all("Publish <strong>this</strong>?" in page for page in pages)
    assert all("Publish **this**?</pre>" in page for page in pages)
    assert "<li><em>no</em></li>" in ended
    assert "- *no*</pre>" in ended


def test_the_first_answer_counts_and_the_second_person_is_told(
    engine: Engine, site: ServedSite
) -> None:
    run = engine.finish(GRAPH)
    path = f"/inbox/{run.run_id}/1/review"
    answer(site, path, "yes")

    late, page = answer(site, path, "no"), site.ask(path, headers=COOKIE)

    assert late[0] == page.status == 409
    assert "answered by operator" in late[1]
    assert "answered by operator" in page.text
    engine.drive()
    assert engine.run(run.run_id).frontier == ("name",)
    assert answer(site, path, "no")[0] == 409
    assert engine.run(run.run_id).status == Status.WAITING


@pytest.fixture
def asked(engine: Engine) -> Run:
    """A run whose `input` node asks for five characters."""
    run = engine.finish(GRAPH, answers={"review": ["yes"]})
    assert run.frontier == ("name",)
    return run


def test_an_answer_is_checked_before_it_counts(
    engine: Engine, site: ServedSite, asked: Run
) -> None:
    path = f"{asked.run_id}/2/name"

    on_page = answer(site, f"/inbox/{path}", "Ada<")
    by_api = site.ask(f"/api/v1/questions/{path}/answer", "POST", body='{"text": "Ada"}')
    with pytest.raises(AnswerInvalid, match="len"):
        engine.client.answer(asked.run_id, "Ada")

    assert on_page[0] == 422
    assert "does not satisfy" in on_page[1]
    assert "Ada&lt;</textarea>" in on_page[1]
    assert (by_api.status, by_api.json["error"]["code"]) == (422, "invalid")
    done = site.ask(f"/api/v1/questions/{path}/answer", "POST", body='{"text": "Ada Lovelace"}')
    assert done.json == {"run_id": asked.run_id, "node": "name"}
    engine.drive()
    assert engine.run(asked.run_id).status == Status.SUCCEEDED


def test_runs_are_cancelled_and_retried_and_all_of_it_is_noted(
    engine: Engine, site: ServedSite, asked: Run
) -> None:
    base = f"/runs/{asked.run_id}"
    answer(site, f"/inbox/{asked.run_id}/2/name", "Ada")

    form = {"_token": token(), "reason": "a <mistake>"}
    cancelled = site.ask(f"{base}/cancel", "POST", headers=COOKIE, form=form)
    assert (cancelled.status, cancelled.headers["Location"]) == (303, base)
    assert "a &lt;mistake&gt;" in site.ask(base).text
    assert site.ask(f"/api/v1{base}/retry", "POST", body="").status == 202
    again = site.ask(f"/api/v1{base}/retry", "POST", body="")

    assert (again.status, again.json["error"]["code"]) == (409, "refused")
    acts = site.ask("/api/v1/audit").json["acts"]
    assert [(act["act"], act["via"], act["outcome"] == "done") for act in acts] == [
        ("retry", "api", False),
        ("retry", "api", True),
        ("cancel", "page", True),
        ("answer", "page", False),
    ]
    assert {act["who"] for act in acts} == {"operator"}
    assert "a &lt;mistake&gt;" in site.ask("/audit").text
    assert_consistent(engine.redis, runs=1)


def test_a_run_is_forked_by_the_form_on_its_page(engine: Engine, site: ServedSite) -> None:
    run = engine.finish(GRAPH, prompt="one", answers={"review": ["no"]})
    path = f"/runs/{run.run_id}/fork"

    def fork(**fields: str) -> tuple[int, str]:
        form = {"_token": token(), **fields}
        done = site.ask(path, "POST", headers=COOKIE, form=form)
        return done.status, done.headers.get("Location", done.text)

    state = site.ask(f"/runs/{run.run_id}/state?step=0", headers=COOKIE).text
    page = site.ask(f"{path}?step=0", headers=COOKIE).text
    changed, same, wrong = fork(step="0", prompt="two"), fork(step=" 0 ", prompt=""), fork(step="x")

    assert f'href="{path}?step=0"' in state
    assert f'action="{path}"' in page
    assert 'name="step" inputmode="numeric" size="5" value="0"' in page
    assert (changed[0], same[0], wrong[0]) == (303, 303, 400)
    prompts = [
        engine.queries.state(where.removeprefix("/runs/"))["initial_prompt"]
        for _, where in (changed, same)
    ]
    assert prompts == ["two", "one"]
    acts = site.ask("/api/v1/audit?act=fork").json["acts"]
    assert [(act["via"], act["target"]) for act in acts] == [("page", run.run_id)] * 2


def test_a_run_is_moved_by_its_page_and_by_programs(
    engine: Engine, site: ServedSite, asked: Run
) -> None:
    base = f"/runs/{asked.run_id}"
    before = site.ask(f"{base}/move", headers=COOKIE).text
    Machines(engine.redis).announce(
        WorkerState("desk", 1, slots=1, busy=0, taken=0, idle_s=0, memory_bytes=0), with_queue=True
    )

    page = site.ask(f"{base}/move", headers=COOKIE).text
    form = {"_token": token(), "machine": "desk"}
    moved = site.ask(f"{base}/move", "POST", headers=COOKIE, form=form)
    pinned = engine.run(asked.run_id).machine
    refused = site.ask(f"/api/v1{base}/move", "POST", body='{"machine": "cellar"}')
    freed = site.ask(f"/api/v1{base}/move", "POST", body='{"machine": "any"}')

    assert "There is no other machine" in before
    assert '<option value="desk">' in page
    assert (moved.status, moved.headers["Location"], pinned) == (303, base, "desk")
    assert (refused.status, "workers are on: desk" in refused.text) == (409, True)
    assert (freed.status, engine.run(asked.run_id).machine) == (202, None)
    assert site.ask(f"/api/v1{base}/move", "POST", body="{}").status == 400
    acts = site.ask("/api/v1/audit?act=move").json["acts"]
    assert [(act["detail"], act["outcome"] == "done") for act in acts] == [
        ("any", True),
        ("cellar", False),
        ("desk", True),
    ]


def test_child_runs_that_a_moved_run_starts_go_where_it_is(engine: Engine) -> None:
    engine.write("kid", "start: z\nnodes: {z: {type: end}}")
    graph = """
    start: kid
    nodes:
      kid: {type: agent, agent: kid, prompt: hello, next: z}
      z: {type: end}
    """
    run_id = engine.submit(graph, machine="cellar")

    engine.client.move(run_id, None)
    engine.drive()

    assert engine.run(run_id).status == Status.SUCCEEDED
    assert [child.machine for child in engine.queries.children(run_id)] == [None]


GUARDED = """
start: tidy
nodes:
  tidy: {type: llm, model: "openai:m", prompt: Tidy., tools: [wipe], next: z}
  z: {type: end, output: "{{output}}"}
"""
TOOLS = '''
def wipe(what: str, how: str = "") -> str:
    """Removes something."""
    from sleipnir.tool import guard

    guard("Go on?")
    return "wiped"
'''


def test_a_guarded_call_is_shown_wherever_it_is_answered_and_consent_is_for_it_alone(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    long = "x" * 3_000 + "THE END"
    more = calls(("wipe", {"what": "more", "how": long}))
    server.script.add(calls(("wipe", {"what": "<all>"})), more, says("?"))
    run = engine.finish(GUARDED, {"tools.py": TOOLS}, guarded=True)
    (first,) = engine.queries.questions(run.run_id)
    path = f"/inbox/{first.question_id}"

    page_of_run = f"/runs/{run.run_id}"
    pages = [site.ask(at, headers=COOKIE).text for at in (path, "/now", "/inbox", page_of_run)]
    listed = site.ask("/api/v1/questions", headers=COOKIE).json["questions"]
    done = answer(site, path, "yes")
    engine.drive()
    again = answer(site, path, "yes")
    (second,) = engine.queries.questions(run.run_id)
    whole, inbox, *others = [
        site.ask(at, headers=COOKIE).text
        for at in (f"/inbox/{second.question_id}", "/inbox", "/now", f"/runs/{run.run_id}")
    ]

    assert all("wipe\n  what: &lt;all&gt;</pre>" in page for page in pages)
    assert listed[0]["guarded_call"] == {"function": "wipe", "arguments": {"what": "<all>"}}
    assert (done[0], again[0]) == (303, 409)
    assert all("THE END" in page for page in (whole, inbox))
    assert 'name="question"' not in inbox
    assert all("more characters" in page and "THE END" not in page for page in others)
    assert all('value="yes"' not in page for page in others)
    act = AuditLog(engine.redis).newest(9).entries[-1].act
    assert (act.who, act.via, act.target) == ("operator", "page", first.question_id)
    assert (act.detail, act.call) == ("yes", "wipe\n  what: <all>")


def test_several_options_are_chosen_as_a_list() -> None:
    options = ("a", "b", "c")
    question = Question("r", "r", "x", "1/t", "t", 1, "checkbox", "?", options, None, None)

    assert answer_of_choices(question, ["c", "a", "z"], " ") == '["a", "c"]'
    assert answer_of_choices(question, ["a"], "none of these") == "none of these"


def test_questions_are_answered_where_they_are_told_of(engine: Engine, site: ServedSite) -> None:
    run = engine.finish(GRAPH)
    path = f"/inbox/{run.run_id}/1/review"

    pages = [site.ask(each).text for each in ("/now", f"/runs/{run.run_id}")]

    for page in pages:
        form = re.findall(rf'<form method="post" action="{path}[?"].*?</form>', page, re.DOTALL)[0]
        assert re.findall(r'name="answer" value="(\w+)"', form) == ["yes", "no"]
    assert answer(site, path, "no")[0] == 303
    assert 'name="answer"' not in site.ask(f"/runs/{run.run_id}").text


def test_questions_say_how_long_their_runs_have_left(engine: Engine, site: ServedSite) -> None:
    engine.finish(GRAPH)

    (early,) = site.ask("/api/v1/questions").json["questions"]
    engine.clock.move(3_600 - 99)
    (late,) = site.ask("/api/v1/questions").json["questions"]
    page = site.ask("/inbox").text

    assert (early["left_s"], early["is_urgent"]) == (3_600, False)
    assert (late["left_s"], late["is_urgent"]) == (99, True)
    urgent = 'class="pill state-failed"'
    assert urgent in page
    assert '<span aria-hidden="true">◷</span> 1 min 39 s left' in " ".join(page.split())


def test_questions_are_grouped_by_who_asks_and_nothing_is_selected_by_an_address(
    engine: Engine, site: ServedSite
) -> None:
    for number in range(3):
        engine.submit_agent("press", GRAPH, prompt=str(number))
    engine.drive()
    engine.clock.move(60)
    engine.submit_agent("other", GRAPH.replace("3600", "120").replace('"no"', '"later"'))
    engine.submit_agent("naming", GRAPH, answers={"review": ["yes"]})
    engine.drive()
    engine.clock.move(110)

    groups = site.ask("/api/v1/questions/groups").json["groups"]
    pages = [site.ask(f"/inbox{query}").text for query in ("", "?node=review", "?agent=press")]

    assert [(each["agent"], each["node"], each["count"]) for each in groups] == [
        ("other", "review", 1),  # whose run ends first
        ("press", "review", 3),
        ("naming", "name", 1),
    ]
    assert [each["options"] for each in groups] == [["yes", "later"], ["yes", "no"], []]
    assert [each["is_urgent"] for each in groups] == [True, False, False]
    assert all(" checked" not in page for page in pages)
    assert [page.count('name="question"') for page in pages] == [1, 1, 3]
    found = site.ask("/api/v1/questions/groups?agent=naming&text=name").json
    assert (found["questions"], found["is_all"]) == (1, True)


def test_the_number_of_many_answers_is_typed(engine: Engine, site: ServedSite) -> None:
    runs = [engine.submit(GRAPH, prompt="x") for _ in range(25)]
    engine.drive()
    form = [("question", f"{run_id}/1/review") for run_id in runs] + [("answer", "no")]

    asked = site.ask("/inbox", "POST", form=form)
    wrong = site.ask("/inbox", "POST", form=[*form, ("confirmed", "1"), ("typed", "24")])
    open_before = engine.queries.count_questions()
    done = site.ask("/inbox", "POST", form=[*form, ("confirmed", "1"), ("typed", "25")])

    assert 'name="typed"' in asked.text
    assert "Answer 25 questions with “no”</button>" in asked.text
    assert (wrong.status, "Type the number" in wrong.text, open_before) == (422, True, 25)
    assert (done.status, engine.queries.count_questions()) == (200, 0)


def test_an_answer_outside_the_options_takes_a_second_step(
    engine: Engine, site: ServedSite
) -> None:
    run = engine.finish(GRAPH)
    path = f"/inbox/{run.run_id}/1/review"

    asked = answer(site, path, "yess")
    still_open = len(engine.queries.questions(run.run_id))
    form = {"_token": token(), "answer": "yess", "other": "1"}
    sent = site.ask(path, "POST", headers=COOKIE, form=form)

    assert (asked[0], still_open) == (200, 1)
    assert "<b>yess</b> is none of the options" in asked[1]
    assert "Send as another answer → z</button>" in asked[1]
    assert sent.status == 303
    engine.drive()
    assert engine.queries.state(run.run_id)["said"] == "yess"


def unread(site: ServedSite) -> list[tuple[str, int]]:
    groups = site.ask("/api/v1/questions/groups").json["groups"]
    return [(each["agent"], each["unread"]) for each in groups]


def asked_by(engine: Engine, agent: str) -> str:
    """The id of a run of an agent, which asks later than those before."""
    engine.clock.move(60)
    run_id = engine.submit_agent(agent, GRAPH)
    engine.drive()
    return run_id


def rows(page: str) -> list[tuple[str, bool]]:
    """The questions that a page lists, and whether they are marked as unread."""
    found = re.findall(r'<li data-row="(\w+)/[^"]*" class="([^"]*)"', page)
    return [(run_id, "is-unread" in classes) for run_id, classes in found]


def test_what_one_has_not_opened_comes_first_for_oneself(engine: Engine, site: ServedSite) -> None:
    first, second, _ = (asked_by(engine, agent) for agent in ("press", "press", "other"))
    path = f"/inbox/{first}/1/review"

    before = rows(site.ask("/inbox?agent=press", headers=COOKIE).text)
    clicked = site.ask(path, headers=COOKIE).text
    again = rows(site.ask("/inbox?agent=press", headers=COOKIE).text)
    some_unread = unread(site)
    site.ask(f"/inbox/{second}/1/review", headers=COOKIE)
    with ServedSite(engine.client, Access(key=KEY, owner="somebody else")) as theirs:
        unread_by_others = unread(theirs)

    assert before == [(first, True), (second, True)]
    assert rows(clicked) == [(first, False), (second, True)], "it stays where it was clicked"
    assert again == [(second, True), (first, False)]
    assert some_unread == [("press", 1), ("other", 1)]
    assert unread(site) == [("other", 1), ("press", 0)]
    assert unread_by_others == [("press", 2), ("other", 1)]


def test_an_answer_leads_to_what_is_unread(engine: Engine, site: ServedSite) -> None:
    first, second, third = (engine.submit_agent("press", GRAPH) for _ in range(3))
    engine.drive()
    for run_id in (first, second):
        site.ask(f"/inbox/{run_id}/1/review", headers=COOKIE)

    _, to = answer(site, f"/inbox/{second}/1/review", "yes")
    _, then = answer(site, f"/inbox/{third}/1/review", "yes")

    assert to.startswith(f"/inbox/{third}/1/review?")
    assert then.startswith(f"/inbox/{first}/1/review?")


def test_what_a_person_has_opened_is_bounded_and_expires(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "MOST_OPENED", 2)
    questions = OpenedQuestions(engine.store.client)
    for number in range(3):
        questions.note("me", f"run/{number}/ask", number)

    assert engine.store.client.zrange(opened_key("me"), 0, -1) == ["run/1/ask", "run/2/ask"]
    assert engine.store.client.ttl(opened_key("me")) > 80 * 86_400
