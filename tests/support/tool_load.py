"""Many runs whose models call tools, and what must hold for them whatever dies meanwhile."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.runs.submit import Request
from tests.support import model_server
from tests.support.agents import Agents
from tests.support.conversations import converses, turn_of
from tests.support.model_server import ModelServer, calls, says

GRAPH = """
model: openai:m
start: work
nodes:
  work: {type: llm, prompt: "Line {{initial_prompt}}.", tools: [note], next: done,
         state_updates: {said: "{{output}}"}}
  done: {type: end, output: "{{said}}"}
"""
CONFIG = """
model: openai:m
instructions: Note it down.
"""
# Each execution of a call writes down its key, which is the same for all of them.
TOOLS = '''
import os
import time


def note(text: str) -> str:
    """Write something down.

    Args:
        text: What to write.
    """
    with open("effects", "a") as file:
        file.write(f"{os.environ['SLEIPNIR_IDEMPOTENCY_KEY']} {text}\\n")
    time.sleep(0.05)
    return f"noted {text}"
'''
TURNS = 3
TEXTS = ("a", "b", "c")  # two calls in the first turn, one in the second


def script(server: ModelServer, delay_s: float = 0.0) -> None:
    """Script the model's replies in every run."""
    first, second, third = (("note", {"text": text}) for text in TEXTS)
    converses(server, "Line ", calls(first, second), calls(third), says("Noted.", delay_s=delay_s))


class ToolLoad:
    """Runs of one agent, a graph or a normal one; its tools record their executions."""

    def __init__(
        self, agents: Agents, server: ModelServer, workdir: Path, *, normal: bool = False
    ) -> None:
        self._agents = agents
        self._server = server
        self._workdir = Path(tempfile.mkdtemp(dir=workdir))
        if normal:
            agents.write_normal("noting", CONFIG, {"tools.py": TOOLS})
        else:
            agents.write("noting", GRAPH, {"tools.py": TOOLS})
        self._prompt = "Line {}." if normal else "{}"
        self.run_ids: list[str] = []

    def submit(self, count: int) -> None:
        """Submit that many more runs."""
        agent = self._agents.client.prepare("noting")
        for _ in range(count):
            request = Request(
                prompt=self._prompt.format(len(self.run_ids)), workdir=str(self._workdir)
            )
            self.run_ids.append(self._agents.client.submit(agent, request))

    def is_over(self) -> bool:
        return all(
            summary is not None and summary.status.is_final
            for summary in self._agents.queries.summaries(self.run_ids)
        )

    def executions(self) -> list[tuple[str, str]]:
        """Return the key and the text of each execution of a call, in the order they began."""
        file = self._workdir / "effects"
        # The last line may not be complete yet.
        lines = file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []
        return [(key, text) for key, text in map(str.split, lines)]

    def asked(self) -> dict[str, list[int]]:
        """Return for each line the turns that the model was asked for, in the order of requests."""
        found = defaultdict(list)
        for request in list(self._server.requests):
            found[_line(request)].append(turn_of(request))
        return found

    def check(self, at_most_lost: int = 0) -> None:
        """Check that every result is that of a run without faults.

        Args:
            at_most_lost: how many turns and calls may have been in flight when workers died.
        """
        for run in self._agents.queries.runs(self.run_ids):
            assert run is not None
            assert (run.status, run.output) == (Status.SUCCEEDED, "Noted."), run.failure
            assert run.usage.prompt_tokens == TURNS * 10
        self._check_calls(at_most_lost)
        self._check_turns(at_most_lost)

    def _check_calls(self, at_most_lost: int) -> None:
        """Check that a call has a key of its own, and is not repeated after the next call."""
        executions = self.executions()
        texts = dict(executions)
        by_run: dict[str, list[str]] = defaultdict(list)
        for key, text in executions:
            assert texts[key] == text
            by_run[key.split(":")[0]].append(text)
        assert Counter(key.split(":")[0] for key in texts) == dict.fromkeys(self.run_ids, 3)
        assert all(sorted(set(done)) == list(TEXTS) for done in by_run.values())
        assert all(_never_back(done) for done in by_run.values())
        assert len(executions) <= len(TEXTS) * len(self.run_ids) + at_most_lost

    def _check_turns(self, at_most_lost: int) -> None:
        """Check that a turn is only repeated before any later one: its reply was not recorded."""
        asked = self.asked()
        assert len(asked) == len(self.run_ids)
        assert all(set(turns) == set(range(1, TURNS + 1)) for turns in asked.values())
        assert all(_never_back(turns) for turns in asked.values())
        assert sum(map(len, asked.values())) <= TURNS * len(self.run_ids) + at_most_lost
        last = {_line(request): request for request in self._server.requests}
        for request in last.values():
            told = [m["content"] for m in request.messages if m["role"] == "tool"]
            assert told == [f'{{"output":"noted {text}"}}' for text in TEXTS]


def _line(request: model_server.Request) -> str:
    said = (each["content"] for each in request.messages if each["role"] == "user")
    return str(next(said))


def _never_back(order: Sequence[Any]) -> bool:
    return all(earlier <= later for earlier, later in pairwise(order))
