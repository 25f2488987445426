"""The morning after: a batch of which some lines failed, and who is to finish it knows only that.

What the commands say names the causes; once the agent is mended the batch is finished, and no model
call that has succeeded is made twice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sleipnir.records import dataclass
from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, Request, fails, says

# Three kinds of letters meet what is broken: a script, a prompt, a template.
KINDS = ("invoice", "offer", "greeting")
GRAPH = """
model: openai:scribe
start: summarise
settings: {tolerate_failures: false}
nodes:
  summarise:
    type: llm
    prompt: "SUMMARISE {{initial_prompt}}"
    state_updates: {summary: "{{output}}"}
    next: sort
  sort: {type: script, script: sort.py, next: classify}
  classify:
    type: llm
    prompt: "CLASSIFY {{initial_prompt}} {{hint}}"
    state_updates: {label: "{{output}}"}
    next: sign
  sign:
    type: llm
    prompt: "SIGN {{initial_prompt}} for {{owner.name}}"
    state_updates: {signed: "{{output}}"}
    next: done
  done: {type: end, output: "{{summary}} {{label}} {{signed}}"}
"""
SORT = """\
#!/usr/bin/env python3
import json, os
letter = json.loads(os.environ["GRAPH_STATE"])["initial_prompt"]
kind = letter.split()[0]
amount = {"letter": 0, "offer": 0, "greeting": 0}[kind]
owner = {} if kind == "greeting" else {"name": "Ada"}
print(json.dumps({"hint": "[legacy]" if kind == "offer" else "", "owner": owner}))
"""
_OWNED = '{} if kind == "greeting" else '
MENDED_SORT = SORT.replace("[kind]", ".get(kind, 1)").replace(_OWNED, "")
# How long a command may take: with 10,000 lines on a busy machine.
_PATIENCE_S = 3000
MENDED_GRAPH = GRAPH.replace(" {{hint}}", "").replace(" for {{owner.name}}", "")


@dataclass
class Office:
    """The command, the batch's files, and the server that is paid for each reply."""

    sleipnir: Sleipnir
    server: ModelServer
    directory: Path

    def write_agent(self, graph: str, script: str) -> None:
        self.sleipnir.write("letters", graph, {"sort.py": script})

    def write_lines(self, count: int, failing: int) -> None:
        """Lines of which so many of each kind will fail, all over the file."""
        every = count // (failing * len(KINDS))
        lines = []
        for number in range(count):
            place, rest = divmod(number, every)
            is_special = rest == 0 and place < failing * len(KINDS)
            kind = KINDS[place % len(KINDS)] if is_special else "letter"
            lines.append(json.dumps({"id": f"l{number}", "prompt": f"{kind} {number}."}))
        (self.directory / "lines.jsonl").write_text("\n".join(lines))

    def batch(self, *flags: str) -> tuple[int, str]:
        lines = str(self.directory / "lines.jsonl")
        return self.wait_for(
            "batch", "letters", lines, "-o", self.results, "--name", "night", *flags
        )

    def wait_for(self, *arguments: str) -> tuple[int, str]:
        """Exit code of a command that goes over all lines, and what it says on stderr."""
        command = self.sleipnir.start(*arguments)
        _, said = command.communicate(timeout=_PATIENCE_S)
        return command.returncode, said

    @property
    def results(self) -> str:
        return str(self.directory / "results.jsonl")

    def last_results(self) -> dict[str, dict[str, object]]:
        """The last result of each line."""
        text = Path(self.results).read_text("utf-8")
        return {found["id"]: found for found in map(json.loads, text.splitlines())}

    def paid_twice(self) -> list[str]:
        """Prompts that were replied to more than once."""
        prompts = Counter(r.prompt for r in self.server.requests if not _refuses(r))
        return [prompt for prompt, count in prompts.items() if count > 1]


def _refuses(request: Request) -> bool:
    return "[legacy]" in request.prompt


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with ModelServer() as server:
        server.when(_refuses, fails(400, "this model takes no [legacy] prompts"))
        server.when(lambda _request: True, says("fine"))
        sleipnir = Sleipnir(
            tmp_path, OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="sk-only-for-this-test"
        )
        with sleipnir.up():
            yield Office(sleipnir, server, tmp_path)


@pytest.mark.parametrize(
    ("lines", "failing"),
    [
        pytest.param(60, 3, id="short"),
        pytest.param(10_000, 14, id="long", marks=(pytest.mark.chaos, pytest.mark.timeout(7200))),
    ],
)
def test_who_knows_only_that_lines_failed_finishes_the_batch(
    office: Office, lines: int, failing: int
) -> None:
    office.write_agent(GRAPH, SORT)
    office.write_lines(lines, failing)
    code, said = office.batch("-q")
    assert code == 1, said
    failed = [each for each in office.last_results().values() if each["status"] == "failed"]
    assert len(failed) == failing * len(KINDS)

    # Three causes, with how many and an example of each.
    told = office.sleipnir("retry", "--batch", "night")
    assert told.returncode == 2
    causes = [line.split() for line in told.stderr.splitlines() if " letters " in line]
    assert sorted((row[0], row[1], row[4], row[6]) for row in causes) == [
        (str(failing), "failed", "R013", "'sort':"),
        (str(failing), "failed", "R014", "'classify':"),
        (str(failing), "failed", "R014", "'sign':"),
    ], told.stderr
    assert "KeyError" in told.stderr
    assert "takes no [legacy] prompts" in told.stderr
    assert "owner.name" in told.stderr
    example = causes[0][3]
    shown = office.sleipnir("show", example)
    assert causes[0][4] in shown.stdout

    # One of them, to see that the mended agent does it; then all others.
    office.write_agent(MENDED_GRAPH, MENDED_SORT)
    first = office.sleipnir("retry", example, "--agent", "current", "--wait", "--json")
    assert first.returncode == 0, first.stderr
    document = json.loads(first.stdout)
    assert (document["run_id"], document["status"], document["try"]) == (example, "succeeded", 2)
    code, said = office.batch("--retry-failed")

    assert code == 0, said
    results = office.last_results()
    assert len(results) == lines
    assert {found["status"] for found in results.values()} == {"succeeded"}
    assert office.paid_twice() == []
    replies = sum(not _refuses(request) for request in office.server.requests)
    assert replies == 3 * lines
    assert office.wait_for("doctor", "--verify")[0] == 0


BLOCKED = """
start: a
nodes:
  a: {type: input, question: "?", state_updates: {a: "{{input}}"}, next: b}
  b: {type: script, script: b.sh, next: done}
  done: {type: end, output: "{{initial_prompt}} {{a}}"}
"""


def test_a_run_that_timed_out_in_a_script_goes_on_and_is_forked(
    shared_engine: Sleipnir, tmp_path: Path
) -> None:
    blocked = tmp_path / "blocked"
    blocked.touch()
    script = f"#!/bin/sh\nwhile [ -e {blocked} ]; do sleep 0.1; done\necho '{{}}'\n"
    shared_engine.write("blocked", BLOCKED, {"b.sh": script})
    call = ("run", "blocked", "hello", "--answer", "a=1", "--timeout", "3", "--json")
    stopped = shared_engine(*call)
    run_id = json.loads(stopped.stdout)["run_id"]
    assert stopped.returncode == 6, stopped.stderr
    blocked.unlink()

    retried = shared_engine("retry", run_id, "--timeout", "600", "--wait")
    forked = shared_engine("fork", run_id, "--step", "1", "--set", "a=2", "--wait", "--json")

    assert (retried.returncode, retried.stdout) == (0, "hello 1\n"), retried.stderr
    assert "try 2" in retried.stderr
    document = json.loads(forked.stdout)
    assert (forked.returncode, document["output"]) == (0, "hello 2")
    assert document["forked_from"] == {"run_id": run_id, "step": 1}
    differs = shared_engine("diff", run_id, document["run_id"])
    assert differs.returncode == 1
    assert "a:\n- 1\n+ 2\n" in differs.stdout
