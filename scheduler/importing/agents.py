"""What an agent of theirs does not find here as before, with places and remedies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sleipnir.graphs.document.finding import Finding, folded, listing, printable
from sleipnir.graphs.document.loader import Agent, load_agent
from sleipnir.graphs.errors import InvalidAgent
from sleipnir.graphs.schema import Graph, LlmNode, ScriptNode
from sleipnir.graphs.validator import Resources, validate
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.doctor.agents import variables_not_passed_on
from sleipnir.scheduler.importing.imported import Readiness


def check_agent(
    path: Path, resources: Resources, settings: Settings
) -> tuple[Readiness, list[str]]:
    """Return what the validator makes of an agent, and notes for its owner.

    Args:
        path: its directory.
        resources: what it will find after the import.
    """
    try:
        agent = load_agent(path)
    except InvalidAgent as error:
        return Readiness.ERRORS, list(described(error.findings, path))
    findings = validate(agent, resources)
    notes = [*described(findings, path), *_variables(agent, resources, settings)]
    if agent.graph is not None:
        notes += _tolerated(agent.graph)
    return _check(findings), notes


def described(findings: Sequence[Finding], directory: Path) -> Iterator[str]:
    """Yield findings with paths relative to a directory."""
    for finding in folded(findings):
        file = printable(finding.file.removeprefix(f"{directory}/"))
        yield str(replace(finding, file=file)).replace(f"{directory}/", "")


def _check(findings: Iterable[Finding]) -> Readiness:
    severities = {finding.severity for finding in findings}
    if "error" in severities:
        return Readiness.ERRORS
    return Readiness.WARNINGS if severities else Readiness.READY


def _variables(agent: Agent, resources: Resources, settings: Settings) -> Iterator[str]:
    dropped = variables_not_passed_on(agent, resources.library(), settings)
    for name, program in sorted(dropped.items()):
        yield (
            f"{program}: its variable {name} is not passed on to programs\n"
            f"  hint: `tool_env: [{name}]` in config.yaml, or a value in the agent's .env"
        )


def _tolerated(graph: Graph) -> Iterator[str]:
    """Yield which nodes may fail without failing the run, unlike in Coyote."""
    if not graph.settings.tolerate_failures:
        return
    nodes = [
        node_id
        for node_id, node in graph.nodes.items()
        if isinstance(node, LlmNode | ScriptNode) and node.next and node.fallback is None
    ]
    if nodes:
        yield (
            f"where one of these fails, the run goes on to its `next`, as Loki's manual says: "
            f"{listing(nodes)}; Coyote ends the run, as `settings: {{tolerate_failures: false}}` "
            "does here"
        )
