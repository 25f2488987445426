"""The `script` node: a local program that reads the state and prints one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sleipnir.graphs.document.finding import cut
from sleipnir.graphs.env_file import read_env_file
from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.schema import ScriptNode
from sleipnir.graphs.state import decode
from sleipnir.graphs.tools.shipped import SHIPPED_LIBRARY
from sleipnir.graphs.variables import environment_name
from sleipnir.scheduler.config.directories import config_dir
from sleipnir.scheduler.config.secrets import hidden
from sleipnir.scheduler.errors import SecretsMissing, SecretsUnusable
from sleipnir.scheduler.process.temporary import scratch
from sleipnir.scheduler.runs.failures import cause_first
from sleipnir.worker.executors.attempts import next_attempt
from sleipnir.worker.executors.updates import update_state
from sleipnir.worker.sandbox import typescript
from sleipnir.worker.sandbox.child_process import (
    ALLOW_PRIVATE_ADDRESSES,
    Finished,
    base_environment,
    run_process,
)
from sleipnir.worker.tools.sanitize import without_escapes
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Outcome, Wrote
from sleipnir.worker.visit.run_log import head_and_tail

# The largest state passed in the environment; Linux caps one variable at 128 KiB.
INLINE_STATE_BYTES = 32_768
_STDERR_SHOWN = 4_000  # characters
# Of a standard output that is not a JSON object: bytes in the log, characters in the message.
_STDOUT_KEPT = 2_000
_STDOUT_QUOTED = 200

# The extension alone decides; a shebang and the execute bit are ignored.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    ".sh": ("bash",),
    ".py": ("python3",),
    ".ts": typescript.COMMAND,
}


class ScriptFailed(Exception):
    """The script failed.

    Attributes:
        shown: the reason shown to people, which may differ from the one written to the state.
    """

    def __init__(self, reason: str, shown: str | None = None) -> None:
        super().__init__(reason)
        self.shown = shown or reason


def run_script(visit: Visit[ScriptNode]) -> Outcome:
    """Run the script and take the object it prints as writes.

    A failure is postponed to another attempt, or else tolerated.

    Raises:
        NodeFailed: R002 without a route, R013 if a failure has nowhere to go.
    """
    node = visit.node
    try:
        # Secrets of this machine must not get into the state either.
        writes = hidden(_object_from(visit, _run(visit)))
        target = _taken_next(writes)
    except ScriptFailed as failure:
        return next_attempt(visit, failure.shown) or _tolerated(visit, failure)
    update_state(visit, writes)
    if target is not None:
        return Wrote(writes, (target,))
    if not node.has_next and visit.item_index is None:
        raise NodeFailed("R002", f"script '{visit.node_id}' gave no _next and has no 'next'")
    return Wrote(writes)


def _run(visit: Visit[ScriptNode]) -> Finished:
    command = _command(visit)
    is_typescript = command[:2] == [*typescript.COMMAND]
    # The node's timeout applies to this process alone, not to earlier tries; the run's to all.
    limits = [left for left in (visit.node.limit_s, visit.seconds_left(None)) if left is not None]
    try:
        with _environment(visit) as environment:
            if is_typescript:
                environment |= typescript.ENVIRONMENT
                if not typescript.has_node(environment.get("PATH")):
                    raise ScriptFailed(f"cannot start: {typescript.NO_NODE}")
            finished = run_process(
                command,
                environment=environment,
                workdir=visit.workdir(),
                timeout_s=min(limits, default=None),
                output_limit_bytes=visit.limits.output_bytes,
                cancellation=visit.cancelled,
                limits=visit.limits.programs,
            )
    except OSError as error:
        raise ScriptFailed(f"cannot start: {error.strerror or error}") from error
    except ValueError as error:  # a variable contains a NUL or cannot be encoded
        raise ScriptFailed(f"cannot start: {error}") from error
    stderr = visit.mask(finished.said.decode(errors="replace")).strip()
    if stderr:
        visit.services.run_log.keep("stderr", stderr)
    if finished.timed_out:
        raise ScriptFailed(f"timed out after {visit.node.timeout:g}s")
    if finished.too_large:
        raise ScriptFailed("stdout too large")
    if finished.returncode != 0:
        if is_typescript and typescript.is_no_tsx(stderr):
            raise ScriptFailed(f"cannot start: {typescript.NO_TSX}")
        ending, shown = _ending(finished), without_escapes(stderr)[-_STDERR_SHOWN:].strip()
        raise ScriptFailed(f"{ending}: {shown}", f"{ending}: {cause_first(shown)}")
    return finished


def _ending(finished: Finished) -> str:
    code = finished.returncode
    status = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"{finished.exceeded}: {status}" if finished.exceeded else status


def _command(visit: Visit[ScriptNode]) -> list[str]:
    script = (visit.directory / visit.node.script).resolve()
    if not script.is_relative_to(visit.directory.resolve()):
        raise ScriptFailed(f"cannot start: {visit.node.script} lies outside the agent directory")
    interpreter = COMMANDS.get(script.suffix.lower())
    if interpreter is None:
        raise ScriptFailed(f"cannot start: '{script.suffix}' scripts cannot be run")
    if not script.is_file():
        raise ScriptFailed(f"cannot start: {visit.node.script} not found")
    return [*interpreter, str(script)]


def _object_from(visit: Visit[ScriptNode], finished: Finished) -> dict[str, Any]:
    text = finished.stdout.decode(errors="replace").removeprefix("\ufeff").strip()
    if not text:
        raise ScriptFailed("produced no output")
    try:
        found = decode(text)
    except ValueError as error:
        raise _no_object(visit, text, str(error)) from error
    if not isinstance(found, dict):
        raise _no_object(visit, text, f"it is a JSON {_kind(found)}")
    return found


def _no_object(visit: Visit[ScriptNode], stdout: str, why: str) -> ScriptFailed:
    """Return a failure that quotes what the script printed, and keep more of it in the log."""
    shown = visit.mask(head_and_tail(stdout, _STDOUT_KEPT))
    visit.services.run_log.keep("stdout", shown)
    reason = f"stdout is not a JSON object: {why}"
    return ScriptFailed(reason, f"{reason}; it printed: {cut(shown, _STDOUT_QUOTED)}")


def _kind(value: Any) -> str:
    return "list" if isinstance(value, list) else "scalar"


def _taken_next(writes: dict[str, Any]) -> str | None:
    target = writes.pop("_next", None)
    if target is not None and not isinstance(target, str):
        raise ScriptFailed(f"invalid _next: expected a node id, got {json.dumps(target)[:200]}")
    return target


def _tolerated(visit: Visit[ScriptNode], failure: ScriptFailed) -> Wrote:
    node, shown = visit.node, failure.shown
    has_way = node.fallback is not None or (node.has_next and not visit.is_strict)
    if visit.item_index is not None and not has_way:
        raise NodeFailed("R013", shown)  # the map says which node it is
    if node.fallback is None and visit.is_strict:
        raise NodeFailed("R013", f"script '{visit.node_id}' failed: {shown}")
    if not has_way:
        raise NodeFailed(
            "R013", f"script '{visit.node_id}' failed and has neither fallback nor next: {shown}"
        )
    targets = (node.fallback,) if node.fallback else None
    return Wrote({"error": f"Script node failed: {failure}"}, targets, failure=shown)


@contextmanager
def _environment(visit: Visit[ScriptNode]) -> Iterator[dict[str, str]]:
    """Yield the script's environment; a large state is in a file that exists for the block."""
    environment = base_environment(visit.limits.tool_env)
    for name, value in read_env_file(visit.directory / ".env").items():
        environment.setdefault(name, value)
    functions = config_dir() / "functions"
    environment["PATH"] = f"{functions / 'bin'}:{environment.get('PATH', '')}"
    try:
        variables = visit.exported_variables()
    except (SecretsMissing, SecretsUnusable) as error:
        raise ScriptFailed(f"cannot start: {error}") from error
    environment |= {environment_name(name): value for name, value in variables.items()}
    environment |= {
        "LLM_AGENT_DATA_DIR": str(visit.directory),
        "LLM_ROOT_DIR": str(config_dir()),
        "LLM_PROMPT_UTILS_FILE": str(SHIPPED_LIBRARY / "utils.sh"),
        "AUTO_CONFIRM": "true",
        "NO_COLOR": "1",
        "SLEIPNIR_RUN_ID": visit.run_id,
        "SLEIPNIR_NODE_ID": visit.node_id,
        "SLEIPNIR_IDEMPOTENCY_KEY": visit.idempotency_key,
    }
    environment.pop(ALLOW_PRIVATE_ADDRESSES, None)
    if visit.limits.allow_private_addresses:
        environment[ALLOW_PRIVATE_ADDRESSES] = "1"
    environment.pop("GRAPH_STATE", None)
    environment.pop("GRAPH_STATE_FILE", None)

    state = visit.state.to_json()
    if len(state.encode()) <= INLINE_STATE_BYTES:
        # JSON escapes NUL characters, so the variable has none.
        yield {**environment, "GRAPH_STATE": state}
        return
    with scratch("state") as directory:
        file = Path(directory) / "state.json"
        file.write_text(state, encoding="utf-8")
        yield {**environment, "GRAPH_STATE_FILE": str(file)}
