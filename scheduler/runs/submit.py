"""Creates runs from agents and requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from sleipnir.graphs.document.finding import listing, printable
from sleipnir.graphs.document.queues import queues_of
from sleipnir.graphs.errors import MissingVariables
from sleipnir.graphs.normal_agent import is_normal, may_spawn
from sleipnir.graphs.schema import MAX_SECONDS, Graph, Variable
from sleipnir.graphs.state import PROMPT_KEY, encode
from sleipnir.graphs.variables import resolve_variables
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.process.telemetry.identity import clean_state, given_trace
from sleipnir.scheduler.runs.child_agents import meaning
from sleipnir.scheduler.runs.consent import consent
from sleipnir.scheduler.runs.conversation import asking
from sleipnir.scheduler.runs.conversation.memory import INSTRUCTIONS, Message, turn_key
from sleipnir.scheduler.runs.conversation.sessions import Session
from sleipnir.scheduler.runs.ids import (
    new_child_id,
    new_id_in_session,
    new_run_id,
    partition_of,
    partition_of_session,
)
from sleipnir.scheduler.runs.labels import require_labels, require_name, require_queue
from sleipnir.scheduler.runs.model import NewRun, RunContext

# The fact with the agents that models may start, one per line.
AGENTS_FACT = "__agents__"


class NestedTooDeep(SubmissionRefused):
    """A child run would be nested deeper than allowed: `max_agent_depth`."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a run."""

    prompt: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)  # seeds, override `initial_state`
    variables: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, list[str]] = field(default_factory=dict)  # prepared answers by node
    workdir: str | None = None
    machine: str | None = None  # the only machine whose workers may take the run
    queue: str | None = None  # of the nodes, also of child runs, that name none
    # Whether guarded tools ask a person, whatever the agent says; or run without asking. Neither:
    # those of a normal agent ask unless its `auto_confirm` says otherwise, those of a graph do not.
    guarded: bool = False
    confirmed: bool = False
    headless: bool = False  # there is no person to ask
    strict: bool = False  # failures that the graph would tolerate end the run
    recorded: bool = False  # record its model and tool calls
    replay: str | None = None  # digest of the recording that replies instead of models
    live_tools: bool = False  # a replay calls tools even if the recording has their results
    streamed: bool = False  # stream replies of models, but not of child runs
    timeout_s: float | None = None  # may lower the graph's limit, not raise it
    run_id: str | None = None  # makes the submission idempotent, if given
    batch: str | None = None
    batch_budget_usd: float | None = None  # own budget of the batch
    # How long model calls may wait for batches of their providers; None: not at all.
    economy_s: float | None = None
    economy_only: bool = False  # never make these calls live
    item: str | None = None
    line: int | None = None  # of the batch's input
    labels: Mapping[str, str] = field(default_factory=dict)  # names and values to find it by
    # For normal agents: the session to continue; None: the one named by the agent or the settings,
    # if any; `temp`: none. Runs of a batch have none.
    session: str | None = None
    # Who submits, as the setting `user` has it; only they continue its session. Empty: a program
    # that keeps its users apart itself.
    user: str = ""
    submitter: str = ""  # who submits, as somebody else has authenticated them
    # The session, of the same agent, whose memory a new session begins with.
    continues: str | None = None
    # For normal agents without a session: what was said before, without the prompt.
    earlier: Sequence[Message] = ()
    without_todos: bool = False  # empty the session's todo list first
    interrupted: str = ""  # the beginning of the session's last reply, if its run was cancelled
    # The result of a normal agent's `_instructions`, if called already; None: a worker calls it.
    instructions: str | None = None
    # The span in which it is submitted, as W3C Trace Context writes it; and what it passes on.
    traceparent: str = ""
    tracestate: str = ""
    webhook: str | None = None  # URL that all events of the run are sent to


def take_prompt(prompt: str, state: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the prompt and the other seeds; it may have been given as the seed `initial_prompt`.

    Raises:
        SubmissionRefused: it was given both ways.
    """
    if PROMPT_KEY not in state:
        return prompt, state
    rest = {key: value for key, value in state.items() if key != PROMPT_KEY}
    given = state[PROMPT_KEY]
    if given is None or given == "":
        return prompt, rest
    if prompt:
        raise SubmissionRefused(
            f"the prompt is given twice, as `prompt` and as '{PROMPT_KEY}' of the state; leave out "
            f"'{PROMPT_KEY}'"
        )
    return given if isinstance(given, str) else seed_text(PROMPT_KEY, given), rest


def _with_prompt(request: Request) -> Request:
    prompt, state = take_prompt(request.prompt, request.state)
    return replace(request, prompt=prompt, state=state)


def new_run(
    graph: Graph,
    digest: str,
    request: Request,
    *,
    agent: str,
    agents: Mapping[str, str],
    unavailable: Mapping[str, str] | None = None,
    warnings: tuple[str, ...] = (),
    facts: Mapping[str, str] | None = None,
    session: Session | None = None,
) -> NewRun:
    """Return a root run.

    Args:
        digest: the digest of the agent's bundle.
        agents, unavailable: bundle digests of agents it may spawn, and why others cannot, by name.
        facts: about this machine for prompts of normal agents. session: that it continues.

    Raises:
        SubmissionRefused: a bad label or name, an undeclared variable, one without a value (E215),
            a seed that is not JSON, any seed for a normal agent, or a second prompt.
    """
    request = _with_prompt(request)
    require_declared(agent, graph.variables, request.variables)
    _require_seedable(agent, graph, request.state)
    _require_asking(graph, request.answers)
    _require_findable(agent, request)
    run_id = request.run_id or new_run_id_in(session)
    request = _request_in(session, run_id, request)
    context = _context(run_id, graph, request, agents, unavailable or {}, facts or {}, session)
    return NewRun(
        run_id=run_id,
        agent=agent,
        digest=digest,
        start=graph.start,
        start_type=graph.nodes[graph.start].type,
        state=_seeds(graph, context.variables, _given(request, session), request.prompt),
        context=context,
        timeout_s=_lower(graph.settings.limit_s, request.timeout_s),
        queues=queues_of(graph, request.queue),
        batch=request.batch,
        item=request.item,
        line=request.line,
        labels=dict(request.labels),
        webhook=request.webhook,
        warnings=warnings,
        session=None if session is None else (session.place, session.last_run or ""),
        continues="" if session is None else session.continued_run,
    )


def _require_findable(agent: str, request: Request) -> None:
    require_labels(request.labels)
    require_queue(request.queue)
    require_name("agent", agent)
    if request.batch is not None:
        require_name("batch", request.batch)


def _given(request: Request, session: Session | None) -> Mapping[str, Any]:
    """Return the seeds of the request besides the prompt."""
    seeds = request.state
    if session is not None:
        seeds = session.seeds(without_todos=request.without_todos, interrupted=request.interrupted)
    elif request.earlier:
        seeds = {turn_key(0): [dict(message) for message in request.earlier]}
    if request.instructions is None:
        return seeds
    return {**seeds, INSTRUCTIONS: request.instructions}


def new_run_id_in(session: Session | None) -> str:
    """Return a random run id, in the session's partition if there is a session."""
    return new_run_id() if session is None else new_id_in_session(session.place)


def _request_in(session: Session | None, run_id: str, request: Request) -> Request:
    """Return a request with the variables that its session, if any, was given before."""
    if session is None:
        return request
    if partition_of(run_id) != partition_of_session(session.place):
        raise SubmissionRefused(
            f"run {run_id} cannot be one of session '{session.name}'; leave its id to the engine, "
            "or make it with `new_run_id_in`"
        )
    return replace(request, variables=session.submitted_vars(request.variables))


def _require_seedable(agent: str, graph: Graph, state: Mapping[str, Any]) -> None:
    if state and is_normal(graph):
        raise SubmissionRefused(
            f"{listing([printable(key) for key in state])}: '{agent}' is a normal agent, which has "
            "no initial state (--set, columns); use the prompt, or a variable (--var)"
        )


def _require_functions(answers: Mapping[str, Sequence[str]]) -> None:
    """Check answers in advance of a model's questions: their functions, and what these accept."""
    for name, texts in answers.items():
        if name not in asking.FUNCTIONS:
            raise SubmissionRefused(
                f"an answer names '{printable(name)}'; a normal agent asks by "
                f"{listing(asking.FUNCTIONS)}"
            )
        for text in texts if name == asking.CONFIRM else ():
            if consent(text) is None:
                raise SubmissionRefused(
                    f"--answer {name}={printable(text)} is not a valid answer: expected yes or no"
                )


def _require_asking(graph: Graph, answers: Mapping[str, Sequence[str]]) -> None:
    """Check that the nodes with prepared answers ask something."""
    if is_normal(graph):
        _require_functions(asking.by_function(answers))
        return
    for node_id in answers:
        if node_id not in graph.nodes:
            raise SubmissionRefused(
                f"an answer names node '{printable(node_id)}', which does not exist"
            )
        if not graph.nodes[node_id].ASKS_PEOPLE:
            raise SubmissionRefused(
                f"an answer names node '{node_id}', which does not ask a question"
            )


def _context(
    run_id: str,
    graph: Graph,
    request: Request,
    agents: Mapping[str, str],
    unavailable: Mapping[str, str],
    facts: Mapping[str, str],
    session: Session | None,
) -> RunContext:
    """Return the context of a root run."""
    variables = _variables(graph, request.variables)
    return RunContext(
        root=run_id,
        batch=request.batch,
        batch_budget_usd=request.batch_budget_usd,
        economy_s=request.economy_s,
        economy_only=request.economy_only,
        workdir=request.workdir,
        machine=request.machine,
        queue=request.queue,
        # Graphs decide themselves what they do; models must be confirmed unless told otherwise.
        guarded=not request.confirmed and (is_normal(graph) or request.guarded),
        asks_always=request.guarded and not request.confirmed,
        headless=request.headless,
        strict=request.strict,
        recorded=request.recorded,
        replay=request.replay,
        live_tools=request.live_tools,
        streamed=request.streamed,
        variables=variables if session is None else session.variables(variables),
        secrets=_secrets(graph),
        seeds=tuple(request.state),
        submitted_vars=dict(request.variables),
        answers=asking.by_function(request.answers) if is_normal(graph) else dict(request.answers),
        agents=dict(agents),
        unavailable=dict(unavailable),
        converses=is_normal(graph),
        facts=dict(facts),
        session=None if session is None else session.name,
        user=request.user or (session.owner if session is not None else ""),
        submitter=request.submitter,
        trace=_trace(request),
        tracestate=clean_state(request.tracestate) if request.traceparent else "",
    )


def _trace(request: Request) -> str:
    """Return the trace in which a run is submitted, as it is stored; "" if there is none.

    Raises:
        SubmissionRefused: the `traceparent` is invalid.
    """
    if not request.traceparent:
        return ""
    trace = given_trace(request.traceparent)
    if trace is None:
        raise SubmissionRefused(
            f"traceparent: '{printable(request.traceparent[:80])}' is not one; expected "
            "00-<trace id, 32 hex digits>-<span id, 16>-<flags, 2>, as W3C Trace Context has it"
        )
    return trace.stored()


def context_of_agent(context: RunContext, graph: Graph) -> RunContext:
    """Return a run's context with the variables that another version of its agent declares.

    Raises:
        SubmissionRefused: one of them has no value.
    """
    variables = _variables(graph, context.submitted_vars)
    return replace(context, variables=variables, secrets=_secrets(graph))


def require_declared(agent: str, variables: Iterable[Variable], given: Iterable[str]) -> None:
    """Check that an agent declares the variables that values are given for.

    Raises:
        SubmissionRefused: it does not.
    """
    declared = {variable.name for variable in variables}
    for name in given:
        if name not in declared:
            known = ", ".join(sorted(declared)) or "none"
            raise SubmissionRefused(
                f"agent '{agent}' declares no variable '{printable(name)}' (it has: {known})"
            )


def require_fitting(
    state: Mapping[str, str], value_limit_bytes: int, state_limit_bytes: int
) -> None:
    """Check the size of an initial state, key → JSON text.

    Raises:
        SubmissionRefused: a value, or the whole state, is too large.
    """
    total = 0
    for key, text in state.items():
        size = len(text.encode())
        total += len(key.encode(errors="surrogatepass")) + size
        if size > value_limit_bytes:
            raise SubmissionRefused(
                f"the value of '{printable(key)}' has {size} bytes; the limit of a value is "
                f"{value_limit_bytes} (value_limit_bytes)"
            )
    if total > state_limit_bytes:
        raise SubmissionRefused(
            f"the initial state has {total} bytes; the limit is "
            f"{state_limit_bytes} (state_limit_bytes)"
        )


def child_digest(parent: RunContext, parent_digest: str, agent: str, max_depth: int) -> str:
    """Return the bundle digest of the agent that a node of a run spawns.

    Args:
        parent_digest: of the run's own bundle.

    Raises:
        NestedTooDeep: the child would be nested too deeply.
        SubmissionRefused: there was no valid agent of that name at submission.
    """
    if parent.depth + 1 > max_depth:
        raise NestedTooDeep(
            f"agent '{agent}' would be nested {parent.depth + 1} deep; the limit is {max_depth} "
            "(max_agent_depth)"
        )
    digest, why = meaning(parent.agents, parent.unavailable, parent_digest, agent)
    if digest is None:
        raise SubmissionRefused(why or "it was not found when the run was submitted")
    return digest


# What a child's context does not take over from its parent's.
_OF_ROOTS_ONLY: Mapping[str, Any] = {
    "answers": {},
    "streamed": False,
    "session": None,
    "agent_path": None,
}


def child_run(
    graph: Graph,
    digest: str,
    *,
    parent: RunContext,
    parent_run: str,
    parent_visit: str,
    agent: str,
    prompt: str,
    run_id: str | None = None,
    state: Mapping[str, Any] | None = None,
    model: str | None = None,
    handle: str = "",
    member: str = "",
) -> NewRun:
    """Return the child run of an agent node or a model's call; it gets the root's variables.

    Args:
        run_id: an id from `new_child_id`; None: a random one.
        state: seeds, override the graph's `initial_state`.
        model, handle: the model it inherits from its parent; its name for the parent's model.
        member: its id in the team of the node that starts it, if that has one.

    Raises:
        SubmissionRefused: a variable of the child has no value.
    """
    variables = _variables(graph, parent.submitted_vars)
    return NewRun(
        run_id=run_id or new_child_id(parent_run),
        agent=agent,
        digest=digest,
        start=graph.start,
        start_type=graph.nodes[graph.start].type,
        state=_seeds(graph, variables, state or {}, prompt),
        context=replace(
            _context_below(parent, graph),
            variables=variables,
            seeds=tuple(state or ()),
            handle=handle,
            member=member,
            model=model or parent.model,
        ),
        timeout_s=graph.settings.limit_s,
        queues=queues_of(graph, parent.queue),
        parent=f"{parent_run} {parent_visit}",
    )


def _context_below(parent: RunContext, graph: Graph) -> RunContext:
    """Return what the context of a child run of this graph has from its parent's."""
    return replace(
        parent,
        depth=parent.depth + 1,
        secrets=_secrets(graph),
        # Unneeded entries would be stored and read with each of many children.
        **({} if may_spawn(graph) else _without_agents(parent)),
        converses=is_normal(graph),
        # Nobody widens their rights by a child: its `auto_confirm` counts if theirs does.
        asks_always=not parent.auto_confirms,
        supervised=parent.supervised or (parent.depth == 0 and parent.converses),
        **_OF_ROOTS_ONLY,
    )


def _without_agents(context: RunContext) -> dict[str, Any]:
    """Return the changes to a context for a run that starts no agents."""
    facts = {name: fact for name, fact in context.facts.items() if name != AGENTS_FACT}
    return {"agents": {}, "unavailable": {}, "facts": facts}


def _variables(graph: Graph, given: Mapping[str, str]) -> dict[str, str]:
    try:
        return resolve_variables(graph, given)
    except MissingVariables as error:
        raise SubmissionRefused(str(error)) from error


def _secrets(graph: Graph) -> tuple[str, ...]:
    return tuple(variable.name for variable in graph.variables if variable.secret)


def _seeds(
    graph: Graph, variables: Mapping[str, str], state: Mapping[str, Any], prompt: str
) -> dict[str, str]:
    """Return the initial state, key → JSON text: later sources override earlier ones."""
    if is_normal(graph):  # its seeds are its memory
        remembered = {**state, PROMPT_KEY: prompt}
        return {key: seed_text(key, value) for key, value in remembered.items()}
    secrets = set(_secrets(graph))
    plain = {name: value for name, value in variables.items() if name not in secrets}
    merged = {**plain, **graph.initial_state, **state, PROMPT_KEY: prompt}
    return {key: seed_text(key, value) for key, value in merged.items()}


def seed_text(key: str, value: Any) -> str:
    """Return a given value for a state key as JSON text.

    Raises:
        SubmissionRefused: it cannot be represented in JSON.
    """
    try:
        return encode(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise SubmissionRefused(
            f"the value of '{printable(key)}' cannot be stored: {error}; "
            "use JSON values: strings, finite numbers, true, false, null, lists and objects"
        ) from error


def _lower(limit: float | None, wanted: float | None) -> float | None:
    given = [value for value in (limit, wanted) if value is not None]
    return min(*given, MAX_SECONDS) if given else None
