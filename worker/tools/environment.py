"""The environment of a tool's process."""

from __future__ import annotations

import os
from pathlib import Path

from sleipnir.graphs.env_file import ENV_FILE, read_env_file
from sleipnir.graphs.tools.function import Function
from sleipnir.graphs.tools.shipped import SHIPPED_LIBRARY
from sleipnir.graphs.variables import AUTO_CONFIRM, environment_name
from sleipnir.worker.sandbox import typescript
from sleipnir.worker.sandbox.child_process import ALLOW_PRIVATE_ADDRESSES, base_environment
from sleipnir.worker.tools.context import ToolContext
from sleipnir.worker.tools.directory import CallDirectory

WRAPPERS = Path(__file__).with_name("wrappers")

# A setting of the engine, as is `ALLOW_PRIVATE_ADDRESSES`: no agent or tool may set it itself.
_TOOL_ROOT = "LLM_TOOL_ROOT"

_AUTO_CONFIRM = "AUTO_CONFIRM"

# Linux caps one variable at 128 KiB, and all variables together with argv.
_INLINE_ARGUMENTS_BYTES = 32 * 1024


def call_environment(
    function: Function,
    context: ToolContext,
    directory: CallDirectory,
    arguments: str,
    idempotency_key: str,
) -> dict[str, str]:
    """Return the variables of a call: ours override the worker's, and those override `.env`."""
    declared = function.bash.variables
    passed_on = (*context.tool_env, *(variable.name for variable in declared))
    environment = _env_files(function, context) | base_environment(passed_on)
    for name in (_TOOL_ROOT, ALLOW_PRIVATE_ADDRESSES):
        environment.pop(name, None)
    environment |= {environment_name(name): value for name, value in context.variables.items()}
    environment |= _of_function(function, context)
    environment |= {
        "LLM_OUTPUT": str(directory.output),
        "LLM_CONFIG_DIR": str(context.root),
        "LLM_TOOL_DATA_FILE": str(directory.arguments),
        "LLM_PROMPT_UTILS_FILE": str(SHIPPED_LIBRARY / "utils.sh"),
        "LLM_GUARD_FILE": str(directory.guard),
        "LLM_GUARD_GRANTS_FILE": str(directory.approvals),
        "PYTHONPATH": _with_helpers(environment.get("PYTHONPATH")),
        "NO_COLOR": "1",
        "SLEIPNIR_RUN_ID": context.run_id,
        "SLEIPNIR_IDEMPOTENCY_KEY": idempotency_key,
    }
    if context.agent:
        environment["LLM_AGENT_NAME"] = context.agent
    if function.language == "typescript":
        environment |= typescript.ENVIRONMENT
    if context.tool_root is not None:
        environment[_TOOL_ROOT] = str(context.tool_root)
    if context.allow_private_addresses:
        environment[ALLOW_PRIVATE_ADDRESSES] = "1"
    if len(arguments.encode()) <= _INLINE_ARGUMENTS_BYTES:
        environment |= {"LLM_TOOL_RAW_JSON": arguments, "LLM_AGENT_RAW_JSON": arguments}
    for variable in declared:
        if variable.default is not None:
            environment.setdefault(variable.name, variable.default)
    return _with_consent(environment, context)


def _with_consent(environment: dict[str, str], context: ToolContext) -> dict[str, str]:
    """Return the variables, in which only the run says whether guarded functions must ask."""
    if context.auto_confirm:
        return {**environment, _AUTO_CONFIRM: "true"}
    environment.pop(_AUTO_CONFIRM, None)
    if AUTO_CONFIRM in environment:
        environment[AUTO_CONFIRM] = ""  # not removed: scripts may require that it is set
    return environment


def _env_files(function: Function, context: ToolContext) -> dict[str, str]:
    """Read the `.env` files; an agent's own also applies to the global tools that it uses."""
    of_agent = read_env_file(context.agent_directory / ENV_FILE)
    if function.own:
        return of_agent
    return read_env_file(context.home_of(function) / ENV_FILE) | of_agent


def _of_function(function: Function, context: ToolContext) -> dict[str, str]:
    home, cache = str(context.home_of(function)), str(context.cache_of(function))
    if not function.own:
        return {
            "LLM_ROOT_DIR": home,
            "LLM_TOOL_NAME": function.name,
            "LLM_TOOL_CACHE_DIR": cache,
        }
    return {
        "LLM_ROOT_DIR": home,
        "LLM_AGENT_FUNC": function.name,
        "LLM_AGENT_ROOT_DIR": home,
        "LLM_AGENT_DATA_DIR": home,
        "LLM_AGENT_CACHE_DIR": cache,
    }


def _with_helpers(python_path: str | None) -> str:
    """Return a PYTHONPATH on which `import sleipnir.tool` works."""
    helpers = str(SHIPPED_LIBRARY)
    return f"{helpers}{os.pathsep}{python_path}" if python_path else helpers
