"""One session of `sleipnir dev`: the last run, and the run after each save."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from sleipnir.graphs.normal_agent import is_normal
from sleipnir.graphs.schema import AgentNode
from sleipnir.records import dataclass
from sleipnir.scheduler.cli import exit_codes, run_result
from sleipnir.scheduler.cli.comparison import layout
from sleipnir.scheduler.cli.dev.watching import Watch
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.submission import Submission
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.client.rerun.changes import (
    AgentForm,
    Changes,
    changes_between,
    form_of,
    step_before,
)
from sleipnir.scheduler.config.directories import config_dir
from sleipnir.scheduler.errors import EngineUnreachable, SleipnirError
from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.queries.filters import RunFilter


@dataclass(frozen=True, slots=True)
class _Last:
    """The previous run, and its agent's version, for comparison with the next one."""

    run: Run
    form: AgentForm


class DevSession:
    """Runs an agent, and reruns it after each save from the first changed node."""

    def __init__(self, client: Client, options: Options, submission: Submission) -> None:
        self._client = client
        self._options = options
        self._submission = submission
        self._choose = submission.choose_build(client)
        self._recording = submission.recording(client)
        # absolute, as `./agent` without its dot would be a name, and another agent may have that
        self._directory = client.search.find(submission.agent).absolute()
        self._spawned: tuple[Path, ...] = ()
        self._last: _Last | None = None

    def stay(self) -> None:
        """Watch until Ctrl-C."""
        watch = Watch(self._watched)
        # Ctrl-C during a run only cancels that run.
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                self._attempt()
                self._options.say(f"watching {self._directory}; Ctrl-C stops")
                watch.wait()

    def _watched(self) -> Iterator[Path]:
        yield self._directory
        yield self._directory.parent / ".shared"
        yield config_dir() / "functions"
        yield from self._spawned

    def _attempt(self) -> None:
        """Run what is necessary; report errors of the agent, which the next save may fix."""
        try:
            prepared = self._prepared()
            self._options.say("valid")
            if self._last is None:
                self._begin(prepared)
            else:
                self._again(self._last, prepared)
        except EngineUnreachable:
            raise
        except SleipnirError as error:
            exit_codes.report(error)

    def _prepared(self) -> PreparedAgent:
        made_with = None if self._recording is None else self._recording.made_with
        prepared = self._client.prepare(
            str(self._directory), choose=self._choose, made_with=made_with
        )
        if is_normal(prepared.graph):
            raise click.UsageError(
                f"'{prepared.name}' is a normal agent; dev is for graph agents, whose nodes can "
                "be run again one by one"
            )
        for warning in prepared.warnings:
            self._options.say(str(warning))
        names = {node.agent for _, node in prepared.graph.nodes_of(AgentNode)}
        self._spawned = tuple(
            self._client.search.find(name, self._directory)
            for name in sorted(names - prepared.unavailable.keys())
        )
        return prepared

    def _begin(self, prepared: PreparedAgent) -> None:
        """Continue from the agent's last run, unless a prompt asks for a new one."""
        known = None if self._submission.prompt else self._newest(prepared)
        if known is not None:
            self._last = known
            self._options.say(f"last run: {known.run.run_id} ({known.run.status})")
            self._again(known, prepared)
            return
        run_id = self._submission.new_run_id(self._client, prepared)
        streams = self._options.streams_replies
        self._submission.submit(
            self._client, prepared, run_id, self._recording, attached=True, streamed=streams
        )
        self._follow(run_id, prepared)

    def _newest(self, prepared: PreparedAgent) -> _Last | None:
        found = self._client.queries.list_runs(RunFilter(agents=(prepared.name,)), 1).entries
        if not found:
            return None
        run = self._client.run(found[0].run_id)
        try:
            form = form_of(self._client.store.bundles, run.digest, run.context.agents)
        except SleipnirError:  # no longer stored, or packed by another version
            return None
        return _Last(run, form)

    def _again(self, last: _Last, prepared: PreparedAgent) -> None:
        changes = changes_between(last.form, self._form(prepared))
        if not changes:
            self._options.say("no change affects a run")
            return
        run_id = self._go_on(last, prepared, changes)
        if run_id is None:
            nodes = ", ".join(sorted(changes.nodes))
            self._options.say(f"changed: {nodes}; run {last.run.run_id} did not get there")
            return
        self._follow(run_id, prepared)
        found = self._client.diff(last.run.run_id, run_id)
        width = layout.terminal_width()
        for line in layout.lines_of(found, (last.run.run_id, run_id), width):
            click.echo(line)

    def _go_on(self, last: _Last, prepared: PreparedAgent, changes: Changes) -> str | None:
        """Start the next run; None if the last one did not reach what has changed."""
        run, streams = last.run, self._options.streams_replies
        checkpoints = self._client.queries.history(run.run_id)
        if changes.elsewhere:
            request = _same_again(run, checkpoints[0].writes, last.form, streamed=streams)
            self._say_changed(changes, "from the beginning")
            run_id = self._client.submit(prepared, request)
        else:
            unfinished = () if run.status == Status.SUCCEEDED else run.frontier
            step = step_before(changes, checkpoints, unfinished)
            if step is None:
                return None
            self._say_changed(changes, f"from step {step + 1}")
            run_id = self._client.fork(
                run.run_id, step, state=changes.state, agent=prepared, streamed=streams
            ).run_id
        if not run.is_final:  # nobody will answer it
            self._client.cancel(run.run_id, f"superseded by run {run_id}")
        return run_id

    def _say_changed(self, changes: Changes, place: str) -> None:
        what = sorted(changes.nodes) or sorted(changes.state) or ["start"]
        self._options.say(f"changed: {', '.join(what)}; running again {place}")

    def _follow(self, run_id: str, prepared: PreparedAgent) -> None:
        streams = self._options.streams_replies
        code = run_result.stay(self._client, run_id, self._options, streams=streams)
        run = self._client.run(run_id)
        # An interrupted run is less useful than the one before it.
        if code != ExitCode.INTERRUPTED or self._last is None:
            self._last = _Last(run, self._form(prepared))

    def _form(self, prepared: PreparedAgent) -> AgentForm:
        return form_of(self._client.store.bundles, prepared.digest, prepared.agents)


def _same_again(run: Run, first: Mapping[str, Any], form: AgentForm, *, streamed: bool) -> Request:
    """Return the request for the same run from the beginning."""
    given = form.graph.initial_state
    context = run.context
    seeds = {
        key: value
        for key, value in first.items()
        if key not in (*context.variables, "initial_prompt") and given.get(key) != value
    }
    return Request(
        prompt=str(first["initial_prompt"]),
        state=seeds,
        variables=context.submitted_vars,
        answers={node: list(texts) for node, texts in context.answers.items()},
        workdir=context.workdir,
        machine=context.machine,
        queue=context.queue,
        guarded=context.asks_always,
        confirmed=not context.guarded,
        headless=context.headless,
        strict=context.strict,
        replay=context.replay,
        live_tools=context.live_tools,
        streamed=streamed,
        labels=run.labels,
    )
