"""Runs the cases of an agent concurrently, and judges each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from time import monotonic

from sleipnir.graphs.errors import GraphError
from sleipnir.graphs.files import open_output, read_text, reason
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.process.temporary import OwnDirectory
from sleipnir.scheduler.runs.conversation.sessions import TEMPORARY
from sleipnir.scheduler.runs.history import chain_rows
from sleipnir.scheduler.runs.ids import new_child_id, new_run_id
from sleipnir.scheduler.runs.model import NO_USAGE, Checkpoint, Run, Status, Usage
from sleipnir.scheduler.runs.recording import LIMIT_BYTES, model_calls, read, written
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.testing.cases import Case
from sleipnir.scheduler.testing.judgement import Course, problems

# How long to wait for news before polling every run.
_LOOK_MS = 500
_NO_REPLIES = (
    "the case has no replies for its model calls: write some under `replies`, or name a `replay` "
    "and record it with --record"
)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a case."""

    case: Case
    run_id: str | None  # None: no run was accepted
    problems: tuple[str, ...]
    elapsed_s: float
    usage: Usage = NO_USAGE

    @property
    def passed(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class CaseSession:
    """Cases of one agent, to be run together.

    Args:
        directory: the agent's directory.
        record: call models, and write their replies to the cases' recordings.
    """

    client: Client
    agent: PreparedAgent
    directory: Path
    record: bool = False

    def results(self, cases: Sequence[Case]) -> Generator[Result, None, None]:
        """Yield results as cases finish; cancel the remaining runs if the caller stops early."""
        with OwnDirectory() as scratch:
            followed = _Followed(self.client)
            try:
                for case in cases:
                    try:
                        followed.add(case, self._submit(case, scratch.path, followed.new_run_id()))
                    except (SubmissionRefused, GraphError) as error:
                        yield Result(case, None, (str(error),), 0.0)
                for case, run, elapsed_s in followed:
                    yield self._judged(case, run, elapsed_s)
            finally:
                followed.cancel()

    def _submit(self, case: Case, scratch: Path, run_id: str) -> str:
        given = case.given
        recorded = self.record and given.replay is not None
        request = Request(
            prompt=given.prompt,
            state=given.state,
            variables={
                name: value if isinstance(value, str) else encode(value)
                for name, value in given.vars.items()
            },
            answers={
                node: [answer] if isinstance(answer, str) else answer
                for node, answer in given.answers.items()
            },
            workdir=str(self._workdir(case, scratch, run_id)),
            machine=self.client.machine_with_files(),
            headless=True,
            recorded=recorded,
            replay=None if recorded else self._recording(case),
            live_tools=True,  # tests call the current tools
            timeout_s=given.timeout,
            run_id=run_id,
            session=TEMPORARY,
        )
        return self.client.submit(self.agent, request)

    def _workdir(self, case: Case, scratch: Path, run_id: str) -> Path:
        if case.given.workdir is not None:
            named = self.directory / case.given.workdir
            if not named.is_dir():
                raise SubmissionRefused(f"its workdir {named} is not a directory")
            return named
        workdir = scratch / run_id
        workdir.mkdir()
        return workdir

    def _recording(self, case: Case) -> str:
        """Return the digest of the recording with the case's replies."""
        if case.given.replay is None:
            return self.client.recordings.put(written(case.replies), case.id)
        return self.client.recordings.put(self._read(case), case.given.replay)

    def _read(self, case: Case) -> str:
        file = self._file(case)
        try:
            return read_text(file, LIMIT_BYTES)
        except FileNotFoundError:
            message = f"there is no recording {file}: make it with --record"
            raise SubmissionRefused(message) from None
        except (OSError, UnicodeDecodeError) as error:
            raise SubmissionRefused(f"cannot read {file}: {reason(error)}") from error

    def _file(self, case: Case) -> Path:
        assert case.given.replay is not None, "callers look before they ask"
        return self.directory / case.given.replay

    # ---- afterwards

    def _judged(self, case: Case, run: Run, elapsed_s: float) -> Result:
        course = self._course(case, run)
        found = [*self._misses(case, run), *self._mistakes(case, course)]
        if run.context.recorded:
            found += self._keep_recording(case, run)
        return Result(case, run.run_id, tuple(found), elapsed_s, run.usage)

    def _mistakes(self, case: Case, course: Course) -> Iterator[str]:
        return problems(case.expected, course, self.client.store.settings.check_timeout_s)

    def _course(self, case: Case, run: Run) -> Course:
        records = self.client.queries
        history = records.history(run.run_id)
        route = [sorted(checkpoint.nodes) for checkpoint in history[1:]]
        if run.status != Status.SUCCEEDED:
            route.append(sorted(run.frontier))
        usage = run.usage
        if run.context.replay is not None and case.given.replay is not None:
            calls = model_calls(read(self._read(case), ""))
            usage = sum((call.usage for call in calls), usage)
        return Course(
            nodes=self.agent.graph.nodes,
            status=run.status,
            failure=run.failure,
            route=route,
            visits=_visits(run, history),
            state=records.state(run.run_id),
            output=run.output,
            cost_usd=usage.cost_usd,
        )

    def _misses(self, case: Case, run: Run) -> Iterator[str]:
        for miss in self.client.recordings.misses(run.run_id):
            yield f"model call without a reply: {miss}"
            if case.given.replay is None and not case.replies:
                yield _NO_REPLIES
                return

    def _keep_recording(self, case: Case, run: Run) -> Iterator[str]:
        """Write the case's recording unless it is faulty."""
        recorded = self.client.recordings.recorded(run.run_id)
        failed = next((call for call in recorded.calls if call.reply is None), None)
        if failed is not None:
            yield f"nothing was recorded: node '{failed.node}' got no reply: {failed.error}"
        elif not recorded.complete:
            yield "nothing was recorded: there were more model calls than a recording can hold"
        else:
            file = self._file(case)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                with open_output(file) as stream:
                    stream.write(written(recorded.entries).encode())
            except OSError as error:
                yield f"cannot write {file}: {error.strerror}"


class _Followed:
    """Runs in one partition, so that a single wait is woken by news of any of them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._first = new_run_id()
        self._open: dict[str, tuple[Case, float]] = {}
        self._positions: dict[str, str] = {}

    def new_run_id(self) -> str:
        return new_child_id(self._first)

    def add(self, case: Case, run_id: str) -> None:
        self._open[run_id] = case, monotonic()
        self._positions[run_id] = "0"

    def __iter__(self) -> Iterator[tuple[Case, Run, float]]:
        """Yield each run when it has ended, or waits for a person, whom a test does not have."""
        while self._open:
            self._wait()
            summaries = self._client.queries.summaries(list(self._open))
            for run_id, summary in zip(list(self._open), summaries, strict=True):
                if summary is None or summary.status.is_final or summary.status == Status.WAITING:
                    case, began_at = self._open.pop(run_id)
                    del self._positions[run_id]
                    run = self._client.queries.run(run_id)
                    if not run.is_final:
                        self._client.cancel(run_id, "its test is over")
                    yield case, run, monotonic() - began_at

    def _wait(self) -> None:
        news = self._client.queries.events_after(self._positions, _LOOK_MS)
        self._positions.update((run_id, entry.event_id) for run_id, entry in news)

    def cancel(self) -> None:
        """Cancel the runs that are still open."""
        for run_id in self._open:
            self._client.cancel(run_id, "its test was given up")


def _visits(run: Run, history: Iterable[Checkpoint]) -> Counter[str]:
    """Return the visits of each node; those that maps ran for items included."""
    visits = Counter(run.visits)
    for checkpoint in history:
        for timing in checkpoint.nodes.values():
            for row in chain_rows(timing):
                visits[row["id"]] += row["visits"]
    return visits
