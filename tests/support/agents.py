"""Writes agents, and submits them as a user would."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from sleipnir.graphs.document.references import AgentSearch
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.runs.model import Failure, Question, Run
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.store.run_store import RunStore


class Agents:
    """Writes agents below a directory, submits them to a store, and reads the runs back."""

    def __init__(self, store: RunStore, directory: Path) -> None:
        self.agents_directory = directory / "agents"
        self.use(store)

    def use(self, store: RunStore) -> None:
        """Switch to another store."""
        self.store = store
        self.client = Client.over(store, AgentSearch((self.agents_directory,)))
        self.queries = self.client.queries

    def write(self, name: str, graph: str, files: Mapping[str, str] | None = None) -> Path:
        """Write an agent's graph, with its name added, and its other files."""
        directory = self.agents_directory / name
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "graph.yaml").write_text(f"name: {name}\n{dedent(graph)}")
        for path, text in (files or {}).items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(dedent(text))
        return directory

    def write_normal(self, name: str, config: str, files: Mapping[str, str] | None = None) -> Path:
        """Write a normal agent: its `config.yaml`, and its other files."""
        directory = self.write(name, "", {"config.yaml": config, **(files or {})})
        (directory / "graph.yaml").unlink()
        return directory

    def submit_normal(
        self, config: str, files: Mapping[str, str] | None = None, /, **request: Any
    ) -> str:
        """Write the normal agent `talker` and submit it; return the run's id."""
        self.write_normal("talker", config, files)
        return self.client.submit(self.client.prepare("talker"), Request(**request))

    def submit(self, graph: str, files: Mapping[str, str] | None = None, /, **request: Any) -> str:
        """Write the agent `tested` and submit it; return the run's id."""
        return self.submit_agent("tested", graph, files, **request)

    def submit_agent(
        self, name: str, graph: str, files: Mapping[str, str] | None = None, /, **request: Any
    ) -> str:
        """Write an agent of the given name and submit it; return the run's id."""
        self.write(name, graph, files)
        return self.client.submit(self.client.prepare(name), Request(**request))

    def run(self, run_id: str) -> Run:
        return self.queries.run(run_id)

    def state(self, run_id: str) -> dict[str, Any]:
        return self.queries.state(run_id)

    def inbox(self) -> list[Question]:
        """Return all open questions, oldest first."""
        return list(self.queries.list_questions(10_000).entries)

    def newest_runs(self) -> list[str]:
        """Return the ids of all root runs, newest first."""
        return [row.run_id for row in self.queries.list_runs(RunFilter(), 10_000).entries]

    def failure(self, run_id: str) -> Failure:
        """Return the failure of a run, which must have failed."""
        failure = self.run(run_id).failure
        assert failure is not None, f"the run is {self.run(run_id).status}"
        return failure
