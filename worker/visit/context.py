"""What an executor gets: a visit, its node, the state it may read and the time it has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from sleipnir.graphs.schema import BaseNode, Graph
from sleipnir.graphs.state import Snapshot
from sleipnir.records import dataclass
from sleipnir.scheduler.config.masking import mask
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.process.backoff import Backoff
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import RunContext
from sleipnir.scheduler.schema_checks import DEFAULT_LIMIT_S
from sleipnir.worker.sandbox.limits import NO_LIMITS, ProgramLimits
from sleipnir.worker.sandbox.workdir import workdir_of
from sleipnir.worker.visit.cancellation import Cancellation
from sleipnir.worker.visit.loaded_agent import LoadedAgent
from sleipnir.worker.visit.services import VisitServices

N = TypeVar("N", bound=BaseNode)

NOTHING_ARRIVED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class VisitLimits:
    """The engine's settings that apply to executors."""

    output_bytes: int = 8 * 1024 * 1024  # of a script's output, per stream
    value_bytes: int = 8 * 1024 * 1024  # of one value of a state
    conversation_bytes: int = 32 * 1024 * 1024  # of one attempt of an llm node
    attach_count: int = 20  # files of one request
    attach_file_bytes: int = 20 * 1024 * 1024  # of each
    attach_request_bytes: int = 32 * 1024 * 1024  # of all
    map_items: int = 100_000
    calls: int = 128  # in one reply of a model
    log_bytes: int = 16 * 1024 * 1024  # of what `logs` shows of a run
    call_threads: int = 16  # for the calls of one reply
    tool_env: tuple[str, ...] = ()  # additional variables that programs may see
    allow_private_addresses: bool = False  # for scripts that use the shipped fetcher
    programs: ProgramLimits = NO_LIMITS
    check_s: float = DEFAULT_LIMIT_S  # processor time to check a value against a schema
    model_backoff: Backoff = Backoff(0.5, 30.0)  # of model calls
    agent_turns: int = 0  # turns of a normal agent's run; 0: unlimited
    stuck_turns: int = 25  # those of them in a row that achieve nothing; 0: unlimited
    compression_tokens: int = 4_000  # size of a session above which it is compressed; 0: never
    # For normal agents that name neither a model nor these parameters.
    temperature: float | None = None
    top_p: float | None = None

    @classmethod
    def of(cls, settings: Settings) -> VisitLimits:
        """Return the limits that the settings give."""
        return cls(
            output_bytes=settings.output_limit_bytes,
            value_bytes=settings.value_limit_bytes,
            conversation_bytes=settings.conversation_limit_bytes,
            attach_count=settings.attach_count_limit,
            attach_file_bytes=settings.attach_file_limit_bytes,
            attach_request_bytes=settings.attach_request_limit_bytes,
            map_items=settings.map_items_limit,
            calls=settings.calls_limit,
            log_bytes=settings.log_limit_bytes,
            call_threads=settings.call_threads,
            tool_env=settings.tool_env,
            allow_private_addresses=settings.allow_private_addresses,
            programs=ProgramLimits.of(settings),
            check_s=settings.check_timeout_s,
            model_backoff=Backoff(settings.retry_base_s, settings.retry_max_s),
            agent_turns=settings.agent_max_turns,
            stuck_turns=settings.agent_max_stuck_turns,
            compression_tokens=settings.compression_threshold,
            temperature=settings.temperature,
            top_p=settings.top_p,
        )


# A tuple, as one is made per node: a frozen dataclass takes more than twice as long to make.
class Visit(NamedTuple, Generic[N]):
    """One try of a visit: its facts, and the services that executors may use."""

    run_id: str
    visit_id: VisitId
    step: int
    node_id: str
    node: N
    agent: LoadedAgent
    state: Snapshot  # in a map's invocation, with its `as` value
    context: RunContext
    services: VisitServices
    limits: VisitLimits
    scratch: Path  # parent of the working directories of runs submitted without one
    # Set by the heartbeat when the run was closed or the lease lost: stop, the result is void.
    cancelled: Cancellation
    began_at: float  # on the `monotonic` clock, as is `run_ends_at`
    run_ends_at: float | None = None
    item_index: int | None = None  # set in an invocation of a map's branch
    attempt: int = 1  # goes up with each `Postponed`
    number: int = 1  # visits of the node in this run so far; of its map in an invocation
    has_waited: bool = False  # whether it was parked before
    age_s: float = 0.0  # time since the visit first began, including earlier tries and parking
    # What the visit was parked for: {"answer": …}, the child's result, or the fields of a map.
    resumed_with: Any = None
    # Results of what a model's calls were waiting for, by call id; "" if the time ran out first.
    arrived: Mapping[str, str] = NOTHING_ARRIVED
    secrets: tuple[str, ...] = ()  # values that nobody may see

    @property
    def visit_of_node(self) -> int:
        """Which visit of its node this is, from 1: in the run, or for the item of a map."""
        return self.number if self.item_index is None else self.visit_id.number

    @property
    def graph(self) -> Graph:
        return self.agent.graph

    @property
    def directory(self) -> Path:
        """The agent's directory, as unpacked on this worker; read-only."""
        return self.agent.directory

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for every try of this visit."""
        return f"{self.run_id}:{self.visit_id}"

    def workdir(self) -> Path:
        """Return where its programs run: the submitter's directory, or a scratch one of the run."""
        return workdir_of(self.context.workdir, self.scratch, self.run_id)

    def exported_variables(self) -> dict[str, str]:
        """Return the agent's variables as its programs get them, with secrets in defaults resolved.

        Secrets in submitted values are not resolved, as those may come from anybody.

        Raises:
            SecretsMissing, SecretsUnusable: a default names a secret that is not available.
        """
        given, resolve = self.context.submitted_vars, self.services.secrets.resolve
        return {
            name: value if name in given else resolve(value)
            for name, value in self.context.variables.items()
        }

    @property
    def is_strict(self) -> bool:
        """Whether a failure that the graph would otherwise tolerate ends the run."""
        return self.context.strict or not self.graph.settings.tolerate_failures

    def mask(self, text: str) -> str:
        """Return text fit to be shown: secrets masked, the agent's files with relative paths."""
        text = mask(text, self.secrets)
        bundle = str(self.agent.root)
        if bundle not in text:
            return text
        return text.replace(f"{self.directory}/", "").replace(f"{bundle}/", "")

    def elapsed_s(self) -> float:
        """Return the time since the visit first began, including earlier tries and parking."""
        return self.age_s + monotonic() - self.began_at

    def seconds_left(self, node_timeout: float | None) -> float | None:
        """Return the seconds left of the node's timeout and the run's; None if neither is set."""
        left = []
        if node_timeout is not None:
            left.append(node_timeout - self.elapsed_s())
        if self.run_ends_at is not None:
            left.append(self.run_ends_at - monotonic())
        return min(left) if left else None
