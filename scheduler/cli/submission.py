"""The parameters of `run` and `submit`, and the request made from them."""

from __future__ import annotations

import functools
import getpass
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleipnir.graphs.document.queues import named_in
from sleipnir.graphs.state import decode
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.cli.arguments import (
    ExistingDirectory,
    PositiveNumber,
    agent_argument,
    json_or_text,
    pairs,
    piped_text,
    variables_option,
)
from sleipnir.scheduler.cli.connect import (
    hint_missing_process,
    hint_unserved_queues,
    open_client,
    settings_of,
)
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.recording_flags import (
    REPLAY_OPTION,
    GivenRecording,
    given_recording,
)
from sleipnir.scheduler.cli.terminal import is_terminal, read_line
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.views.text.terminal_output import printable

with lazy_imports():
    from sleipnir.scheduler.batch import economy
    from sleipnir.scheduler.cli import attached_files, run_result
    from sleipnir.scheduler.cli.asking import instructions as instruction_questions
    from sleipnir.scheduler.cli.asking import knowledge as knowledge_questions
    from sleipnir.scheduler.process.telemetry import identity
    from sleipnir.scheduler.runs import submit
    from sleipnir.scheduler.views import documents

if TYPE_CHECKING:
    from sleipnir.graphs.schema import Variable
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.client.knowledge.plans import ChooseBuild
    from sleipnir.scheduler.client.preparation import PreparedAgent
    from sleipnir.scheduler.runs.conversation.sessions import Session
    from sleipnir.scheduler.runs.submit import Request

# The options of a request besides the prompt.
REQUEST_OPTIONS = (
    click.option(
        "--set",
        "seeds",
        callback=pairs,
        metavar="KEY=VALUE",
        multiple=True,
        help="Set a key of the initial state; VALUE is JSON if it parses.",
    ),
    variables_option,
    click.option(
        "--answer",
        "answers",
        callback=pairs,
        metavar="NODE=TEXT",
        multiple=True,
        help="Answer a question in advance; one answer per visit.",
    ),
    click.option(
        "--workdir",
        type=ExistingDirectory(),
        help="Working directory of scripts and tools. Default: the current directory.",
    ),
    click.option(
        "--timeout",
        type=PositiveNumber(),
        metavar="SECONDS",
        help="Lower the graph's time limit.",
    ),
    click.option(
        "--strict",
        is_flag=True,
        help="Fail the run if a node fails without a fallback, even if the graph tolerates it.",
    ),
    click.option(
        "--queue",
        metavar="NAME",
        help="Queue of nodes that name none: only workers that serve it execute them.",
    ),
    click.option(
        "--webhook",
        metavar="URL",
        help="Also send events of the run there, signed with the secret of the hook `default`.",
    ),
    click.option(
        "--label",
        "labels",
        callback=pairs,
        metavar="NAME=VALUE",
        multiple=True,
        help="Label to find the run by; up to 16.",
    ),
    REPLAY_OPTION,
    click.option(
        "--tools",
        type=click.Choice(["recorded", "live"]),
        help="With --replay: use recorded results of tools, or call the tools. "
        "Default: recorded, if it has any.",
    ),
    click.option(
        "--yes",
        "confirmed",
        is_flag=True,
        help="Run guarded tools without asking for confirmation.",
    ),
)
_PARAMETERS = (
    agent_argument,
    click.argument("prompt", default=""),
    click.option(
        "-f",
        "--file",
        "files",
        metavar="PATH|URL",
        multiple=True,
        help="Add a file, the files of a directory, or a page to the prompt.",
    ),
    *REQUEST_OPTIONS,
    click.option(
        "--session",
        metavar="NAME",
        help="Continue this session of a normal agent; a new name starts one, `temp` uses none.",
    ),
    click.option("--headless", is_flag=True, help="Run without a person to ask."),
    click.option(
        "--traceparent",
        metavar="TEXT",
        help="Span to which the run belongs, as W3C Trace Context writes it. "
        "Default: TRACEPARENT in the environment.",
    ),
    click.option(
        "--ask",
        is_flag=True,
        help="Ask before a guarded tool is called, whatever the agent's `auto_confirm` says.",
    ),
)


@dataclass(frozen=True, slots=True)
class Submission:
    """The parameters of a submission as parsed by click."""

    agent: str
    prompt: str
    files: Sequence[str]
    seeds: Sequence[tuple[str, str]]
    variables: Sequence[tuple[str, str]]
    answers: Sequence[tuple[str, str]]
    workdir: Path | None
    timeout: float | None
    strict: bool
    queue: str | None
    webhook: str | None
    labels: Sequence[tuple[str, str]]
    replay: Path | None
    tools: str | None
    session: str | None
    headless: bool
    traceparent: str | None
    ask: bool
    confirmed: bool
    economy: float | None = None  # seconds
    economy_only: bool = False

    def with_files(self, options: Options) -> Submission:
        """Return it with the files and pages in its prompt; raises as `Attaching.with_files`.

        Nothing is submitted if one is unusable.
        """
        if not self.files:
            return self
        attaching = attached_files.attaching(settings_of(options), options.say)
        return replace(self, prompt=attaching.with_files(self.prompt, self.files), files=())

    def new_run_id(self, client: Client, prepared: PreparedAgent) -> str:
        """Return an id for the run, known before submission so that Ctrl-C can always cancel it.

        Raises:
            SubmissionRefused: the agent cannot have such a session.
        """
        return submit.new_run_id_in(self._session(client, prepared))

    def _session(self, client: Client, prepared: PreparedAgent) -> Session | None:
        user = client.store.settings.identity
        return client.session_for(prepared, submit.Request(session=self.session, user=user))

    def asks_here(self) -> bool:
        """Return whether there is somebody to ask."""
        return is_terminal() and not self.headless

    def recording(self, client: Client) -> GivenRecording | None:
        """Return the recording to replay; raises as `given_recording`."""
        return given_recording(client, self.agent, self.replay, self.tools)

    def prepare(self, client: Client, recording: GivenRecording | None) -> PreparedAgent:
        """Prepare the agent, as it was when the recording was made; raises as `Client.prepare`."""
        choose = self.choose_build(client)
        made_with = None if recording is None else recording.made_with
        return client.prepare(self.agent, self.workdir, choose, made_with)

    def submit(
        self,
        client: Client,
        prepared: PreparedAgent,
        run_id: str,
        recording: GivenRecording | None,
        *,
        attached: bool,
        pin: bool | None = None,
        recorded: bool = False,
        streamed: bool = False,
    ) -> None:
        """Submit a run with this id; ask for missing variables if possible.

        Attached runs work on this machine's files, in the current directory; others only if a
        directory is given. `pin` overrides the setting of that name.

        Raises:
            SubmissionRefused, SessionInUse: it was not accepted.
        """
        pinned = attached or self.workdir is not None
        machine = client.machine_with_files(pin) if pinned else None
        request = replace(
            self._request(client, prepared, run_id),
            machine=machine,
            recorded=recorded,
            streamed=streamed,
        )
        if recording is not None:
            request = _replaying(client, request, recording)
        request = instruction_questions.with_instructions(client, prepared, self.agent, request)
        client.submit(prepared, request)

    def _variables(self, client: Client, prepared: PreparedAgent) -> dict[str, str]:
        session = self._session(client, prepared)
        if session is not None and session.run is not None:  # a session keeps its variables
            return dict(self.variables)
        return variable_values(
            prepared.name,
            prepared.graph.variables,
            self.variables,
            asks=self.asks_here(),
        )

    def choose_build(self, client: Client) -> ChooseBuild | None:
        """Return the questions about unbuilt knowledge bases; None if nobody can be asked."""
        return None if self.headless else knowledge_questions.questions_here(client.store.settings)

    def _request(self, client: Client, prepared: PreparedAgent, run_id: str) -> Request:
        answers: dict[str, list[str]] = defaultdict(list)
        for node, text in self.answers:
            answers[node].append(text)
        traceparent, tracestate = trace_of_environment()
        return submit.Request(
            prompt=self.prompt,
            state={key: json_or_text(text) for key, text in self.seeds},
            variables=self._variables(client, prepared),
            answers=answers,
            workdir=str((self.workdir or Path()).absolute()),
            headless=self.headless,
            guarded=self.ask,
            confirmed=self.confirmed,
            timeout_s=self.timeout,
            strict=self.strict,
            queue=self.queue,
            webhook=self.webhook,
            labels=dict(self.labels),
            live_tools=live_tools(self.tools, self.replay),
            run_id=run_id,
            session=self.session,
            economy_s=self.economy,
            economy_only=self.economy_only,
            user=client.store.settings.identity,
            traceparent=self.traceparent or traceparent,
            tracestate="" if self.traceparent else tracestate,
        )


def trace_of_environment() -> tuple[str, str]:
    """Return the `traceparent` and `tracestate` in the environment; empty without a valid one."""
    return identity.carried(os.environ.get("TRACEPARENT"), os.environ.get("TRACESTATE"))


def _replaying(client: Client, request: Request, recording: GivenRecording) -> Request:
    recorded = "" if recording.made_with is None else recording.made_with.prompt or ""
    return replace(request, replay=recording.stored(client), prompt=request.prompt or recorded)


def live_tools(tools: str | None, replay: Path | None) -> bool:
    """Return whether `--tools` makes a replay call tools.

    Raises:
        click.UsageError: it is given without `--replay`.
    """
    if tools is not None and replay is None:
        raise click.UsageError("--tools needs --replay, with the recording to take results from")
    return tools == "live"


def submission_parameters(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the parameters of a submission to a verb, which gets them as one `Submission`."""

    @functools.wraps(function)
    def verb(*arguments: Any, **parameters: Any) -> Any:
        mine = {n: parameters.pop(n) for n in Submission.__slots__ if n in parameters}
        if mine["prompt"] == "-":
            mine["prompt"] = piped_text()
        return function(*arguments, submission=Submission(**mine), **parameters)

    decorated: Callable[..., Any] = verb
    for parameter in reversed(_PARAMETERS):
        decorated = parameter(decorated)
    return decorated


def say_origin(options: Options, prepared: PreparedAgent) -> None:
    """Say which directory an agent came from, which JSON documents say themselves."""
    if options.json:
        return
    directory = documents.directory_of(prepared.name, prepared.path) or ""
    options.say(f"agent {prepared.name}: {printable(documents.origin(directory))}")


def say_lasting_warnings(options: Options, prepared: PreparedAgent) -> None:
    """Repeat, at the end of a run, the warnings that its narration has pushed out of sight."""
    for warning in prepared.warnings:
        if warning.lasting:
            options.say(f"warning: {warning}")


def submit_only(options: Options, submission: Submission) -> ExitCode:
    """Submit, print the run's id, and say what to start for it to continue."""
    submission = submission.with_files(options)
    with open_client(options, workers=False) as client:
        recording = submission.recording(client)
        prepared = submission.prepare(client, recording)
        if submission.economy is not None and recording is None:
            economy.announce_economy(
                prepared, client.store, options.say, only=submission.economy_only
            )
        run_id = submission.new_run_id(client, prepared)
        submission.submit(client, prepared, run_id, recording, attached=False)
        say_origin(options, prepared)
        run = client.queries.run(run_id)
        if options.json:
            run_result.print_json(run_result.document_of(client, run))
        else:
            click.echo(run_id)
        hint_missing_process(client, options, run_id)
        hint_unserved_queues(client, options, prepared.queues | named_in(run.queues))
    return ExitCode.SUCCEEDED


def variable_values(
    agent: str, variables: Sequence[Variable], given: Sequence[tuple[str, str]], *, asks: bool
) -> dict[str, str]:
    """Return the given values, here or in the environment; ask for missing ones if `asks`.

    Raises:
        SubmissionRefused: E215, values are missing, and nobody can be asked.
        click.UsageError: the environment's values are invalid.
    """
    values = {**variables_from_environment(agent, os.environ), **dict(given)}
    missing = [v for v in variables if v.default is None and v.name not in values]
    if missing and not asks:
        raise _missing(missing)
    return values | {variable.name: _ask_for(variable) for variable in missing}


def variables_from_environment(agent: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values in `<AGENT>_VARIABLES`: `[{"name", "value"}]`, or one object name → value.

    Raises:
        click.UsageError: it is neither.
    """
    name = agent.upper().replace("-", "_") + "_VARIABLES"
    try:
        found = decode(environment.get(name) or "{}")
        pairs = (
            found.items() if isinstance(found, dict) else [(e["name"], e["value"]) for e in found]
        )
        values = dict(pairs)
    except (ValueError, TypeError, KeyError):
        values = {"": None}
    if not all(isinstance(text, str) for pair in values.items() for text in pair) or "" in values:
        raise click.UsageError(
            f"E610 {name} in the environment: expected a JSON object of texts, or an array of "
            '{"name", "value"}'
        )
    return values


def _missing(variables: Sequence[Variable]) -> SubmissionRefused:
    lines = (f"  {variable.name}: {variable.description}" for variable in variables)
    return SubmissionRefused(
        "\n".join(("E215 the agent needs values; give each with --var NAME=VALUE:", *lines))
    )


def _ask_for(variable: Variable) -> str:
    """Ask until the answer is not blank."""
    label = f"{variable.name} ({variable.description}): "
    while True:
        if variable.secret:
            text = getpass.getpass(printable(label))
        else:
            click.echo(label, err=True, nl=False)
            text = read_line()
        if text.strip():
            return text
