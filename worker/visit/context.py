"""What an executor gets: one visit, its node, the state it may read and the time it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Generic, TypeAlias, TypeVar

from sleipnir.graphs.schema import BaseNode, Graph
from sleipnir.graphs.state import Snapshot
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.runs.events import Event
from sleipnir.scheduler.runs.model import NO_USAGE, Context, Usage
from sleipnir.scheduler.schema_checks import DEFAULT_LIMIT_S
from sleipnir.worker.conversation.tool_set import NO_TOOLS, Toolset
from sleipnir.worker.delivery.run_log import RunLog
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.client import Reply, Request, complete
from sleipnir.worker.masking import mask
from sleipnir.worker.sandbox.limits import NO_LIMITS, ProgramLimits
from sleipnir.worker.visit.cancellation import Cancellation

N = TypeVar("N", bound=BaseNode)
AskModel: TypeAlias = Callable[[Request, Caller, float | None], Reply]


@dataclass(frozen=True, slots=True)
class Limits:
    """The engine's settings that executors heed."""

    output_bytes: int = 8 * 1024 * 1024  # of a script, per stream
    value_bytes: int = 8 * 1024 * 1024  # of one value of a state
    conversation_bytes: int = 32 * 1024 * 1024  # of one attempt of an llm node
    map_items: int = 100_000
    calls: int = 128  # of one reply of a model
    log_bytes: int = 16 * 1024 * 1024  # of what is kept for `logs`
    call_threads: int = 16  # that carry out the calls of one reply
    tool_env: tuple[str, ...] = ()  # more variables that programs may see
    programs: ProgramLimits = NO_LIMITS
    check_s: float = DEFAULT_LIMIT_S  # of processor time, to check a value against a schema
    retry_base_s: float = 0.5  # first pause before a model call is repeated; it doubles
    retry_max_s: float = 30.0

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """The limits that the settings name."""
        return cls(
            output_bytes=settings.output_limit_bytes,
            value_bytes=settings.value_limit_bytes,
            conversation_bytes=settings.conversation_limit_bytes,
            map_items=settings.map_items_limit,
            calls=settings.calls_limit,
            log_bytes=settings.log_limit_bytes,
            call_threads=settings.call_threads,
            tool_env=settings.tool_env,
            programs=ProgramLimits.of(settings),
            check_s=settings.check_timeout_s,
            retry_base_s=settings.retry_base_s,
            retry_max_s=settings.retry_max_s,
        )


@dataclass(slots=True)
class Visit(Generic[N]):
    """One try of one visit. Executors read it and call `narrate`, `log` and `cancelled`."""

    run_id: str
    step: int
    node_id: str
    node: N
    graph: Graph
    directory: Path  # the agent as unpacked on this worker, read-only
    state: Snapshot  # for a map's invocation `as` included
    idempotency_key: str  # equal for every try of this visit
    index: int | None = None  # of the item, in an invocation of a map's branch
    attempt: int = 1  # llm attempts: 1, then one more after each `Postponed`
    age_s: float = 0.0  # since the visit first began, earlier tries and parking included
    # What the visit parked for: {"answer": …}, the child's result, or the fields of a map.
    resumed_with: Any = None
    context: Context = field(default_factory=Context)  # of the run
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()  # values that nobody may see
    # Where its programs run: the submitter's directory, or a scratch one of the run.
    workdir: Callable[[], Path] = Path.cwd
    limits: Limits = field(default_factory=lambda: Limits())
    # `provider:model` for nodes whose graph names none; an engine setting.
    default_model: str | None = None
    # Instant of the `monotonic` clock at which the run's time is over.
    run_ends_at: float | None = None
    # Set by the heartbeat when the run was closed or the lease lost: stop, the result is void.
    cancelled: Cancellation = field(default_factory=Cancellation)
    # Puts secrets of this machine in place of their names.
    fill_in: Callable[[str], str] = lambda text: text
    # The functions that its model may call, for an llm node with `tools`.
    offer: Callable[[Visit[Any]], Toolset] = lambda _visit: NO_TOOLS
    # A reply that is known without asking a model.
    recall: Callable[[Request, Caller], Reply | None] = lambda _request, _caller: None
    ask_model: AskModel = lambda request, _caller, timeout_s: complete(request, timeout_s)
    # The conversation with a model so far, oldest first (see conversation/transcript.py), and
    # how to go on with it: (position, entry, event, usage).
    turns: Callable[[], Sequence[Mapping[str, Any]]] = lambda: ()
    record: Callable[[int, Mapping[str, Any], Event | None, Usage], None] = lambda *_: None
    recorded_usage: Usage = NO_USAGE  # of entries recorded, earlier attempts included
    # Appends an event to the run's narration at once.
    narrate: Callable[[Event], None] = lambda _event: None
    # Passes on what a model says to whoever watches the run.
    say: Callable[[str], None] = lambda _text: None
    # What `logs` shows of this try, kept with the run when it commits: (stream, text).
    logged: RunLog = field(init=False)
    began_at: float = field(default_factory=monotonic)

    def __post_init__(self) -> None:
        self.logged = RunLog(self.limits.log_bytes)

    def exported_variables(self) -> dict[str, str]:
        """The agent's variables as its programs get them: secrets in defaults are filled in.

        Raises:
            SecretsMissing, SecretsUnusable: a default names a secret that cannot be had. A
                value given at submission never names one: it may come from anybody.
        """
        given = self.context.given
        return {
            name: value if name in given else self.fill_in(value)
            for name, value in self.variables.items()
        }

    def mask(self, text: str) -> str:
        """Text fit for people's eyes: secrets replaced."""
        return mask(text, self.secrets)

    def log(self, stream: str, text: str) -> None:
        """Keep text with the run for `logs`."""
        self.logged.add(stream, text)

    def seconds_left(self, node_timeout: float | None) -> float | None:
        """What remains of the node's limit and the run's, in seconds; None without either."""
        now = monotonic()
        left = []
        if node_timeout is not None:
            left.append(node_timeout - self.age_s - (now - self.began_at))
        if self.run_ends_at is not None:
            left.append(self.run_ends_at - now)
        return min(left) if left else None
