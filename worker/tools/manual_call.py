"""An agent's functions outside of a run, called exactly as a run calls them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sleipnir.graphs.bundles.archive import pack, unpack
from sleipnir.graphs.bundles.layout import agent_directory, library_of
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.loader import Agent, load_agent
from sleipnir.graphs.document.references import CONFIG_FILE, AgentSearch
from sleipnir.graphs.skills import NO_SKILLS
from sleipnir.graphs.tools.function import Function
from sleipnir.graphs.tools.library import ToolLibrary
from sleipnir.graphs.tools.toolbox import Toolbox
from sleipnir.graphs.validator import validate
from sleipnir.graphs.variables import resolve_variables
from sleipnir.records import dataclass
from sleipnir.scheduler.client.preparation import parts_of, resources_of
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.config.mcp_servers import configured_servers
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.process.temporary import OwnDirectory
from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.worker.mcp.functions import McpServers
from sleipnir.worker.mcp.pool import McpLimits, McpPool
from sleipnir.worker.tools.call import Completed, call_function
from sleipnir.worker.tools.context import ToolContext


@dataclass(frozen=True, slots=True)
class Workbench:
    """One agent, or the global tools alone, on this machine."""

    agent: Agent
    settings: Settings
    search: AgentSearch
    is_agent: bool = True  # False: an empty agent that only holds the global tools

    def toolbox(self) -> Toolbox:
        """The functions in its files, with the paths of the originals."""
        return Toolbox(self.agent.global_tools, self._library(), self.agent.directory)

    def errors(self) -> list[Finding]:
        """Return the errors of its tools."""
        found = validate(self.agent, resources_of(self.settings, self.search))
        tools = ("E209", "E210", "E6")
        return [finding for finding in found if finding.code.startswith(tools)]

    @contextmanager
    def servers(self, workdir: Path) -> Iterator[McpServers]:
        """Yield its MCP servers; those that were started end with the block."""
        settings = self.settings
        pool = McpPool(McpLimits.of(settings), settings.tool_env)
        config, described = configured_servers(settings)[0], self.agent.graph or self.agent.normal
        own = config.layer("the agent", described.mcp_tools if described is not None else None)
        try:
            yield McpServers(
                config=config,
                entries=self.agent.mcp_servers if settings.mcp_server_support else (),
                pool=pool,
                secrets=settings.secrets,
                workdir=workdir,
                timeout_s=settings.mcp_timeout,
                layers=(*config.layers, own),
            )
        finally:
            pool.close()

    @contextmanager
    def calls(self, given: Mapping[str, str], workdir: Path) -> Iterator[Calls]:
        """Yield the functions in its files, to be called from an unpacked bundle as by a worker.

        Args:
            given: values of its variables.
            workdir: where the functions run; absolute.

        Raises:
            BundleError: it cannot be packed.
            MissingVariables: a variable has no value.
            SecretsMissing, SecretsUnusable: a default names a secret that is not available.
        """
        variables, secrets = self._variables(given)
        parts = parts_of(self.agent, self.settings, self._library(), NO_SKILLS)
        bundle = pack(parts, self.settings.bundle_limit_bytes)
        with OwnDirectory() as scratch:
            root = scratch.path / "bundle"
            unpack(bundle.data, bundle.digest, root)
            directory = agent_directory(root)
            toolbox = Toolbox(self.agent.global_tools, library_of(root), directory)
            yield Calls(
                {function.name: function for function in toolbox.functions},
                toolbox.instructions,
                ToolContext(
                    run_id=new_run_id(),
                    agent=self.agent.name if self.is_agent else "",
                    agent_directory=directory,
                    root=root,
                    workdir=workdir,
                    cache=data_dir() / "cache",
                    variables=variables,
                    secrets=secrets,
                ).under(self.settings),
            )

    def _library(self) -> ToolLibrary:
        return resources_of(self.settings, self.search).library()

    def _variables(self, given: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the values that functions get, and the secret ones among them."""
        described = self.agent.graph or self.agent.normal
        if described is None:
            return {}, ()
        values = {
            # Secrets are not resolved in given values, whose author must not be able to read them.
            name: value if name in given else self.settings.secrets.resolve(value)
            for name, value in resolve_variables(described, given).items()
        }
        return values, tuple(values[v.name] for v in described.variables if v.secret)


@dataclass(frozen=True, slots=True)
class Calls:
    """The functions of an unpacked agent, ready to be called."""

    functions: Mapping[str, Function]
    instructions: Function | None  # `_instructions`, which is not offered to models
    context: ToolContext

    def call(
        self,
        function: str,
        arguments: Mapping[str, Any],
        *,
        consents: Callable[[str], bool] | None,
        narrate: Callable[[str], None],
        log: Callable[[str, str], None],
    ) -> Any:
        """Call a function and return what a model would get.

        Args:
            function: one of `functions`.
            arguments: by name.
            consents: asked whether a guarded function may go ahead; None: it may.
            narrate: gets each line of its stdout.
            log: gets its stderr, each time it has run.
        """
        context = replace(self.context, auto_confirm=consents is None, narrate=narrate, log=log)
        approvals: tuple[str, ...] = ()
        while True:
            outcome = call_function(
                self.functions[function],
                arguments,
                context,
                idempotency_key=context.run_id,
                approvals=approvals,
            )
            if isinstance(outcome, Completed):
                return outcome.value
            if consents is None or not consents(outcome.question):
                return {"tool_call_error": f"{function}: declined: {outcome.question}"}
            approvals += (outcome.question,)


@contextmanager
def global_tools(settings: Settings, search: AgentSearch) -> Iterator[Workbench]:
    """Yield all global tools that agents may use, as if one agent had them and nothing else."""
    library = resources_of(settings, search).library()
    entries = sorted(library.names() - library.aliases.keys())
    entries = [entry for entry in entries if library.resolve(entry).files]
    with OwnDirectory() as scratch:
        directory = scratch.path / "global"
        directory.mkdir()
        config = json.dumps({"global_tools": entries})
        (directory / CONFIG_FILE).write_text(config, encoding="utf-8")
        yield Workbench(load_agent(directory), settings, search, is_agent=False)
