"""Submissions from pages and the API."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.document.finding import cut, printable
from sleipnir.graphs.document.references import is_path
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.normal_agent import is_normal
from sleipnir.records import dataclass
from sleipnir.scheduler.client.accepting import accept
from sleipnir.scheduler.errors import RunNotFound, SubmissionRefused
from sleipnir.scheduler.runs.conversation.asking import by_function
from sleipnir.scheduler.runs.conversation.sessions import TEMPORARY
from sleipnir.scheduler.runs.submit import Request, new_run_id_in
from sleipnir.scheduler.views.run import type_name

if TYPE_CHECKING:
    from sleipnir.graphs.schema import Graph
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.conversation.memory import Message
    from sleipnir.scheduler.runs.conversation.sessions import Session
    from sleipnir.scheduler.runs.model import Run
    from sleipnir.scheduler.views.types.run import SubmittedWithDocument

# Of runs of graph agents: the conversation that its user has about them.
SESSION_LABEL = "session"


@dataclass(frozen=True, slots=True)
class WantedRun:
    """The contents of a submission."""

    agent: str  # a name, not a path: remote users must not choose which files are run
    prompt: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, list[str]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    queue: str | None = None
    webhook: str | None = None
    batch: str | None = None
    key: str | None = None  # idempotency key: the same key gives the same run
    # The trace in which it is submitted, as the headers of the request say.
    traceparent: str = ""
    tracestate: str = ""
    # The conversation that it continues, as of `Request`; of a graph agent, which has none, a
    # label by which its runs are found.
    session: str | None = None
    user: str = ""  # the only one who may continue it
    submitter: str = ""  # as of `Request`
    earlier: Sequence[Message] = ()  # as of `Request`; nothing for a graph agent
    streamed: bool = False  # as of `Request`


@dataclass(frozen=True, slots=True)
class AcceptedRun:
    """A run that was accepted and stored."""

    run_id: str
    is_new: bool  # False: the same submission was accepted before


def wanted_of(client: Client, run: Run) -> WantedRun:
    """Return what a run was submitted with, without values equal to its agent's own.

    Raises:
        BundleError: the agent is not stored any more.
    """
    context = run.context
    seeds = dict(next(iter(client.queries.checkpoints(run.run_id))).writes)
    prompt = seeds.pop("initial_prompt", "")
    agents_own: Mapping[str, Any] = seeds  # a normal agent's seeds are its memory
    if not context.converses:
        agents_own = {**context.variables, **client.graph_of(run).initial_state}
    return WantedRun(
        agent=run.agent,
        prompt=prompt if isinstance(prompt, str) else "",
        state={
            key: value
            for key, value in seeds.items()
            if key not in agents_own or agents_own[key] != value
        },
        variables=context.submitted_vars,
        answers=context.answers,
        labels=run.labels,
        workdir=context.workdir,
        queue=context.queue,
    )


def submitted_document(client: Client, run: Run) -> SubmittedWithDocument:
    """Return what a run was submitted with, without the values of secrets, and as a command.

    Raises:
        BundleError: the agent is not stored any more.
    """
    wanted, secrets = wanted_of(client, run), frozenset(run.context.secrets)
    return {
        "prompt": wanted.prompt,
        "state": dict(wanted.state),
        "variables": {n: text for n, text in wanted.variables.items() if n not in secrets},
        "workdir": wanted.workdir,
        "command": command_of(wanted, secrets),
    }


def submit_run(client: Client, wanted: WantedRun, by: str) -> AcceptedRun:
    """Accept a run.

    Args:
        by: the owner of the `key`; equal keys of different people are different.

    Raises:
        AgentNotFound, InvalidAgent: there is no such agent, or it cannot run as it is.
        SubmissionRefused, SessionInUse: the submission is invalid.
        NotKept: it was stored, but may get lost.
    """
    require_name(wanted.agent)
    workdir = _directory(wanted.workdir)
    try:
        prepared = client.prepare(wanted.agent, workdir)
    except BundleError as error:
        raise SubmissionRefused(str(error)) from error
    require_types(prepared.graph, wanted.state)
    if not is_normal(prepared.graph):
        wanted = _of_graph(wanted)
    request = Request(
        prompt=wanted.prompt,
        state=wanted.state,
        variables=wanted.variables,
        answers=wanted.answers,
        labels=wanted.labels,
        workdir=None if workdir is None else str(workdir),
        queue=wanted.queue or None,
        webhook=wanted.webhook or None,
        batch=wanted.batch,
        machine=None if workdir is None else client.machine_with_files(),
        traceparent=wanted.traceparent,
        tracestate=wanted.tracestate,
        session=wanted.session,
        user=wanted.user,
        submitter=wanted.submitter,
        earlier=wanted.earlier,
        streamed=wanted.streamed,
    )
    session = client.session_for(prepared, request)
    run_id = new_run_id_in(session) if wanted.key is None else _id_of(by, wanted.key, session)
    if wanted.key is not None and (run := _stored(client, run_id)) is not None:
        _require_same(client, run, wanted)
        return AcceptedRun(run_id, is_new=False)
    _, is_new = accept(client, prepared, replace(request, run_id=run_id))
    return AcceptedRun(run_id, is_new=is_new)


def _of_graph(wanted: WantedRun) -> WantedRun:
    """Return a submission of a graph agent, whose runs are independent of each other."""
    labels = wanted.labels
    if wanted.session not in (None, TEMPORARY):
        labels = {**labels, SESSION_LABEL: wanted.session}
    return replace(wanted, labels=labels, session=None, earlier=())


def known_run(client: Client, wanted: WantedRun, by: str) -> Run | None:
    """Return the run that was accepted for a `key` before, if it is still stored.

    Unlike `submit_run` it does not need the agent's files, but the name of the session.

    Raises:
        SubmissionRefused: it was accepted for another submission.
    """
    if wanted.key is None or wanted.session is None:
        return None
    found = _stored(client, _id_of(by, wanted.key, None))
    if found is None and wanted.session != TEMPORARY:
        session = client.session(wanted.agent, wanted.session)
        found = _stored(client, _id_of(by, wanted.key, session))
    if found is not None:
        _require_same(client, found, wanted if found.context.converses else _of_graph(wanted))
    return found


def run_of_key(client: Client, by: str, key: str | None) -> Run | None:
    """Return the run that was accepted for a key, whatever it was submitted with.

    Args:
        by: the owner of the key, as of `submit_run`.
    """
    return None if key is None else _stored(client, _id_of(by, key, None))


def require_name(agent: str) -> None:
    """Check that an agent is given by its name.

    Raises:
        SubmissionRefused: it is given by its path.
    """
    if is_path(agent):
        raise SubmissionRefused(
            f"'{printable(agent)}' is a path; the monitor submits agents by their names, "
            "which `sleipnir agents` lists"
        )


def _id_of(by: str, key: str, session: Session | None) -> str:
    """Return the run id for a person's key."""
    digest = sha256(f"{by}\n{key}".encode(errors="surrogatepass")).hexdigest()[:16]
    # The first two digits choose the partition, which the session determines.
    return digest if session is None else new_run_id_in(session)[:2] + digest[2:]


def _stored(client: Client, run_id: str) -> Run | None:
    try:
        return client.queries.run(run_id)
    except RunNotFound:
        return None


def _require_same(client: Client, run: Run, wanted: WantedRun) -> None:
    """Check that a key is used again for the same submission.

    Raises:
        SubmissionRefused: it is another one.
    """
    try:
        before = wanted_of(client, run)
    except BundleError:
        return  # nothing to compare with
    seeds = next(iter(client.queries.checkpoints(run.run_id))).writes
    given = {"initial_prompt": wanted.prompt, **wanted.state}
    is_same = (
        all(seeds.get(key) == value for key, value in given.items())
        # What is the agent's own is not in there, whether or not it was given.
        and before.state.keys() <= wanted.state.keys()
        and before.agent == wanted.agent
        and before.variables == wanted.variables
        and before.answers in (wanted.answers, by_function(wanted.answers))
        and before.labels == wanted.labels
        and before.workdir == (wanted.workdir or None)
        and before.queue == (wanted.queue or None)
        and run.webhook == (wanted.webhook or None)
        and run.batch == wanted.batch
    )
    if not is_same:
        raise SubmissionRefused(
            f"the key '{cut(printable(wanted.key or ''), 80)}' was used for run {run.run_id}, "
            "which is another submission: use a new key"
        )


def _directory(text: str | None) -> Path | None:
    if not text:
        return None
    directory = Path(text)
    if not directory.is_absolute() or not directory.is_dir():
        raise SubmissionRefused(
            f"the working directory '{printable(text)}' must be the absolute path of a directory "
            "on the monitor's machine"
        )
    return directory


def require_types(graph: Graph, state: Mapping[str, Any]) -> None:
    """Check that values for keys of `initial_state` have the types of the values there.

    Raises:
        SubmissionRefused: a value has another type.
    """
    for key, value in state.items():
        declared = graph.initial_state.get(key)
        if declared is None or value is None or type_name(value) == type_name(declared):
            continue
        raise SubmissionRefused(
            f"the value of '{printable(key)}' has the type {type_name(value)}; in "
            f"`initial_state` it has {type_name(declared)}"
        )


def command_of(wanted: WantedRun, secrets: frozenset[str]) -> str:
    """Return the command for the same submission.

    Args:
        secrets: variables whose values are left to the shell's environment.
    """
    words = ["sleipnir", "run", wanted.agent]
    for key, value in wanted.state.items():
        words += ["--set", f"{key}={json.dumps(value, ensure_ascii=False)}"]
    for name, value in wanted.variables.items():
        if name not in secrets:
            words += ["--var", f"{name}={value}"]
    for node, texts in wanted.answers.items():
        words += [word for text in texts for word in ("--answer", f"{node}={text}")]
    for name, value in wanted.labels.items():
        words += ["--label", f"{name}={value}"]
    if wanted.workdir:
        words += ["--workdir", wanted.workdir]
    if wanted.queue:
        words += ["--queue", wanted.queue]
    hidden = [name for name in wanted.variables if name in secrets]
    prompt = ["--", wanted.prompt] if wanted.prompt.startswith("-") else [wanted.prompt]
    parts = [
        shlex.join(words),
        *(f'--var {shlex.quote(name)}="${_variable(name)}"' for name in hidden),
        *([shlex.join(prompt)] if wanted.prompt else []),
    ]
    return " ".join(parts)


def _variable(name: str) -> str:
    return "".join(char if char.isalnum() and char.isascii() else "_" for char in name).upper()
