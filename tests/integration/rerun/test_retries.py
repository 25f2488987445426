"""Retries: a run that is over goes on in place, and does nothing again that was done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.errors import ActionRefused, RunNotFound, StaleVisit, SubmissionRefused
from sleipnir.scheduler.runs.events import RunRetried
from sleipnir.scheduler.runs.model import Failure, Lease, Run
from sleipnir.scheduler.runs.plan import KeptAs, Plan
from sleipnir.scheduler.runs.tries import AnotherTry
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.parking import wait_for
from sleipnir.scheduler.views.text import formatting
from sleipnir.worker.delivery.run_visit import run_visit
from tests.support.engine import Engine
from tests.support.invariants import all_violations
from tests.support.keys import leaked_keys
from tests.support.model_server import ModelServer, calls, says
from tests.support.redis_server import RedisServer
from tests.support.runs import RUN, a_question, advance, begin, fanned_out, messages, stage, started


class Shop:
    """Scripts that note that they ran, and fail for as long as they are told to."""

    def __init__(self, engine: Engine, directory: Path) -> None:
        self.engine = engine
        self.directory = directory
        directory.mkdir()

    def script(self, name: str, code: str = "") -> str:
        """The text of a script that notes its run, and fails while it is `broken`."""
        return f"""#!/usr/bin/env python3
import json, os, pathlib, sys
here = pathlib.Path({str(self.directory)!r})
state = json.loads(os.environ["GRAPH_STATE"])
name = "{name}" + str(state.get("item", ""))
with (here / "ran").open("a") as ran:
    ran.write(name + "\\n")
if (here / name).exists():
    sys.exit(name + " is broken")
update = {{}}
{code}
print(json.dumps(update))
"""

    def breaks(self, *names: str) -> None:
        for name in names:
            (self.directory / name).touch()

    def mends(self, *names: str) -> None:
        for name in names:
            (self.directory / name).unlink()

    def ran(self) -> list[str]:
        """What ran since the last call."""
        file = self.directory / "ran"
        lines = file.read_text().split() if file.exists() else []
        file.unlink(missing_ok=True)
        return sorted(lines)

    def go_on(self, run_id: str, **wishes: object) -> Run:
        """Retry a run, as often as needed consistent, and drive it to its end."""
        self.engine.client.retry(run_id, **wishes)  # type: ignore[arg-type]
        require_consistent(self.engine)
        self.engine.drive()
        require_consistent(self.engine)
        assert leaked_keys(self.engine.redis) == []
        return self.engine.run(run_id)


def require_consistent(engine: Engine) -> None:
    """Nothing contradicts itself; runs made by hand have no bundle, nor nodes in checkpoints."""
    found = all_violations(engine.redis)
    assert [str(each) for each in found if each.rule not in ("bundle", "commits")] == []


def another_try(step: int = 2, nodes: tuple[str, ...] = ("b", "c")) -> AnotherTry:
    """The second try of a run made by hand."""
    return AnotherTry(RUN, 1, 8, RunRetried(step, nodes, 2))


@pytest.fixture
def shop(engine: Engine, tmp_path: Path) -> Shop:
    return Shop(engine, tmp_path / "shop")


LINE = """
start: a
settings: {tolerate_failures: false}
nodes:
  a: {type: script, script: a.py, next: b}
  b: {type: script, script: b.py, next: c}
  c: {type: script, script: c.py, next: done}
  done: {type: end, output: "{{initial_prompt}} {{said}}"}
"""


def line(shop: Shop) -> dict[str, str]:
    scripts = {f"{name}.py": shop.script(name) for name in "ac"}
    return scripts | {"b.py": shop.script("b", "update['said'] = state['initial_prompt'] * 2")}


def test_a_retry_goes_on_where_the_run_failed(engine: Engine, shop: Shop) -> None:
    shop.breaks("b")
    failed = engine.finish(LINE, line(shop), prompt="p")
    assert (failed.status, shop.ran()) == ("failed", ["a", "b"])
    shop.mends("b")

    done = shop.go_on(failed.run_id)

    assert shop.ran() == ["b", "c"]
    assert (done.output, done.tries, done.visits["b"]) == ("p pp", 2, 1)
    (event,) = engine.events(failed.run_id, RunRetried)
    assert event == RunRetried(2, ("b",), 2)


def test_several_tries_and_other_values(engine: Engine, shop: Shop) -> None:
    shop.breaks("b", "c")
    failed = engine.finish(LINE, line(shop), prompt="p")
    assert shop.go_on(failed.run_id).failure is not None
    shop.mends("b")
    assert shop.go_on(failed.run_id, state={"initial_prompt": "q"}).failure is not None
    shop.mends("c")

    done = shop.go_on(failed.run_id)

    assert (done.output, done.tries) == ("q qq", 4)
    assert shop.ran() == ["a", "b", "b", "b", "c", "c"]
    assert engine.queries.moment(done.run_id, 1).state["initial_prompt"] == "q"


def test_from_an_earlier_step_what_came_after_is_superseded(
    engine: Engine, shop: Shop, redis_server: RedisServer
) -> None:
    done = engine.finish(LINE, line(shop), prompt="p")
    shop.ran()
    with pytest.raises(ActionRefused, match="has succeeded; say with --from"):
        engine.client.retry(done.run_id)

    engine.clock.move(1)
    again = shop.go_on(done.run_id, from_step=2, state={"initial_prompt": "q"})

    assert shop.ran() == ["b", "c"]
    assert (again.output, again.visits) == ("q qq", {"a": 1, "b": 1, "c": 1, "done": 1})
    assert len(engine.queries.history(done.run_id)) == 5
    assert engine.redis.llen(run_key("superseded", done.run_id)) == 3
    at = ["--redis", redis_server.url, done.run_id, "said", "--diff"]
    told = CliRunner().invoke(cli, ["state", *at]).stdout.splitlines()
    assert told[2:4] == ["step 2: b (superseded by try 2)", '+ said: "pp"']
    assert told[6:8] == ["step 2: b", '+ said: "qq"']
    documents = CliRunner().invoke(cli, ["state", *at, "--step", "2", "--json"]).stdout
    superseded = [json.loads(line).get("superseded_by") for line in documents.splitlines()]
    assert superseded == [2, None]


def test_what_cannot_be_retried_is_refused(engine: Engine, shop: Shop) -> None:
    shop.breaks("b")
    failed = engine.finish(LINE, line(shop))
    for beyond in (failed.step + 1, 8):
        with pytest.raises(
            SubmissionRefused, match=f"no step {beyond} .* last one is {failed.step}"
        ):
            engine.client.retry(failed.run_id, beyond)
    engine.client.retry(failed.run_id)
    with pytest.raises(ActionRefused, match="has not ended: it is queued"):
        engine.client.retry(failed.run_id)
    engine.drive()
    engine.redis.delete(run_key("state", failed.run_id))
    with pytest.raises(RunNotFound):
        engine.client.retry(failed.run_id)


# ---- what is kept of a step that was not completed

FAN = """
start: a
settings: {{tolerate_failures: false, max_concurrency: {window}}}
nodes:
  a: {{type: input, question: "?", next: [{names}]}}
{branches}
  done: {{type: end, output: "{output}"}}
"""


def fan(shop: Shop, names: str, window: int = 2) -> tuple[str, dict[str, str]]:
    branches = "\n".join(
        f"  {name}: {{type: script, script: {name}.py, next: done,"
        f" state_updates: {{{name}: {name}}}}}"
        for name in names
    )
    graph = FAN.format(
        window=window,
        names=", ".join(names),
        branches=branches,
        output="".join(f"{{{{{name}}}}}" for name in names),
    )
    return graph, {f"{n}.py": shop.script(n, "") for n in names}


def test_branches_that_had_finished_are_kept(engine: Engine, shop: Shop) -> None:
    shop.breaks("d")
    failed = engine.finish(*fan(shop, "bcdef", window=5), answers={"a": ["x"]})
    before = shop.ran()
    assert failed.status == "failed"
    shop.mends("d")

    done = shop.go_on(failed.run_id)

    assert done.output == "bcdef"
    assert sorted(before + shop.ran()) == ["b", "c", "d", "d", "e", "f"]


def test_so_are_those_of_a_run_that_was_cancelled(engine: Engine, shop: Shop) -> None:
    run_id = engine.submit(*fan(shop, "bcdef"), answers={"a": ["x"]})
    for _ in range(3):
        engine.work_once()
    engine.client.cancel(run_id)
    engine.drive()
    require_consistent(engine)

    done = shop.go_on(run_id)

    assert (done.output, shop.ran()) == ("bcdef", list("bcdef"))


def test_a_step_whose_branches_had_all_finished_is_advanced(engine: Engine) -> None:
    fanned_out(engine, "b", "c")
    stage(engine, "2/b")
    stage(engine, "2/c")
    engine.store.runs.close(RUN, "cancelled", Failure("cancelled", "enough", None))

    engine.store.runs.retry(another_try())

    require_consistent(engine)
    assert messages(engine)[-1] == "2/b"
    assert engine.store.visits.begin(Lease(RUN, "2/b", "t2"), None).staged
    branches, _ = engine.store.visits.read_step(RUN, ())
    assert sorted(branches) == ["b", "c"]
    engine.redis.flushall()


MAP = """
start: a
settings: {tolerate_failures: false}
nodes:
  a: {type: input, question: "?", next: m}
  m:
    type: map
    over: "{{items}}"
    as: item
    branch: each
    output_key: made
    collect_into: all
    max_concurrency: 3
    next: done
  each: {type: script, script: each.py}
  done: {type: end, output: "{{all}}"}
"""


def a_map(shop: Shop) -> tuple[str, dict[str, str]]:
    return MAP, {"each.py": shop.script("i", "update['made'] = state['item'] * 10")}


def test_only_items_without_a_result_are_invoked_again(engine: Engine, shop: Shop) -> None:
    shop.breaks("i3", "i4")
    items = list(range(8))
    failed = engine.finish(*a_map(shop), answers={"a": ["x"]}, state={"items": items})
    before = shop.ran()
    assert failed.status == "failed"
    shop.mends("i3", "i4")

    done = shop.go_on(failed.run_id)

    assert done.output == json.dumps([n * 10 for n in items], separators=(",", ":"))
    again = shop.ran()
    assert {"i3", "i4"} <= set(before)
    finished = set(before) - {"i3", "i4"}
    assert set(again) == {f"i{n}" for n in items} - finished
    assert len(again) == len(set(again))


def test_a_map_that_broke_off_goes_on(engine: Engine, shop: Shop) -> None:
    run_id = engine.submit(*a_map(shop), answers={"a": ["x"]}, state={"items": list(range(6))})
    for _ in range(4):
        engine.work_once()
    engine.client.cancel(run_id)
    engine.drive()
    before = shop.ran()
    engine.client.retry(run_id)
    engine.work_once()
    engine.work_once()
    engine.client.cancel(run_id)  # once more, in the middle of it
    engine.drive()

    done = shop.go_on(run_id)

    assert done.output == "[0,10,20,30,40,50]"
    assert sorted(before + shop.ran()) == [f"i{n}" for n in range(6)]


def test_a_map_of_other_items_begins_anew(engine: Engine, shop: Shop) -> None:
    shop.breaks("i2")
    failed = engine.finish(*a_map(shop), answers={"a": ["x"]}, state={"items": [1, 2, 3]})
    shop.ran()

    done = shop.go_on(failed.run_id, state={"items": [1, 3, 4]})

    assert (done.output, shop.ran()) == ("[10,30,40]", ["i1", "i3", "i4"])


TREE = """
start: a
settings: {tolerate_failures: false}
nodes:
  a: {type: input, question: "?", next: sub}
  sub: {type: agent, agent: AGENT, prompt: "{{initial_prompt}}", next: done,
        state_updates: {said: "{{output}}"}}
  done: {type: end, output: "NAME({{said}})"}
"""


def tree(engine: Engine, shop: Shop) -> str:
    """The graph of a root with a child and a grandchild, which is the line."""
    engine.write("bottom", LINE, line(shop))
    engine.write(
        "middle",
        TREE.replace("AGENT", "bottom")
        .replace("NAME", "middle")
        .replace('  a: {type: input, question: "?", next: sub}\n', "")
        .replace("start: a", "start: sub"),
    )
    return TREE.replace("AGENT", "middle").replace("NAME", "root")


def test_a_tree_that_failed_at_the_bottom_goes_on_there(engine: Engine, shop: Shop) -> None:
    shop.breaks("b")
    failed = engine.finish(tree(engine, shop), prompt="p", answers={"a": ["x"]})
    (middle,) = engine.queries.children(failed.run_id)
    (bottom,) = engine.queries.children(middle.run_id)
    assert (failed.status, bottom.status, shop.ran()) == ("failed", "failed", ["a", "b"])
    with pytest.raises(ActionRefused, match=f"retry run {failed.run_id}"):
        engine.client.retry(bottom.run_id)
    shop.mends("b")

    done = shop.go_on(failed.run_id)

    assert (done.output, shop.ran()) == ("root(middle(p pp))", ["b", "c"])
    tries = [engine.run(run.run_id).tries for run in (failed, middle, bottom)]
    assert tries == [2, 2, 2]


def test_a_shallow_retry_starts_new_children(engine: Engine, shop: Shop) -> None:
    shop.breaks("b")
    failed = engine.finish(tree(engine, shop), prompt="p", answers={"a": ["x"]})
    shop.ran()
    shop.mends("b")

    done = shop.go_on(failed.run_id, shallow=True)

    assert (done.output, shop.ran()) == ("root(middle(p pp))", ["a", "b", "c"])
    assert [run.tries for run in engine.queries.children(failed.run_id)] == [1, 1]


def test_a_cancelled_tree_asks_again_and_uses_what_it_was_told(engine: Engine, shop: Shop) -> None:
    engine.write("middle", TREE.replace("AGENT", "bottom").replace("NAME", "middle"))
    engine.write("bottom", LINE, line(shop))
    root = engine.submit(
        TREE.replace("AGENT", "middle").replace("NAME", "root"), prompt="p", answers={"a": ["x"]}
    )
    engine.drive()  # the child asks
    assert engine.run(root).status == "waiting"
    engine.client.cancel(root)
    require_consistent(engine)
    assert engine.client.open_questions(root) == []

    waiting = shop.go_on(root)

    assert waiting.status == "waiting"
    engine.client.answer(root, "y")
    engine.drive()
    assert engine.run(root).output == "root(middle(p pp))"
    assert len(engine.queries.children(root)) == 1


@pytest.mark.parametrize(("kept_as", "asks"), [("failed", False), ("misanswered", True)])
def test_an_answer_is_asked_for_again_only_if_it_was_what_failed(
    engine: Engine, kept_as: KeptAs, asks: bool
) -> None:
    started(engine)
    engine.store.parking.park(Lease(RUN, "1/s", "t1"), [wait_for(a_question("1/s"))])
    engine.store.parking.answer(RUN, "1/s", "yes")
    failed = Plan({}, failure=Failure("R001", "no", "s"), kept_as=kept_as)
    advance(engine, begin(engine, "1/s", "t2"), failed)
    require_consistent(engine)

    engine.store.runs.retry(another_try(step=1, nodes=("s",)))

    require_consistent(engine)
    results = engine.store.visits.begin(Lease(RUN, "1/s", "t3"), None).results
    assert ("question" not in results) == asks
    engine.redis.flushall()


@pytest.mark.parametrize("timeout_s", [600, 1e300])
def test_a_run_that_was_timed_out_gets_its_whole_time_again(
    engine: Engine, shop: Shop, timeout_s: float
) -> None:
    limited = LINE.replace("settings: {", "settings: {timeout: 60, ")
    run_id = engine.submit(limited, line(shop), prompt="p")
    engine.work_once()
    zombie = engine.begin(run_id, "2/b")
    engine.clock.move(61)
    engine.tick()
    assert engine.run(run_id).status == "timed_out"
    engine.client.retry(run_id, timeout_s=timeout_s)
    with pytest.raises(StaleVisit):
        engine.store.visits.advance(zombie, 2, Plan({}, output="late"), cap=9, window=9)
    engine.work_once()
    engine.clock.move(500)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "p pp"
    assert shop.ran() == ["a", "b", "c"]


def test_a_message_of_before_does_not_run_another_agent(engine: Engine, shop: Shop) -> None:
    shop.breaks("b")
    failed = engine.finish(LINE, line(shop), prompt="p")
    old = (failed.run_id, "2/b", failed.digest)
    engine.write("tested", LINE.replace("{{said}}", "changed"), line(shop))
    shop.mends("b")
    shop.ran()
    engine.client.retry(failed.run_id, agent="current")

    run_visit(engine.services, *old)
    assert shop.ran() == []
    engine.drive()

    done = engine.run(failed.run_id)
    assert (done.output, shop.ran()) == ("p changed", ["b", "c"])
    assert done.digest != failed.digest
    require_consistent(engine)


LOOP = """
start: a
settings: {max_loop_iterations: 3}
nodes:
  a: {type: script, script: a.py, next: done}
  done: {type: end}
"""


def test_a_run_stopped_by_its_visit_cap_needs_a_higher_one(engine: Engine, shop: Shop) -> None:
    files = {"a.py": shop.script("a", "update['_next'] = 'a' if len(state) < 9 else 'done'")}
    failed = engine.finish(LOOP, files)
    assert engine.failure(failed.run_id).code == "R004"
    with pytest.raises(SubmissionRefused, match="visited 3 times, and max_loop_iterations is 3"):
        engine.client.retry(failed.run_id)
    engine.write("tested", LOOP.replace("3}", "5}"), files)

    again = shop.go_on(failed.run_id, agent="current")

    assert engine.failure(failed.run_id).code == "R004"
    assert (again.visits, len(shop.ran())) == ({"a": 5}, 5)


# ---- what people see of it


def test_watching_goes_on_over_a_retry(
    engine: Engine, shop: Shop, redis_server: RedisServer
) -> None:
    shop.breaks("b")
    failed = engine.finish(tree(engine, shop), prompt="p", answers={"a": ["x"]})
    shop.mends("b")
    at = ["--redis", redis_server.url, failed.run_id]

    said = CliRunner().invoke(cli, ["retry", *at, "--json"])
    again = CliRunner().invoke(cli, ["retry", *at])
    engine.drive()
    watched = CliRunner().invoke(cli, ["watch", *at])
    shown = CliRunner().invoke(cli, ["show", *at])

    assert json.loads(said.stdout)["try"] == 2
    assert (again.exit_code, again.stdout) == (1, "")
    assert "has not ended: it is running" in again.stderr
    assert (watched.exit_code, watched.stdout) == (0, "root(middle(p pp))\n")
    lines = watched.stderr.splitlines()
    assert "▸ retry: from step 2 (sub), try 2" in lines
    assert lines[-1].startswith("▸ graph done")
    assert "succeeded, try 2" in shown.stdout
    assert "try 1 failed" in shown.stdout
    assert "R015 at node 'sub'" in shown.stdout
    assert [entry.event for entry in engine.client.events(failed.run_id)][-1].kind == "ended"


def test_a_map_of_agents_retries_the_child_that_failed(engine: Engine, shop: Shop) -> None:
    item_line = LINE.replace("{{initial_prompt}} {{said}}", "{{initial_prompt}}")
    scripts = {f"{name}.py": shop.script(name) for name in "abc"}
    scripts["b.py"] = shop.script("b").replace(
        'str(state.get("item", ""))', 'state["initial_prompt"]'
    )
    engine.write("bottom", item_line, scripts)
    shop.breaks("b2")
    graph = MAP.replace("output_key: made", "output_key: output").replace(
        "{type: script, script: each.py}", '{type: agent, agent: bottom, prompt: "{{item}}"}'
    )
    failed = engine.finish(graph, answers={"a": ["x"]}, state={"items": [1, 2, 3]})
    children = {run.run_id for run in engine.queries.children(failed.run_id)}
    before = shop.ran()
    shop.mends("b2")

    done = shop.go_on(failed.run_id)

    assert done.output == '["1","2","3"]'
    assert {run.run_id for run in engine.queries.children(failed.run_id)} == children
    assert sorted(before + shop.ran()).count("b2") == 2
    assert len(before) + 2 <= 11


TALK = """
model: openai:m
start: ask
nodes:
  ask: {type: llm, prompt: "Do it.", tools: [wipe], next: done, state_updates: {said: "{{output}}"}}
  done: {type: end, output: "{{said}}"}
"""
WIPE = '''
def wipe(what: str) -> str:
    """Removes something."""
    from sleipnir.tool import guard

    guard(f"Really wipe {what}?")
    return f"wiped {what}"
'''


def test_a_conversation_that_broke_off_goes_on(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("wipe", {"what": "it"})), says("gone"))
    run_id = engine.submit(TALK, {"tools.py": WIPE}, guarded=True)
    engine.drive()  # it asks a person
    engine.client.cancel(run_id)
    require_consistent(engine)

    engine.client.retry(run_id)
    require_consistent(engine)
    engine.drive()
    (question,) = engine.inbox()
    engine.client.answer_question(question, "yes")
    engine.drive()

    assert engine.run(run_id).output == "gone"
    assert len(server.requests) == 2  # the first reply was not asked for again
    assert engine.run(run_id).usage.prompt_tokens == 20
    require_consistent(engine)


def test_an_answer_given_ahead_that_was_refused_is_asked_for(engine: Engine) -> None:
    graph = """
start: a
nodes:
  a: {type: input, question: "?", validation: "len(input) > 2", next: done,
      state_updates: {said: "{{input}}"}}
  done: {type: end, output: "{{said}}"}
"""
    failed = engine.finish(graph, answers={"a": ["x"]})
    assert engine.failure(failed.run_id).code == "R019"

    engine.client.retry(failed.run_id)
    engine.drive()
    engine.client.answer(failed.run_id, "long")
    engine.drive()

    assert engine.run(failed.run_id).output == "long"


RAISES = """#!/usr/bin/env python3
def find(name):
    return {}[name]
find("a name that is longer than the screen is wide, so that no line of it is cut")
"""


def test_a_page_says_first_what_was_raised_and_cuts_nothing(
    engine: Engine, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = engine.finish(LINE, {f"{name}.py": RAISES for name in "abc"})
    engine.client.retry(failed.run_id)
    engine.drive()
    monkeypatch.setattr(formatting, "output_width", lambda: 60)

    page = CliRunner().invoke(cli, ["show", "--redis", redis_server.url, failed.run_id])

    at = [line.startswith(("earlier ", "error ")) for line in page.stdout.splitlines()].index(True)
    earlier, *traceback = page.stdout.splitlines()[at:]
    assert "try 1 failed" in earlier
    assert earlier.endswith("is wide, so that no line of it is cut'")
    assert traceback[0] == "  Traceback (most recent call last):"
    again = traceback[[line.startswith("error ") for line in traceback].index(True)]
    assert again.partition("R013")[2] == earlier.partition("R013")[2]
