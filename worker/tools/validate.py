"""Checks and prepares everything that a tool's process needs before it starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.graphs.tools.function import Function
from sleipnir.worker.tools.arguments import (
    BashArguments,
    wrong_names,
    wrong_surroundings,
    wrong_values,
)
from sleipnir.worker.tools.context import ToolContext
from sleipnir.worker.tools.directory import CallDirectory
from sleipnir.worker.tools.environment import call_environment


class ArgumentsRefused(Exception):
    """The call must not be made; `violations` are all the reasons."""

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = violations
        super().__init__("\n".join(violations))


def prepare(
    function: Function,
    arguments: Mapping[str, Any],
    context: ToolContext,
    directory: CallDirectory,
    idempotency_key: str,
    approvals: Collection[str],
) -> dict[str, str]:
    """Check a call and write its files; return its environment.

    Raises:
        ArgumentsRefused: naming everything that is wrong.
        OSError: a directory or file cannot be written.
    """
    if not function.file.is_file():
        raise ArgumentsRefused([f"there is no file {function.file}"])
    arguments = _by_declared_names(function.bash.aliases, arguments)
    text = encode(arguments)
    environment = call_environment(function, context, directory, text, idempotency_key)
    wrong = [*wrong_names(function, arguments), *wrong_surroundings(function.bash, environment)]
    bash = BashArguments.of(function, arguments)
    wrong += bash.wrong if function.language == "bash" else wrong_values(function, arguments)
    if wrong:
        raise ArgumentsRefused(wrong)

    directory.arguments.write_text(text, encoding="utf-8")
    directory.write_fields("approvals", approvals)
    match function.language:
        case "bash":
            directory.write_fields("values", bash.values())
            directory.write_fields("questions", bash.questions(environment))
            directory.copy_without_compiled(function.file)
        case "typescript":
            names = list(function.parameters.get("properties", ()))
            directory.parameters.write_text(encode(names), encoding="utf-8")
    context.cache_of(function).mkdir(parents=True, exist_ok=True)
    context.workdir.mkdir(parents=True, exist_ok=True)
    return environment


def _by_declared_names(
    aliases: Mapping[str, str], arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Rename aliased arguments; the declared name wins if both are given."""
    renamed = {aliases[name]: value for name, value in arguments.items() if name in aliases}
    return renamed | {name: value for name, value in arguments.items() if name not in aliases}
