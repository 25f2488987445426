"""`sleipnir eval`: rows continue the baseline's runs from the first node that has changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, Reply, says

ROWS = 6
COST = 0.00012  # of one call
GRAPH = """
model: own:small
initial_state: {text: ""}
start: read
nodes:
  read: {type: llm, prompt: "READ-1 {{text}}", next: think, state_updates: {facts: "{{output}}"}}
  think:
    type: llm
    prompt: "THINK-1 {{facts}}"
    next: [{when: "text != 'row-5'", to: sort}, {when: "true", to: skipped}]
    state_updates: {thought: "{{output}}"}
  sort: {type: llm, prompt: "SORT-1 {{thought}}", next: done, state_updates: {label: "{{output}}"}}
  skipped: {type: end, value: none}
  done: {type: end, value: "{{label}}"}
"""
EVAL = "rows: golden.csv\nchecks:\n  - {name: label, is: 'value == row.expected'}\n"


def reply_to(request: Any) -> Reply:
    """Every call has the same usage."""
    return says("bill", prompt_tokens=100, completion_tokens=5)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.script.when(lambda request: True, reply_to)
        yield server


class Evaluated:
    """An agent, whose nodes are changed, with an evaluation."""

    def __init__(self, directory: Path, server: ModelServer) -> None:
        self.sleipnir = Sleipnir(directory)
        self._server = server
        agent = self.sleipnir.write("sorter", GRAPH)
        self._graph = agent / "graph.yaml"
        evals = agent / "evals"
        evals.mkdir()
        (evals / "golden.yaml").write_text(EVAL)
        rows = "".join(f"r{n},row-{n},bill\n" for n in range(ROWS))
        (evals / "golden.csv").write_text(f"id,text,expected\n{rows}")
        config = Path(self.sleipnir.environment["SLEIPNIR_CONFIG_DIR"])
        config.mkdir(exist_ok=True)
        models = {
            "providers": {"own": {"api_base": server.base_url}},
            "prices": {"own:small": {"prompt": 1.0, "completion": 4.0}},
        }
        (config / "config.yaml").write_text(json.dumps({"models": models}))

    def change(self, before: str, after: str) -> None:
        text = self._graph.read_text()
        assert before in text
        self._graph.write_text(text.replace(before, after))

    def calls_of(self, *arguments: str) -> Counter[str]:
        """Return how often `eval sorter ARGUMENTS` called a model, by the prompt's first word."""
        known = len(self._server.requests)
        ended = self.sleipnir("eval", "sorter", *arguments)
        assert ended.returncode == 0, ended.stderr
        return Counter(request.text.split()[0] for request in self._server.requests[known:])

    def versions(self, *arguments: str) -> dict[str, Any]:
        """Return the versions in the result of `eval sorter --json ARGUMENTS`, by name."""
        found = self.sleipnir.json("eval", "sorter", *arguments)
        return {version["name"]: version for version in found["versions"]}


@pytest.fixture
def evaluated(tmp_path: Path, server: ModelServer) -> Evaluated:
    return Evaluated(tmp_path, server)


def test_only_what_follows_the_first_changed_node_is_paid_for(
    evaluated: Evaluated, tmp_path: Path
) -> None:
    evaluated.calls_of("--accept")
    evaluated.change("SORT-1", "SORT-2")

    calls = evaluated.calls_of("-o", str(tmp_path / "out"))

    assert calls == {"SORT-2": ROWS - 1}  # one row does not get there
    versions = evaluated.versions()
    baseline, current = versions["baseline"], versions["current"]
    assert (baseline["inherited_rows"], current["inherited_rows"]) == (0, ROWS)
    # All that its rows would have used from the start.
    assert current["cost_usd"] == pytest.approx((3 * ROWS - 1) * COST)
    assert current["tokens"] == baseline["tokens"] == (3 * ROWS - 1) * 105
    assert current["checks"] == baseline["checks"]
    rows = (tmp_path / "out" / "rows.jsonl").read_text().splitlines()
    inherited = json.loads(rows[0])["versions"][1]["inherited"][0]
    assert inherited["cost_usd"] == pytest.approx(2 * COST)
    assert inherited["tokens"] == 210
    assert 0 < inherited["elapsed_s"] <= json.loads(rows[0])["versions"][0]["elapsed_s"][0]
    told = (
        f"current: {ROWS} of {ROWS} rows were forked from the baseline's; inherited cost: $0.0014"
    )
    assert told in (tmp_path / "out" / "report.md").read_text()


def test_a_fork_of_a_fork_has_all_that_was_used_before_it(evaluated: Evaluated) -> None:
    evaluated.calls_of("--accept")
    evaluated.change("SORT-1", "SORT-2")
    evaluated.calls_of()
    evaluated.calls_of("--accept")

    evaluated.change('value: "{{label}}"', 'value: "{{label}}!"')
    late = evaluated.calls_of()
    at_end = evaluated.versions()
    evaluated.change("THINK-1", "THINK-2")
    early = evaluated.calls_of()
    before_fork = evaluated.versions()

    assert late == {}
    assert early == {"THINK-2": ROWS, "SORT-2": ROWS - 1}
    for versions in (at_end, before_fork):
        assert versions["current"]["inherited_rows"] == ROWS
        assert versions["current"]["tokens"] == (3 * ROWS - 1) * 105
    assert at_end["current"]["checks"]["label"]["mean"] == 0.0


def test_without_forks_all_rows_are_run_from_the_start(evaluated: Evaluated) -> None:
    evaluated.calls_of("--accept")
    evaluated.change("SORT-1", "SORT-2")
    evaluated.calls_of()
    whole = {"READ-1": ROWS, "THINK-1": ROWS, "SORT-2": ROWS - 1}

    afresh = evaluated.calls_of("--no-fork")
    again = evaluated.calls_of("--no-fork")
    versions = evaluated.versions()

    assert afresh == whole
    assert again == {}
    assert versions["current"]["inherited_rows"] == 0
    evaluated.change("SORT-2", "SORT-3")
    assert evaluated.calls_of("--repeat", "2")["READ-1"] == 2 * ROWS


def test_what_a_change_may_affect_from_the_start_is_run_from_the_start(
    evaluated: Evaluated,
) -> None:
    evaluated.calls_of("--accept")

    evaluated.change("READ-1", "READ-2")
    first_node = evaluated.calls_of()
    evaluated.change("model: own:small", "model: own:small\ntemperature: 0.5")
    setting = evaluated.calls_of()

    assert first_node == {"READ-2": ROWS, "THINK-1": ROWS, "SORT-1": ROWS - 1}
    assert setting == first_node
    assert evaluated.versions()["current"]["inherited_rows"] == 0
