"""One call of `sleipnir eval`: runs versions on rows, scores and compares them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import click

from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.files import reason
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.batch.economy import announce_economy
from sleipnir.scheduler.cli.connect import settings_of
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.progress import Display, WorkerWatch
from sleipnir.scheduler.cli.recording_flags import given_recording
from sleipnir.scheduler.cli.run_result import print_json
from sleipnir.scheduler.cli.submission import variables_from_environment
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.conversation.sessions import TEMPORARY
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.testing.evaluation import written
from sleipnir.scheduler.testing.evaluation.batches import EvaluationBatch
from sleipnir.scheduler.testing.evaluation.file import (
    Evaluation,
    find_evaluation,
    read_evaluation,
)
from sleipnir.scheduler.testing.evaluation.forking import BaselineForks
from sleipnir.scheduler.testing.evaluation.report import BASELINE, CURRENT, EvaluationReport
from sleipnir.scheduler.testing.evaluation.rows import digest_of, read_rows
from sleipnir.scheduler.testing.evaluation.running import (
    RowRun,
    RowRunner,
    by_row,
    ended_rows,
    lines_of,
    read_runs,
    version_of,
)
from sleipnir.scheduler.testing.evaluation.scoring import (
    Judged,
    JudgeQuestions,
    VersionRuns,
    VersionScores,
    score_version,
    sum_usd,
)
from sleipnir.scheduler.testing.evaluation.stored import full_version, runs_on_other_rows

_GIT = "git:"


@dataclass(frozen=True, slots=True)
class EvalCall:
    """The parameters of one call as parsed by click."""

    agent: str
    evaluation: str | None
    baseline: str | None
    variants: Sequence[tuple[str, str]]
    repeat: int | None
    rows: int | None
    gate: bool
    accept: bool
    target: Path | None
    no_fork: bool = False
    replay: Path | None = None
    economy: float | None = None  # seconds


class EvalCommand:
    """Runs and compares the versions that one call names."""

    def __init__(self, client: Client, options: Options, call: EvalCall) -> None:
        _require_names([name for name, _ in call.variants])
        if call.accept and call.rows is not None:
            raise click.UsageError("--accept needs all rows: leave out --rows")
        if call.accept and call.replay is not None:
            raise click.UsageError("--accept needs replies of models: leave out --replay")
        self._client = client
        self._options = options
        self._call = call
        self._directory = client.search.find(call.agent)
        self._evaluation = self._read(find_evaluation(self._directory, call.evaluation))
        self._rows = read_rows(self._evaluation, call.rows)
        self._replayed = given_recording(client, call.agent, call.replay, None)
        self._recording = None if self._replayed is None else self._replayed.stored(client)
        self._judges: dict[str, PreparedAgent] = {}  # by check
        self._said: set[str] = set()  # of what versions and judges may have in common

    def run(self) -> ExitCode:
        """Run, score, compare and report; return the exit code."""
        # What is amiss is found out before rows are paid for.
        self._judges = dict(self._prepared_judges())
        if self._call.target is not None:
            _make_directory(self._call.target)
        versions = list(self._versions())
        waiting = sum(
            run.status == "waiting"
            for version in versions
            for runs in version.runs.values()
            for run in runs
        )
        if waiting:
            self._options.say(
                f"{waiting:,} rows wait for a person, so nothing was scored: `sleipnir inbox`"
            )
            return ExitCode.WAITING
        report = EvaluationReport(
            self._directory.name,
            self._evaluation,
            self._rows,
            [self._scored(version) for version in versions],
            has_baseline=versions[0].name == BASELINE,
        )
        if self._call.target is not None:
            self._write(report, self._call.target)
        if self._options.json:
            print_json(report.document())
        else:
            click.echo("\n".join(report.lines(fit=True)))
        if self._call.accept:
            current = next(each for each in versions if each.name == CURRENT)
            accepted = self._evaluation.accepted
            accepted.write_text(f"{current.version}\n", encoding="utf-8")
            self._options.say(f"baseline from now on: {current.version}, in {accepted}")
        return self._exit_code(report)

    def _exit_code(self, report: EvaluationReport) -> ExitCode:
        if report.stopped:
            return ExitCode.FAILED
        if self._call.gate and report.passed() is False:
            self._options.say(f"the gate is not passed: {'; '.join(report.losses())}")
            return ExitCode.FAILED
        return ExitCode.SUCCEEDED

    def _read(self, file: Path) -> Evaluation:
        evaluation, findings = read_evaluation(file)
        if evaluation is None:
            raise click.UsageError("\n".join(map(str, findings)) or f"cannot read {file}")
        if self._call.repeat is None:
            return evaluation
        return replace(evaluation, given=replace(evaluation.given, repeat=self._call.repeat))

    # ---- versions

    def _versions(self) -> Iterator[VersionRuns]:
        """Run each version; yield the baseline first, if there is one."""
        baseline = self._baseline()
        if baseline is not None:
            yield baseline
        yield self._run(CURRENT, self._call.agent, baseline)
        for name, reference in self._call.variants:
            yield self._run(name, reference, baseline)

    def _baseline(self) -> VersionRuns | None:
        if self._call.baseline is not None:
            return self._run(BASELINE, self._call.baseline, None)
        accepted = None if self._call.accept else self._evaluation.accepted_version()
        return None if accepted is None else self._stored(BASELINE, accepted)

    def _run(self, name: str, reference: str, baseline: VersionRuns | None) -> VersionRuns:
        agent, at, version = reference.partition("@")
        if at and agent == self._directory.name:
            return self._stored(name, version)
        if written.is_written(Path(reference)):
            return written.read_version(Path(reference), CURRENT, name, self._rows)
        with self._prepared(reference) as prepared:
            self._announce_economy(prepared)
            version = version_of(self._client, prepared)
            batch = self._batch(version).name
            with Display(self._options, batch) as display:
                runner = self._forking(self._runner(prepared, display), baseline)
                runner.run(prepared, batch, lines_of(self._rows, self._repeat))
        found = self._runs(name, version)
        return replace(found, not_started=len(self._rows) - len(found.runs))

    def _forking(self, runner: RowRunner, baseline: VersionRuns | None) -> RowRunner:
        """Return a runner that forks the baseline's runs where it may."""
        if self._call.no_fork or self._repeat > 1:
            return replace(runner, from_start=True)
        if baseline is None or self._recording is not None:
            return runner
        run_ids = {row_id: runs[0].run_id for row_id, runs in baseline.runs.items()}
        return replace(runner, submit=BaselineForks(run_ids).submit)

    def _stored(self, name: str, version: str) -> VersionRuns:
        """Return a version, given by its first digits, whose runs are stored; run nothing."""
        version = full_version(self._client, self._batch(version))
        found = self._runs(name, version)
        runs: dict[str, Sequence[RowRun]] = {}
        if self._recording is None and len(found.runs) < len(self._rows):
            batch, with_state = self._batch(version), self._evaluation.reads_state
            runs = runs_on_other_rows(self._client, batch, self._rows, with_state=with_state)
        found = replace(found, runs=runs | ended_rows(found.runs, 1))
        if not found.runs:
            raise SubmissionRefused(
                f"{self._directory.name}@{version}: no runs of evaluation "
                f"'{self._evaluation.name}' of these rows are stored; give its directory, or "
                f"{_GIT}REVISION"
            )
        return found

    @contextmanager
    def _prepared(self, reference: str) -> Iterator[PreparedAgent]:
        with ExitStack() as stack:
            if reference.startswith(_GIT):
                revision = reference.removeprefix(_GIT)
                reference = stack.enter_context(_checked_out(self._directory, revision))
            made_with = None if self._replayed is None else self._replayed.made_with
            yield self._client.prepare(reference, made_with=made_with)

    def _announce_economy(self, prepared: PreparedAgent) -> None:
        if self._call.economy is not None and self._recording is None:
            announce_economy(prepared, self._client.store, self._say_once)

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._options.say(text)

    def _runner(self, prepared: PreparedAgent, display: Display) -> RowRunner:
        defaults = Request(
            variables=variables_from_environment(prepared.name, os.environ),
            workdir=str(Path().absolute()),
            session=TEMPORARY,
            economy_s=self._call.economy,
            replay=self._recording,
            user=settings_of(self._options).identity,
        )
        watch = WorkerWatch(self._client, self._options, display.update)
        return RowRunner(self._client, defaults, watch)

    @property
    def _repeat(self) -> int:
        return self._evaluation.given.repeat

    def _batch(self, version: str) -> EvaluationBatch:
        name, rows = self._evaluation.name, digest_of(self._rows, self._recording)
        return EvaluationBatch(self._directory.name, name, version, rows)

    def _runs(self, name: str, version: str) -> VersionRuns:
        batch, with_state = self._batch(version).name, self._evaluation.reads_state
        runs = read_runs(self._client, batch, with_state=with_state)
        return VersionRuns(name, version, by_row(self._rows, self._repeat, runs))

    # ---- scores

    def _scored(self, version: VersionRuns) -> VersionScores:
        if version.written is not None:
            return score_version(self._rows, self._evaluation.checks, version, version.written)
        judged: dict[tuple[str, str], float | None] = {}
        costs: list[float | None] = []
        for check, judge in self._judges.items():
            found, cost = self._judged(check, judge, version)
            judged.update(found)
            costs.append(cost)
        scored = replace(version, judge_usd=sum_usd(costs))
        return score_version(self._rows, self._evaluation.checks, scored, judged)

    def _prepared_judges(self) -> Iterator[tuple[str, PreparedAgent]]:
        """Yield the agents that decide checks, by check."""
        for check in self._evaluation.checks:
            if check.judge is not None:
                beside = self._directory / check.judge
                reference = str(beside) if beside.is_dir() else check.judge
                yield check.name, self._client.prepare(reference)

    def _judged(
        self, check: str, judge: PreparedAgent, version: VersionRuns
    ) -> tuple[Judged, float | None]:
        """Ask an agent about each run that succeeded, once; return scores and what that cost."""
        self._announce_economy(judge)
        questions = JudgeQuestions.about(check, self._rows, version.runs)
        of_rows, by = self._batch(version.version), version_of(self._client, judge)
        batch = replace(of_rows, check=check, judge=by).name
        with Display(self._options, batch) as display:
            runner = self._runner(judge, display)
            labelled = {"judge": self._evaluation.name}
            replace(runner, defaults=replace(runner.defaults, labels=labelled)).run(
                judge, batch, list(questions.asked.values())
            )
        return questions.judgements(read_runs(self._client, batch))

    # ---- files

    def _write(self, report: EvaluationReport, target: Path) -> None:
        try:
            summary = encode(report.document())
            (target / written.SUMMARY).write_text(f"{summary}\n", encoding="utf-8")
            rows = "".join(f"{encode(row)}\n" for row in report.row_documents())
            (target / written.ROWS).write_text(rows, encoding="utf-8")
            (target / "report.md").write_text(report.markdown(), encoding="utf-8")
        except OSError as error:
            raise click.FileError(str(target), reason(error)) from error


@contextmanager
def _checked_out(directory: Path, revision: str) -> Iterator[str]:
    """Yield a copy of an agent's directory as of a commit, which is removed afterwards."""
    if not revision or revision.startswith("-"):  # git would take it for an option
        raise SubmissionRefused(f"{_GIT}{printable(revision)}: not a revision")
    with tempfile.TemporaryDirectory(prefix="sleipnir-eval-") as scratch:
        copy = Path(scratch) / directory.name
        copy.mkdir()
        packed = _output_of(
            revision, ["git", "-C", str(directory), "archive", "--format=tar", revision, "."]
        )
        # It keeps out of other directories, which Python's own does from 3.11.4 on.
        _output_of(revision, ["tar", "-x", "--no-same-owner", "-C", str(copy)], packed)
        yield str(copy)


def _output_of(revision: str, command: list[str], given: bytes | None = None) -> bytes:
    """Run a program on a revision; return what it prints.

    Raises:
        SubmissionRefused: it fails, or is not installed.
    """
    found = shutil.which(command[0])
    if found is None:
        raise SubmissionRefused(f"{_GIT}{printable(revision)}: {command[0]} is not installed")
    ended = subprocess.run([found, *command[1:]], input=given, capture_output=True, check=False)
    if ended.returncode:
        why = printable(ended.stderr.decode(errors="replace").strip())
        raise SubmissionRefused(f"{_GIT}{printable(revision)}: {command[0]}: {why}")
    return ended.stdout


def _require_names(variants: Sequence[str]) -> None:
    """Refuse names that two versions of a report would have.

    Raises:
        click.UsageError: there are such.
    """
    names = [BASELINE, CURRENT, *variants]
    for name in variants:
        if names.count(name) > 1:
            raise click.UsageError(f"--variant {name}=…: another version has that name")


def _make_directory(target: Path) -> None:
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.FileError(str(target), reason(error)) from error
