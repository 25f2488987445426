"""Runs one call of a tool file's function, in a process of its own."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from sleipnir.graphs.document.finding import cut
from sleipnir.graphs.tools.function import Function
from sleipnir.records import dataclass
from sleipnir.scheduler.config.masking import mask
from sleipnir.worker.sandbox.child_process import Finished, run_at_terminal, run_process
from sleipnir.worker.tools.context import ToolContext
from sleipnir.worker.tools.directory import CallDirectory, call_directory
from sleipnir.worker.tools.interpreter import ProgramMissing, command_of, missing_tsx
from sleipnir.worker.tools.output_capture import Stdout
from sleipnir.worker.tools.result import decoded, decoded_end, failure, status_text, value_of
from sleipnir.worker.tools.sanitize import cleaned, without_escapes
from sleipnir.worker.tools.validate import ArgumentsRefused, prepare

# Time between SIGTERM and SIGKILL for a tool.
GRACE_S = 5.0
# How the helpers end a tool that asks: exit code 75, or the signal if in a subshell.
_ASKING = (75, -signal.SIGTERM)
_NARRATED_CHARACTERS = 2_000  # in a narrated line


@dataclass(frozen=True, slots=True)
class Completed:
    """The call has finished."""

    value: Any  # JSON for the model; for a failure {"tool_call_error": …}


@dataclass(frozen=True, slots=True)
class NeedsConfirmation:
    """The tool needs a person's consent before it goes on; it has changed nothing yet."""

    question: str


def call_function(
    function: Function,
    arguments: Mapping[str, Any],
    context: ToolContext,
    *,
    idempotency_key: str,
    approvals: Sequence[str] = (),
    timeout_s: float | None = None,
) -> Completed | NeedsConfirmation:
    """Call a function once. Failures are returned as values for the model, never raised.

    `approvals` are this call's questions that were already answered with yes: the tool runs again
    from the start. `timeout_s` is the time that the run has left.
    """
    call = _Call(function, arguments, context, idempotency_key, timeout_s)
    approved = tuple(approvals)
    while True:
        outcome = call.run(approved)
        if isinstance(outcome, Completed):
            return outcome
        shown = call.shown(outcome.question)
        if shown not in approvals or outcome.question in approved:
            return NeedsConfirmation(shown)
        # Consent was given to the masked question, but the tool looks for the full one.
        approved += (outcome.question,)


def call_at_terminal(
    function: Function, context: ToolContext, *, idempotency_key: str
) -> Completed | NeedsConfirmation:
    """Call a function without arguments once; it may talk to the person at this terminal."""
    return _Call(function, {}, context, idempotency_key, None, at_terminal=True).run(())


@dataclass(frozen=True, slots=True)
class _Call:
    function: Function
    arguments: Mapping[str, Any]
    context: ToolContext
    idempotency_key: str
    timeout_s: float | None
    at_terminal: bool = False

    def run(self, approvals: Sequence[str]) -> Completed | NeedsConfirmation:
        """Run the process until it exits."""
        try:
            with call_directory() as directory:
                return self._run(directory, approvals)
        except ArgumentsRefused as refused:
            errors = "\n".join(f"error: {violation}" for violation in refused.violations)
            self.context.log("stderr", self.shown(errors))
            return self._failed("the call was refused", stderr=errors)
        except ProgramMissing as missing:
            return self._failed(f"cannot start: {missing}")
        except OSError as error:
            return self._failed(f"cannot start: {error.strerror or error}")
        except ValueError as error:  # NaN, a variable with a NUL, or text that cannot be encoded
            return self._failed(f"cannot start: {error}")

    def shown(self, text: str) -> str:
        """Return the text as people may see it."""
        return mask(without_escapes(text), self.context.secrets)

    def _run(
        self, directory: CallDirectory, approvals: Sequence[str]
    ) -> Completed | NeedsConfirmation:
        context = self.context
        environment = prepare(
            self.function, self.arguments, context, directory, self.idempotency_key, approvals
        )
        stdout = Stdout(self._narrate, context.output_limit_bytes)
        finished = self._finished(environment, stdout)
        stdout.end()
        return self._outcome(directory, finished, stdout)

    def _finished(self, environment: Mapping[str, str], stdout: Stdout) -> Finished:
        context = self.context
        command = command_of(self.function, context, environment)
        limit_s = context.limit_s(self.timeout_s)
        if self.at_terminal:
            return run_at_terminal(
                command, environment=environment, workdir=context.workdir, timeout_s=limit_s
            )
        return run_process(
            command,
            environment=environment,
            workdir=context.workdir,
            timeout_s=limit_s,
            output_limit_bytes=context.output_limit_bytes,
            limits=context.limits,
            cancellation=context.cancellation,
            on_stdout=stdout.take,
            grace_s=GRACE_S,
        )

    def _outcome(
        self, directory: CallDirectory, finished: Finished, stdout: Stdout
    ) -> Completed | NeedsConfirmation:
        limit = self.context.output_limit_bytes
        stderr = decoded_end(finished.stderr, limit, finished.stderr_cut)
        written = directory.written(limit)
        if finished.returncode == 0 and not finished.timed_out:
            self._log(finished)
            return Completed(value_of(written, limit, self.context.secrets))
        if finished.returncode in _ASKING and not finished.timed_out:
            question = directory.question(limit)
            if question is not None:
                self._log(finished)
                return NeedsConfirmation(question)
        self._log(finished)
        return self._failed(
            self._reason(finished, directory),
            stderr=stderr,
            stdout=decoded(bytes(stdout.kept), limit, stdout.cut),
            output=decoded(written, limit, len(written) > limit),
        )

    def _reason(self, finished: Finished, directory: CallDirectory) -> str:
        if finished.timed_out:
            return f"timed out after {self.context.limit_s(self.timeout_s):g} s"
        if finished.exceeded is not None:
            return f"{finished.exceeded}: {status_text(finished.returncode)}"
        return missing_tsx(self.function, directory) or status_text(finished.returncode)

    def _failed(self, reason: str, **texts: str) -> Completed:
        value = failure(self.function.name, reason, **texts)
        return Completed(cleaned(value, self.context.secrets))

    def _log(self, finished: Finished) -> None:
        text = self.shown(finished.said.decode(errors="replace")).strip()
        if text:
            self.context.log("stderr", text)

    def _narrate(self, line: str) -> None:
        self.context.narrate(cut(self.shown(line), _NARRATED_CHARACTERS))
